"""The chain with the exact skip, every row at its own pace: the same tokens with fewer, fuller calls.

With the heat bath, the coin of a step alone says whether the step needs the network (identity 5), and what it writes if not.
All coins are known before the first call. So each row goes straight to its own next step that needs the network; what the
noise-only steps in between wrote is looked up.

The result is, token for token, that of one step after the other, as far as the network's answer for a row does not depend on
the rows beside it; on a GPU a product of another size may round otherwise.

Shapes: n steps, B rows, b sites a step, L sites; R of the rows. Step s of a walk from time `begin` reverses the visits at
begin - b (s + 1).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.chain.runner import Graph
from glauber.chain.step import NO_LAW, add_log_law, query_sites
from glauber.process import Process
from glauber.process.draws import categorical

LOOK = 16
"""Replayed steps between two looks at whether all is done, each of which makes a GPU wait."""


class Due(NamedTuple):
    """A step of some rows that needs the network: their state before it, and what belongs to the step."""

    x: Tensor  # (R, L)
    step: Tensor  # (R,)
    time: Tensor  # (R,)
    live: Tensor  # (R, 1) whether the row has such a step
    sites: Tensor  # (R, b)
    free: Tensor  # (R, b) bool, sites that are drawn
    now: Tensor  # (R, b) the tokens there
    called: Tensor  # (R, b) bool, sites whose new token is the network's
    known: Tensor  # (R, b) what the others become

    def after(self, drawn: Tensor) -> Tensor:
        """(R, L) the state after the step, if the network's tokens are `drawn` (R, b)."""
        new = torch.where(self.live, torch.where(self.called, drawn, self.known), self.now)
        return self.x.scatter(1, self.sites, new)


