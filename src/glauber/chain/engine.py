"""The chain with the exact skip, every row at its own pace and some steps ahead: the same tokens with fewer, fuller calls.

With the heat bath, the coin of a step alone says whether the step needs the network (identity 5), and what it writes if not.
All coins are known before the first call. So each row goes straight to its own next step that needs the network; what the
silent steps in between wrote is looked up.

A call may also answer for a row's next k such steps, each on the state that is guessed for it. A step's draw is a function of
its state and of random numbers that are fixed; so the answers count up to the first that was guessed wrong, and that one
counts, too. What was drawn on a wrong state is the next guess: sites far apart hardly depend on each other, and mostly it is
right.

Either way the result is, token for token, that of one step after the other, as far as the network's answer for a row does not
depend on the rows beside it; on a GPU a product of another size may round otherwise.

Shapes: n steps, B rows, b sites a step, L sites. Step s of a walk from time `begin` undoes the visits at begin - b (s + 1).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.process import Process
from glauber.process.draws import categorical
from glauber.runtime.cuda_graph import CudaGraph

Ask = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(rows, x, t, sites, S, now) → (rows, b, V) weights of the new tokens of these rows, given that the network is called."""
LOOK = 16
"""Recorded calls between two looks at whether all is done, each of which makes a GPU wait."""
WORTH = 32
"""Calls that a recording must save."""
UNKNOWN = -1


class Query(NamedTuple):
    """A step that needs the network, for some rows: their state before it, and what belongs to the step."""

    x: Tensor  # (R, L)
    step: Tensor  # (R,)
    live: Tensor  # (R, 1) whether there is such a step
    sites: Tensor  # (R, b)
    now: Tensor  # (R, b) the tokens there
    written: Tensor  # (R, b) bool, sites whose new token is not known from the coin
    known: Tensor  # (R, b) what the others become

    def after(self, drawn: Tensor) -> Tensor:
        """(R, b) the new tokens, if the network's were `drawn`."""
        return torch.where(self.live, torch.where(self.written, drawn, self.known), self.now)


