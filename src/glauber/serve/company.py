"""Rows of several requests in one chain. Each has its own random numbers, so company changes nothing."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.chain.driver import OnStep
from glauber.chain.step import Rows
from glauber.method import Run
from glauber.process.draws import RowGenerators
from glauber.serve import limits
from glauber.serve.job import Job, rows_of
from glauber.tasks.steps import Draw

Deliver = Callable[[Job, Tensor], None]
Fail = Callable[[Job, BaseException], None]


class Abandoned(Exception):
    """Nobody waits for any row of the chain."""


class Member(NamedTuple):
    """A request and its rows of the chain."""

    job: Job
    draw: Draw
    here: slice


def together(jobs: Sequence[Job]) -> list[Job]:
    """The first, and those of the others that can share its chain."""
    taken, rows = [jobs[0]], 0 if jobs[0].draw is None else rows_of(jobs[0].draw)
    for job in jobs[1:]:
        if job.key is not None and job.key == jobs[0].key and job.draw is not None:
            rows += rows_of(job.draw)
            if rows > limits.ROWS:
                break
            taken.append(job)
    return taken


class SharedChain:
    """One run of a chain for several requests, each of which gets its rows as soon as they are settled."""

    def __init__(self, jobs: Sequence[Job], deliver: Deliver, fail: Fail):
        self.members: list[Member] = []
        first = 0
        for job in jobs:
            assert job.draw is not None
            self.members.append(Member(job, job.draw, slice(first, first := first + rows_of(job.draw))))
        self.number, self.deliver, self.fail, self.left = first, deliver, fail, set(range(len(jobs)))
        self.sampler = self.members[0].draw.sampler
        process = self.sampler.process
        self.state = Rows.of(first, self.sampler.schedule.block, process.noise.probs.device)
        self.random = RowGenerators([(part.draw.run.generator, rows_of(part.draw)) for part in self.members])  # type: ignore[misc]

    def run(self) -> None:
        """Until each member has its rows, or is gone."""
        for job, _, here in self.members:
            job.rows = self.state.part(here)
        try:
            self.sampler.draw(None if self._start() else self.number, self._merged())
        except Abandoned:
            return

    def _merged(self) -> Run:
        runs = [member.draw.run for member in self.members]
        return Run(
            self.random,
            self._clamp(),
            self._start(),
            min(run.stop for run in runs),
            self._absent(),
            self._rules(),
            self._on_step,
            rows=self.state,
        )

    def _clamp(self) -> tuple[Tensor, Tensor] | None:
        if all(member.draw.run.clamp is None for member in self.members):
            return None
        shape = (self.number, self.sampler.length)
        mask, tokens = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.int64)
        for _, draw, here in self.members:
            if draw.run.clamp is not None:  # a mask and tokens: no task gives a table
                given, values = draw.run.clamp
                mask[here], tokens[here] = given, values  # type: ignore[assignment]
        return mask, tokens

    def _start(self) -> tuple[Tensor, int] | None:
        starts = [member.draw.run.start for member in self.members]
        if starts[0] is None:
            return None
        return torch.cat([torch.as_tensor(start[0]) for start in starts if start is not None]), starts[0][1]

    def _absent(self) -> Tensor | None:
        if all(member.draw.run.absent is None for member in self.members):
            return None
        away = torch.zeros(self.number, self.sampler.length, dtype=torch.bool)
        for _, draw, here in self.members:
            if draw.run.absent is not None:
                away[here] = draw.run.absent  # type: ignore[assignment]
        return away

    def _rules(self) -> list[Rule]:
        """One for each set of barred tokens, which few are."""
        found: dict[bytes, Rule] = {}
        for _, draw, here in self.members:
            for sites, barred in draw.run.rules:
                none = torch.zeros(self.number, self.sampler.length, dtype=torch.bool)
                places, _ = found.setdefault(barred.numpy().tobytes(), (none, barred))
                places[here] |= sites
        return list(found.values())

    def _on_step(self, t: int, x: Tensor) -> None:
        for number in sorted(self.left):
            job, draw, here = self.members[number]
            if not job.ended and draw.run.on_step is not None:
                self._show(job, draw.run.on_step, t, x[here])
            settled = t <= draw.run.stop or bool(self.state.gone[here].all())
            if not settled and not job.ended:
                continue
            self.left.discard(number)
            self.state.gone[here] = True
            self.random.parts[number] = (None, rows_of(draw))  # its own generator stands where it would if it were alone
            calls = self.state.calls[here].double().mean().item()
            job.calls += calls
            if draw.run.record is not None:
                draw.run.record.calls = calls
            if not job.ended:
                self.deliver(job, x[here].clone())
        if not self.left:
            raise Abandoned

    def _show(self, job: Job, on_step: OnStep, t: int, x: Tensor) -> None:
        """What goes wrong there is no matter of the others."""
        try:
            on_step(t, x)
        except Exception as error:
            self.fail(job, error)