Law = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(rows, x, time, sites, S, now) → (R, b, V) weights of the new tokens of these rows, given that the network is called."""


class Walk:
    """`n` steps of a chain whose random numbers are `u` (n, 2, B, b): a coin and a token for each site.

    Args:
        x: (B, L) the state at time `begin`, which is changed in place.
        free: (B, L) sites that are drawn.
        mark_noise: noise-only steps write the mask instead of a noise token.
        log_law: (B,) to which the log-probability of each drawn token is added.

    `advance` until `left` is 0; the state is then what `finish` gives.
    """

    def __init__(
        self,
        process: Process,
        x: Tensor,
        begin: int,
        u: Tensor,
        free: Tensor,
        mark_noise: bool,
        log_law: Tensor | None = None,
    ):
        self.log_law = log_law
        schedule, noise = process.schedule, process.noise
        self.schedule, self.x, self.begin, self.n, self.free = schedule, x, begin, len(u), free
        times = self.times(torch.arange(self.n, device=x.device))
        visits = times[:, None] + torch.arange(schedule.block, device=x.device)
        sites = schedule.site(visits)  # (n, b)
        signal = schedule.signal[visits][:, None]  # (n, 1, b)
        coin, self.draw = u.unbind(1)  # (n, B, b)
        self.called = (coin >= 1 - signal) & free[:, sites].transpose(0, 1)
        marks = torch.full_like(coin, noise.mask, dtype=torch.int64)
        self.call_free = marks if mark_noise else noise.draw(self.draw, sites[:, None])
        self.row = torch.arange(len(x), device=x.device)
        needed = self.called.any(-1)
        self.due, self.number = self._due(needed), needed.sum(0)
        self.calls = len(self.due) - 1  # of the row that has most
        self.done, self.before = torch.zeros_like(self.row), torch.full_like(self.row, -1)

    def _due(self, needed: Tensor) -> Tensor:
        """(calls + 1, B) the step of each row's c-th call; n where the row has no more."""
        most = int(needed.sum(0).max()) if needed.numel() else 0
        step, row = needed.nonzero(as_tuple=True)
        due = torch.full((most + 1, needed.shape[1]), self.n, device=needed.device)
        due[needed.cumsum(0)[step, row] - 1, row] = step
        return due

    def times(self, step: Tensor) -> Tensor:
        return self.begin - self.schedule.block * (step + 1)

    @property
    def left(self) -> int:
        """Calls of the row that has most left."""
        return int((self.number - self.done).max())

    def advance(self, law: Law, all_rows: bool) -> Tensor:
        """Every row through its next call. Rows that have no more are left out, or drawn for and not changed (`all_rows`, where
        shapes must not change). Whether every law could be drawn from, a scalar tensor."""
        rows = self.row if all_rows else (self.done < self.number).nonzero().squeeze(1)
        due = self._next(rows)
        drawn, sound = self._draw(due, rows, law)
        self.x.index_copy_(0, rows, due.after(drawn))
        self.before.index_copy_(0, rows, due.step)
        self.done.index_copy_(0, rows, torch.minimum(self.done[rows] + 1, self.number[rows]))
        return sound

    def _next(self, rows: Tensor) -> Due:
        """The next step of these rows (R,) that needs the network."""
        step = self.due[self.done[rows], rows]
        x = self._settled(self.x[rows], step, self.before[rows], rows)
        at = step.clamp_max(self.n - 1)
        time = self.times(at)
        sites = self.schedule.sites(time)
        now, free = x.gather(1, sites), self.free[rows].gather(1, sites)
        known = torch.where(free, self.call_free[at, rows], now)
        return Due(x, step, time, (step < self.n)[:, None], sites, free, now, self.called[at, rows], known)

    def _draw(self, due: Due, rows: Tensor, law: Law) -> tuple[Tensor, Tensor]:
        """(R, b) new tokens from the network's law; and whether all that are used could be drawn."""
        S = self.schedule.survival(due.time).gather(1, due.sites)
        weights = law(rows, due.x, due.time, query_sites(due.sites, due.free), S, due.now)
        total = weights.sum(-1)
        sound = (total > 0) & (total < torch.inf) | ~(due.called & due.live)  # a sum of NaN is neither
        drawn = categorical(weights, self.draw[due.step.clamp_max(self.n - 1), rows])
        if self.log_law is not None:
            add_log_law(self.log_law, rows, weights, drawn, due.called & due.live)
        return drawn.clamp_max(weights.shape[-1] - 1), sound.all()  # of what is no law, some token

    def _settled(self, x: Tensor, step: Tensor, before: Tensor, rows: Tensor) -> Tensor:
        """x, the state after the step `before` (R,), with what the noise-only steps from there to `step` (R,) wrote."""
        b, L = self.schedule.block, self.schedule.length
        rank = self.schedule._rank
        since = (rank // b * b - self.times(step)[:, None] - 1) % L + 1  # how much later in time a site was last visited
        last = step[:, None] - since // b  # (R, L) the step that did
        written = (last > before[:, None]) & self.free[rows]
        return torch.where(written, self.call_free[last.clamp_min(0), rows[:, None], rank % b], x)

    def finish(self) -> Tensor:
        """The state after all steps."""
        return self._settled(self.x, torch.full_like(self.before, self.n), self.before, self.row)


def walk(
    steps: Walk, law: Law, graph: Graph | None, bar: Callable[[int], AbstractContextManager[Any]]
) -> tuple[Tensor, int, int]:
    """The state after the whole walk, the network's calls, and the rows that needed them.

    graph: of the runner, see `glauber.chain.runner`; none to go step by step.
    """
    healthy = torch.ones((), dtype=torch.bool, device=steps.x.device)

    def one(all_rows: bool) -> Tensor:
        return healthy.logical_and_(steps.advance(law, all_rows))

    graphed = None if graph is None else graph(partial(one, True), steps.calls)
    advance = graphed or partial(one, False)
    calls = 0
    with bar(steps.calls) as shown:
        while (left := steps.left) > 0:
            for _ in range(1 if graphed is None else min(LOOK, left)):
                advance()
                calls += 1
            shown.update(left - steps.left)
    if not bool(healthy):
        raise ValueError(NO_LAW)
    return steps.finish(), calls, int(steps.number.sum())