class Walk:
    """`n` steps of a chain whose random numbers are `u` (n, 2, B, b): a coin and a token for each site.

    Args:
        x: (B, L) the state at time `begin`, which is changed in place.
        free: (B, L) sites that are drawn.
        labels: silent steps write the mask instead of a noise token.
        ahead: k, how many steps of each row one call answers for. The network then sees states that cannot occur.

    `advance` until all that are due are `done`; the state is then what `finish` gives.
    """

    def __init__(self, process: Process, x: Tensor, begin: int, u: Tensor, free: Tensor, mark_noise: bool, ahead: int = 1):
        schedule, noise = process.schedule, process.noise
        self.schedule, self.x, self.begin, self.n, self.free, self.ahead = schedule, x, begin, len(u), free, ahead
        times = self.times(torch.arange(self.n, device=x.device))
        visits = times[:, None] + torch.arange(schedule.block, device=x.device)
        signal = schedule.signal[visits][:, None]  # (n, 1, b)
        coin, self.draw = u.unbind(1)  # (n, B, b)
        self.called = (coin >= 1 - signal) & free[:, schedule.site(visits)].transpose(0, 1)
        self.call_free = torch.full_like(coin, noise.mask, dtype=torch.int64) if mark_noise else noise.draw(self.draw)
        self.row = torch.arange(len(x), device=x.device)
        needed = self.called.any(-1)
        self.due, self.number = self._due(needed), needed.sum(0)
        self.calls = len(self.due) - ahead  # of the row that has most
        self.done, self.before = torch.zeros_like(self.row), torch.full_like(self.row, -1)
        self.guess = torch.full((len(self.due), *self.x.shape[:1], schedule.block), UNKNOWN, device=x.device)

    def _due(self, needed: Tensor) -> Tensor:
        """(calls + k, B) the step of each row's c-th call; n where the row has no more."""
        most = int(needed.sum(0).max()) if needed.numel() else 0
        step, row = needed.nonzero(as_tuple=True)
        due = torch.full((most + self.ahead, needed.shape[1]), self.n, device=needed.device)
        due[needed.cumsum(0)[step, row] - 1, row] = step
        return due

    def times(self, step: Tensor) -> Tensor:
        return self.begin - self.schedule.block * (step + 1)

    def advance(self, ask: Ask, all_rows: bool) -> Tensor:
        """Every row through its next calls, as many as can be. Rows that have no more are left out, or asked for nothing
        (`all_rows`, where shapes must not change). Whether every law could be drawn from, a scalar tensor."""
        rows = self.row if all_rows else (self.done < self.number).nonzero().squeeze(1)
        x, before, number = self.x[rows], self.before[rows], self.done[rows]
        queries, guesses = [], []
        for k in range(self.ahead):
            place = number + k
            query = self._query(x, self.due[place, rows], before, rows)
            guess = self.guess[place, rows]
            guesses.append(query.after(torch.where(guess == UNKNOWN, query.now, guess)))
            queries.append(query)
            x, before = query.x.scatter(1, query.sites, guesses[-1]), query.step
        drawn, sound = self._draw(queries, rows, ask)
        made = [query.after(tokens) for query, tokens in zip(queries, drawn, strict=True)]
        for k, tokens in enumerate(drawn):
            self.guess[number + k, rows] = tokens
        right = torch.stack([(a == b).all(-1) for a, b in zip(made, guesses, strict=True)]).long()  # (k, R)
        last = right[:-1].cumprod(0).sum(0)  # (R,) the last answer that counts

        def at_last(parts: list[Tensor]) -> Tensor:
            return torch.stack(parts)[last, torch.arange(len(rows), device=last.device)]

        x, sites = at_last([query.x for query in queries]), at_last([query.sites for query in queries])
        self.x.index_copy_(0, rows, x.scatter(1, sites, at_last(made)))
        self.before.index_copy_(0, rows, at_last([query.step for query in queries]))
        self.done.index_copy_(0, rows, torch.minimum(number + last + 1, self.number[rows]))
        counts = torch.arange(self.ahead, device=last.device)[:, None] <= last  # (k, R)
        return (sound | ~counts).all()

    def _query(self, x: Tensor, step: Tensor, before: Tensor, rows: Tensor) -> Query:
        """What step (R,) asks, if x (R, L) is the state after the step `before`."""
        x = self._settled(x, step, before, rows)
        at, live = step.clamp_max(self.n - 1), (step < self.n)[:, None]
        sites = self.schedule.sites(self.times(at))
        now, free = x.gather(1, sites), self.free[rows].gather(1, sites)
        return Query(x, step, live, sites, now, self.called[at, rows], torch.where(free, self.call_free[at, rows], now))

    def _draw(self, queries: list[Query], rows: Tensor, ask: Ask) -> tuple[tuple[Tensor, ...], Tensor]:
        """(R, b) new tokens for each query, all from one call; and (k, R) whether their laws could be drawn from."""
        x, step, live, sites, now, written, _ = (torch.cat(part) for part in zip(*queries, strict=True))
        every = rows.repeat(len(queries))
        at, free = step.clamp_max(self.n - 1), self.free[every].gather(1, sites)
        # A clamped site is evidence and no question: in its place a free one is asked about twice.
        query_sites = torch.where(free, sites, sites.gather(1, free.int().argmax(1, keepdim=True)))
        time = self.times(at)
        law = ask(every, x, time, query_sites, self.schedule.survival(time).gather(1, sites), now)
        total = law.sum(-1)
        sound = ((total > 0) & (total < torch.inf) | ~(written & live)).all(-1)  # a sum of NaN is neither
        drawn = categorical(law, self.draw[at, every]).clamp_max(law.shape[-1] - 1)  # of what is no law, some token
        return drawn.chunk(len(queries)), sound.view(len(queries), -1)

    def _settled(self, x: Tensor, step: Tensor, before: Tensor, rows: Tensor) -> Tensor:
        """x, the state after the step `before` (R,), with what the silent steps from there to `step` (R,) wrote."""
        b, L = self.schedule.block, self.schedule.length
        rank = self.schedule._rank
        since = (rank // b * b - self.times(step)[:, None] - 1) % L + 1  # how much later in time a site was last visited
        last = step[:, None] - since // b  # (R, L) the step that did
        written = (last > before[:, None]) & self.free[rows]
        return torch.where(written, self.call_free[last.clamp_min(0), rows[:, None], rank % b], x)

    def finish(self) -> Tensor:
        """The state after all steps."""
        return self._settled(self.x, torch.full_like(self.before, self.n), self.before, self.row)


def walk(steps: Walk, ask: Ask, graphed: bool, bar: Callable[[int], AbstractContextManager[Any]]) -> tuple[Tensor, int, int]:
    """The state after the whole walk, the network's calls, and the rows it was asked about.

    recorded: on a GPU, one call is recorded and then replayed.
    """
    graphed = graphed and steps.calls > WORTH
    healthy = torch.ones((), dtype=torch.bool, device=steps.x.device)

    def one() -> Tensor:
        return healthy.logical_and_(steps.advance(ask, all_rows=graphed))

    advance: Callable[[], Tensor] = CudaGraph(one, steps.x.device) if graphed else one
    calls, asked, together = 0, 0, LOOK if graphed else 1
    with bar(steps.calls) as shown:
        while (left := int((steps.number - steps.done).max())) > 0:
            for _ in range(min(together, left)):
                asked += steps.ahead * (len(steps.x) if graphed else int((steps.done < steps.number).sum()))
                advance()
                calls += 1
            shown.update(left - int((steps.number - steps.done).max()))
    if not bool(healthy):
        raise ValueError("the conditional answered with NaN, or left some site no token; are its weights whole?")
    return steps.finish(), calls, int(steps.number.sum()) if steps.ahead == 1 else asked
