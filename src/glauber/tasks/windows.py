"""Gaps whose length is known, drawn by the chain: in a text longer than the model's L through a window around each gap."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.chain.driver import OnStep
from glauber.method import Run
from glauber.method.sampling import Record
from glauber.sampler import Sampler
from glauber.tasks.constraints import Filling
from glauber.tasks.seams import seam_sites
from glauber.tasks.steps import Draw, Steps
from glauber.tasks.template import Pattern, Template

ROUNDS = 8
"""How often a fill is drawn that is not as wanted."""
Watch = Callable[..., OnStep]
"""Called for each chain with the given sites (L,), how many sites are text, and the last step; and by name with the `start` of
its window in the text and `rows`, (r,) which rows of the text it draws. Makes the chain's `on_step`, which sees all rows."""


class Chosen(NamedTuple):
    """A text that was filled in, as tokens."""

    template: Template
    row: Tensor
    """(n,) of the whole text."""
    calls: float | None
    """Network calls made for it, where they were counted."""
    effective: float | None = None
    """The effective sample size of the draws that it was chosen among, if there were several."""


class Window:
    """L sites of a text with gaps, from `start` on, of which some gaps are wanted.

    Attributes:
        size: how many sites are text; those beyond are absent.
        given, wanted: (L,) bool.
        rules: what the gaps may not hold.
    """

    def __init__(self, given: Tensor, start: int, gaps: Sequence[slice], length: int, rules: Sequence[Rule]):
        self.here, self.gaps = slice(start, start + length), gaps
        self.size = len(given[self.here])
        self.missing = length - self.size
        self.given = F.pad(given[self.here], (0, self.missing))
        self.rules = [(F.pad(sites[self.here], (0, self.missing)), barred) for sites, barred in rules]
        self.wanted = torch.zeros(length, dtype=torch.bool)
        for gap in gaps:
            self.wanted[gap.start - start : gap.stop - start] = True

    def rows(self, x: Tensor) -> Tensor:
        """(rows, L) of tokens of the whole text."""
        return F.pad(x[:, self.here], (0, self.missing))


def windows(n: int, length: int, gaps: Sequence[slice]) -> list[tuple[int, list[slice]]]:
    """Where each window of L tokens starts, and the gaps that are filled through it."""
    if n <= length:
        return [(0, list(gaps))]
    return [(min(max((gap.start + gap.stop - length) // 2, 0), n - length), [gap]) for gap in gaps]


def through_windows(job: Filling, pattern: Pattern, num: int, watch: Watch | None) -> Steps[list[Chosen]]:
    """`num` fills, window after window."""
    template, L = pattern.template([size.start for size in pattern.sizes]), job.sampler.length
    x, given, calls = template.tokens.repeat(num, 1), template.given, torch.zeros(num, dtype=torch.float64)
    rules = job.constraints.rules(template, job.codec)
    for start, gaps in windows(len(template.tokens), L, template.gaps):
        window = Window(given, start, gaps, L, rules)
        yield from _through(window, job, template, x, calls, watch)
        for gap in gaps:
            given[gap] = True
    known = [None if cost != cost else cost for cost in calls.tolist()]
    return [Chosen(template, row, cost) for row, cost in zip(x, known, strict=True)]


def _through(window: Window, job: Filling, template: Template, x: Tensor, calls: Tensor, watch: Watch | None) -> Steps[None]:
    """Fill the window's gaps in the texts x (num, n), and count the calls (num,). What is not as wanted is drawn again."""
    sampler, constraints, start = job.sampler, job.constraints, window.here.start
    stop = sampler.schedule.settled(window.wanted)
    seams = [site - start for site in seam_sites(template, window.gaps)] if constraints.joined else []
    left, free = torch.arange(len(x)), torch.ones(len(x), dtype=torch.bool)
    for _ in range(ROUNDS):
        on_step = None if watch is None else watch(window.given, window.size, stop, start=start, rows=left)
        record, seen = Record(), None if on_step is None else _of_all(on_step, window.rows(x), left)
        run = Run(job.generator, rules=window.rules, on_step=seen, progress=job.progress, record=record)
        drawn = yield from fill(sampler, window.given, window.rows(x[left]), window.wanted, window.size, run)
        for gap in window.gaps:
            x[left, gap] = drawn[:, gap.start - start : gap.stop - start]
        calls[left] += torch.nan if record.calls is None else record.calls + len(seams)
        now = x[left]
        free[left] = torch.tensor([constraints.allows(template, job.codec, row, window.gaps) for row in now], dtype=torch.bool)
        text = (torch.arange(sampler.length) < window.size).expand(len(left), -1)
        left = left[~(constraints.joins(sampler, job.codec, [seams] * len(left), window.rows(now), text) & free[left])]
        if not len(left):
            return
    if not bool(free.all()):
        raise ValueError(f"{ROUNDS} draws in a row had a banned word in the gap; ban fewer words, or change the gap")


def _of_all(on_step: OnStep, rows: Tensor, left: Tensor) -> OnStep:
    """Shows all rows (num, L) where the chain runs for some of them again."""

    def seen(t: int, x: Tensor) -> None:
        on_step(t, x if len(left) == len(rows) else rows.index_copy(0, left, x.cpu()))

    return seen


def fill(sampler: Sampler, given: Tensor, x: Tensor, wanted: Tensor, size: int, run: Run) -> Steps[Tensor]:
    """(rows, L) tokens x with the sites that are not `given` drawn, until none of the `wanted` (L,) is visited any more.

    size: how many sites, from the first, are there at all.
    """
    stop = sampler.schedule.settled(wanted)
    rows = yield Draw(sampler, len(x), replace(run, clamp=(given, x), stop=stop, absent=beyond(sampler, size)))
    return rows.cpu()


def beyond(sampler: Sampler, size: int) -> Tensor | None:
    """(L,) bool, the absent sites of a row of so many tokens; None where the network cannot be told."""
    return torch.arange(sampler.length) >= size if sampler.knows_absent else None
