"""States of a chain as events of a stream."""

from typing import Any

import torch
from torch import Tensor

from glauber.chain.driver import OnStep
from glauber.codec import TextCodec
from glauber.process import Schedule
from glauber.serve.fields import Streamed
from glauber.serve.job import Job
from glauber.serve.limits import STATES
from glauber.tasks.template import row_texts


def every_of(request: Streamed, steps: int, states: int = STATES, usual: int = 1) -> int:
    """After how many steps of a chain a state is told."""
    least = -(-steps // states)
    if request.every is not None and request.every < least:
        raise ValueError(f"a stream tells at most {states} states; this one needs every to be at least {least}")
    return max(usual, least) if request.every is None else request.every


class TextShow:
    """Tells the first state of some rows of text, and then what changes.

    Args:
        tokens, given: (n,) of the whole text; what is not given is of no meaning.
        about: more for the first event.
        rows: how many are drawn, if more than are asked for.
    """

    def __init__(
        self,
        job: Job,
        schedule: Schedule,
        codec: TextCodec,
        tokens: Tensor,
        given: Tensor,
        request: Streamed,
        about: dict[str, Any],
        rows: int | None = None,
    ):
        self.job, self.schedule, self.given, self.about, self.request = job, schedule, given, about, request
        self.codec = codec
        self.every = every_of(request, len(schedule.times))
        self.told = torch.where(given, tokens, -1).repeat(rows or request.n, 1)
        self.told_drawn = torch.zeros_like(self.told, dtype=torch.bool)
        self.begun = False

    def __call__(self, given: Tensor | None, size: int, stop: int, start: int = 0, rows: Tensor | None = None) -> OnStep:
        """The `watch` of `filling`; unless told otherwise of all rows of a text without windows."""
        rows, first = torch.arange(len(self.told)) if rows is None else rows, True
        here = slice(start, start + min(self.schedule.length, self.told.shape[1] - start))
        wide = here.stop - here.start
        free = ~(self.given[here] if given is None else given[:wide])
        drawn = self.told_drawn[:, here].clone()
        drawn[rows] &= ~free

        def on_step(t: int, x: Tensor) -> None:
            nonlocal first
            x = x[:, :wide].cpu()
            if not self.begun:
                self._begin(here, x)
            elif not first:
                self._mark(t, rows, drawn)
            if (self.schedule.steps - t) // self.schedule.block % self.every == 0 or t <= stop:
                self._tell(t, here, free, x, drawn, first)
            first = False

        return on_step

    def _mark(self, t: int, rows: Tensor, drawn: Tensor) -> None:
        """Which of the sites (num, n) that the last step visited in these rows hold a token of the network's."""
        seen = self.job.rows
        assert seen is not None  # it is there as soon as a step is
        sites = self.schedule.sites(torch.tensor([t], device=self.schedule.order.device))[0].cpu()
        inside = sites < drawn.shape[1]
        drawn[rows[:, None], sites[inside]] = seen.called.cpu()[:, inside]

    def _begin(self, here: slice, x: Tensor) -> None:
        free = ~self.given
        self.told[:, here] = torch.where(free[here], x, self.told[:, here])
        sites = ["given" if given else "gap" for given in self.given.tolist()]
        rows = self.told.tolist()
        self.pieces = [self._texts(row) for row in rows]
        tokens = [[token if token >= 0 else None for token in row] for row in rows]
        self.job.tell(
            "start",
            {
                "model": self.request.model,
                "kind": "text",
                "rows": len(rows),
                "steps": self.schedule.steps,
                "every": self.every,
                "sites": sites,
                "tokens": tokens,
                "pieces": self.pieces,
                **self.about,
            },
        )
        self.begun = True

    def _tell(self, t: int, here: slice, free: Tensor, x: Tensor, drawn: Tensor, first: bool) -> None:
        told, known = self.told[:, here], self.told_drawn[:, here]
        changed = ((told != x) | (known != drawn)) & free
        told[:], known[:] = torch.where(free, x, told), drawn
        changes = [
            change for row in changed.any(1).nonzero().flatten().tolist() for change in self._changes(row, changed[row], here)
        ]
        if changes or first:
            rows = self.job.rows
            calls = 0 if rows is None else int(rows.calls.max())
            self.job.tell("state", {"step": self.schedule.steps - t, "t": t, "calls": calls, "changes": changes})

    def _changes(self, row: int, changed: Tensor, here: slice) -> list[list[Any]]:
        """Of one row: the sites that changed, and those whose text did since a character is made of several tokens."""
        tokens, drawn = self.told[row].tolist(), self.told_drawn[row].tolist()
        before, self.pieces[row] = self.pieces[row], self._texts(tokens)
        others = [
            site for site, given in enumerate(self.given.tolist()) if not given and self.pieces[row][site] != before[site]
        ]
        sites = sorted({here.start + site for site in changed.nonzero().flatten().tolist()} | set(others))
        return [[row, k, tokens[k], self.pieces[row][k], "drawn" if drawn[k] else "noise"] for k in sites]

    def _texts(self, row: list[int]) -> list[str | None]:
        """Of each token; none where none stands yet."""
        texts = row_texts(self.codec, [self.codec.vocab if token < 0 else token for token in row])
        return [None if token < 0 else text for token, text in zip(row, texts, strict=True)]
