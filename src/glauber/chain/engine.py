"""The chain with the exact skip, every row at its own pace: a call of the network always answers for a full batch.

With the heat bath, the coin of a step alone says whether the step needs the network (identity 5), and what it writes if not.
All coins are known before the first call. So each row goes straight to its own next step that needs the network; what the
silent steps in between wrote is looked up. Token for token the result is that of one step after the other.

Shapes: n steps, B rows, b sites a step, L sites. Step s of a walk from time `begin` undoes the visits at begin - b (s + 1).
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from glauber.chain.captured import EAGER, Captured
from glauber.process import Process
from glauber.process.draws import categorical

Ask = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(rows, x, t, sites, S, now) → (rows, b, V) weights of the new tokens of these rows, given that the network is called."""


class Walk:
    """`n` steps of a chain whose random numbers are `u` (n, 2, B, b): a coin and a token for each site.

    Args:
        x: (B, L) the state at time `begin`, which is changed in place.
        free: (B, L) sites that are drawn.
        labels: silent steps write the mask instead of a noise token.
    """

    def __init__(self, process: Process, x: Tensor, begin: int, u: Tensor, free: Tensor, labels: bool):
        schedule, noise = process.schedule, process.noise
        self.schedule, self.x, self.begin, self.n, self.free = schedule, x, begin, len(u), free
        self.rank = schedule.order.argsort()  # where each site stands in the order
        times = self.times(torch.arange(self.n, device=x.device))
        visits = times[:, None] + torch.arange(schedule.block, device=x.device)
        signal = schedule.signal[visits][:, None]  # (n, 1, b)
        coin, self.draw = u.unbind(1)  # (n, B, b)
        self.called = (coin >= 1 - signal) & free[:, schedule.site(visits)].transpose(0, 1)
        self.silent = torch.full_like(coin, noise.mask, dtype=torch.int64) if labels else noise.draw(self.draw)
        self.due = self._due(self.called.any(-1))
        self.calls, self.row = len(self.due), torch.arange(len(x), device=x.device)
        self.call, self.before = torch.zeros(1, dtype=torch.int64, device=x.device), torch.full_like(self.row, -1)

    def _due(self, needed: Tensor) -> Tensor:
        """(calls, B) the step of each row's c-th call; n where the row has no more."""
        most = int(needed.sum(0).max()) if needed.numel() else 0
        step, row = needed.nonzero(as_tuple=True)
        due = torch.full((most, needed.shape[1]), self.n, device=needed.device)
        due[needed.cumsum(0)[step, row] - 1, row] = step
        return due

    @property
    def needed(self) -> int:
        """Rows that go through the network in all."""
        return int((self.due < self.n).sum())

    def times(self, step: Tensor) -> Tensor:
        return self.begin - self.schedule.block * (step + 1)

    def advance(self, ask: Ask, all_rows: bool) -> Tensor:
        """Every row to its next call, and through it. Rows that have no more are left out, or asked for nothing (`all_rows`,
        where shapes must not change). Whether every law could be drawn from, a scalar tensor."""
        step = self.due.index_select(0, self.call)[0]
        self._settle(step)
        rows = self.row if all_rows else (step < self.n).nonzero().squeeze(1)
        live, at = step[rows] < self.n, step[rows].clamp_max(self.n - 1)
        x, time = self.x[rows], self.times(at)
        sites = self.schedule.sites(time)
        now, free = x.gather(1, sites), self.free[rows].gather(1, sites)
        # A clamped site is evidence and no question: in its place a free one is asked about twice.
        questions = torch.where(free, sites, sites.gather(1, free.int().argmax(1, keepdim=True)))
        S = self.schedule.survival(time).gather(1, sites)
        law = ask(rows, x, time, questions, S, now)
        drawn = torch.where(self.called[at, rows], categorical(law, self.draw[at, rows]), self.silent[at, rows])
        self.x.index_copy_(0, rows, x.scatter(1, sites, torch.where(free & live[:, None], drawn, now)))
        self.before.copy_(step)
        self.call += 1
        total = law.sum(-1)
        return ((total > 0) & (total < torch.inf)).all()

    def _settle(self, step: Tensor) -> None:
        """What the silent steps since the last call wrote, in place: x becomes each row's state before `step` (B,)."""
        b, L = self.schedule.block, self.schedule.length
        since = (self.rank // b * b - self.times(step)[:, None] - 1) % L + 1  # how much later in time the site was last visited
        last = step[:, None] - since // b  # (B, L) the step that did
        written = (last >= 0) & (last > self.before[:, None]) & self.free
        token = self.silent[last.clamp_min(0), self.row[:, None], self.rank % b]
        self.x.copy_(torch.where(written, token, self.x))

    def finish(self) -> Tensor:
        """The state after all steps."""
        self._settle(torch.full_like(self.before, self.n))
        return self.x


def walk(steps: Walk, ask: Ask, recorded: bool, bar: Callable[[range], Iterable[int]]) -> Tensor:
    """The whole walk. `recorded`: on a GPU one call is recorded, and replayed for the others."""
    recorded = recorded and steps.calls > 2 * EAGER
    healthy = torch.ones((), dtype=torch.bool, device=steps.x.device)

    def one() -> Tensor:
        return healthy.logical_and_(steps.advance(ask, all_rows=recorded))

    advance: Callable[[], Tensor] = Captured(one) if recorded else one
    for _ in bar(range(steps.calls)):
        advance()
    if not bool(healthy):
        raise ValueError("the conditional answered with NaN, or left some site no token; are its weights whole?")
    return steps.finish()
