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
from glauber.tasks.template import token_texts


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
        self.texts = token_texts(codec)
        self.every = every_of(request, len(schedule.times))
        self.told = torch.where(given, tokens, -1).repeat(rows or request.n, 1)
        self.told_drawn = torch.zeros_like(self.told, dtype=torch.bool)
        self.begun = False

    def __call__(self, given: Tensor | None, size: int, stop: int, start: int = 0, rows: Tensor | None = None) -> OnStep:
        """The `watch` of `filling`; by default of all rows of a whole text."""
        rows = torch.arange(len(self.told)) if rows is None else rows
        first = True
        drawn = torch.zeros(len(rows), self.told.shape[1], dtype=torch.bool)
        wide = min(self.schedule.length, self.told.shape[1] - start)
        here = slice(start, start + wide)
        free = ~(self.given[here] if given is None else given[:wide])
        block = self.schedule.block

        def on_step(t: int, x: Tensor) -> None:
            nonlocal first
            x, seen = x[:, :wide].cpu(), self.job.rows
            if not self.begun:
                self._begin(here, x)
            elif not first and seen is not None:
                now = self.schedule.sites(torch.tensor([t], device=self.schedule.order.device))[0].cpu()
                inside = now < wide
                drawn[:, start + now[inside]] = seen.called.cpu()[:, inside]
            steps = (self.schedule.steps - t) // block
            if steps % self.every == 0 or t <= stop:
                self._tell(t, here, rows, free, x, drawn[:, here], first)
            first = False

        return on_step

    def _begin(self, here: slice, x: Tensor) -> None:
        free = ~self.given
        self.told[:, here] = torch.where(free[here], x, self.told[:, here])
        sites = ["given" if given else "gap" for given in self.given.tolist()]
        rows = self.told.tolist()
        pieces = [[self._piece(token) for token in row] for row in rows]
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
                "pieces": pieces,
                **self.about,
            },
        )
        self.begun = True

    def _tell(self, t: int, here: slice, rows: Tensor, free: Tensor, x: Tensor, drawn: Tensor, first: bool) -> None:
        told, known = self.told[rows, here], self.told_drawn[rows, here]
        changed = ((told != x) | (known != drawn)) & free
        changes = [
            [
                int(rows[row]),
                here.start + site,
                token := int(x[row, site]),
                self._piece(token),
                "drawn" if drawn[row, site] else "noise",
            ]
            for row, site in changed.nonzero().tolist()
        ]
        self.told[rows, here], self.told_drawn[rows, here] = torch.where(free, x, told), torch.where(free, drawn, known)
        if changes or first:
            seen = self.job.rows
            calls = 0 if seen is None else int(seen.calls.max())
            self.job.tell("state", {"step": self.schedule.steps - t, "t": t, "calls": calls, "changes": changes})

    def _piece(self, token: int) -> str | None:
        return self.texts[token] if 0 <= token < len(self.texts) else None
