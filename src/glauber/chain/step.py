"""One step of the chain back, X_t from X_{t+b}."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.chain import kernels
from glauber.chain.banned import Rule, without_barred
from glauber.chain.counting import CallCounter
from glauber.chain.options import ChainOptions
from glauber.conditional import Conditional, StepLaw
from glauber.process import Process
from glauber.process.draws import categorical
from glauber.process.noise import probability


class Query(NamedTuple):
    """The arguments of a `Conditional`: of some rows, the state, the step, each site's survival, and the sites to draw."""

    x: Tensor  # (R, L)
    t: Tensor  # (R,)
    survival: Tensor  # (R, L)
    sites: Tensor  # (R, b)


@dataclass
class Rows:
    """What can be known of each row of a chain while it runs; and whoever watches it may take rows out."""

    gone: Tensor  # (B,) bool, set from outside: rows that are left as they are from the next step on
    calls: Tensor  # (B,) int64 the network calls so far
    called: Tensor  # (B, b) bool, the sites of the last step whose new token is the network's

    @classmethod
    def of(cls, number: int, block: int, device: torch.device) -> "Rows":
        """For so many rows, before the first step."""
        none = torch.zeros(number, dtype=torch.bool, device=device)
        return cls(none, none.long(), none[:, None].repeat(1, block))

    def part(self, here: slice) -> "Rows":
        """Of some of the rows; to take one out there takes it out here."""
        return Rows(self.gone[here], self.calls[here], self.called[here])


@dataclass(frozen=True)
class Chain:
    """What a chain draws from, and the step that it makes."""

    conditional: Conditional | StepLaw
    process: Process
    options: ChainOptions
    given: Tensor  # (B, L) clamped sites
    absent: Tensor  # (B, L) sites that are no part of the sequence
    rules: Sequence[Rule] = ()
    rows: Rows | None = None
    log_law: Tensor | None = None
    """(B,) to which the log-probability of each drawn token is added."""

    @property
    def free(self) -> Tensor:
        """(B, L) the sites that are drawn."""
        free = ~(self.given | self.absent)
        return free if self.rows is None else free & ~self.rows.gone[:, None]

    @property
    def may_skip(self) -> bool:
        """Whether only those steps call the network whose coin says so."""
        return self.options.may_skip(self.conditional)

    def reverse_step(self, x: Tensor, t: int, u: Tensor) -> Tensor:
        """X_t from X_{t+b}: all randomness comes from u (2, B, b), a coin and a token for each site."""
        schedule, noise, kernel = self.process.schedule, self.process.noise, self.options.kernel
        time = torch.full((len(x),), t, device=x.device)
        sites, keep = schedule.sites(time), schedule.keeps(time)
        survival, now = schedule.survival(time), x.gather(1, sites)
        S, free = survival.gather(1, sites), self.free.gather(1, sites)
        coin, draw = u
        odds = torch.zeros_like(S)
        if self.options.mark_noise:
            stay, call = kernels.marked(kernel, S, keep, now != noise.mask)
            new = torch.where(coin < stay, now, noise.mask)
            called = coin >= 1 - call
        else:
            pi_now = probability(noise.at(sites), now)
            odds = kernels.own_odds(kernel, keep, pi_now)
            stay, noise_only = kernels.call_free(S, odds, pi_now)
            new = torch.where(coin < stay, now, noise.draw(draw, sites))
            called = (coin >= stay + noise_only) & (S > 0) if self.may_skip else torch.ones_like(free)
        rows = (called & free if self.options.skip else free).any(1).nonzero().squeeze(1)  # the others need no network
        if len(rows):
            query = Query(x[rows], time[rows], self.conditioning(x[rows], survival[rows], rows), query_sites(sites, free)[rows])
            law = self.law_if_called(query, rows, t, S[rows], now[rows], odds[rows])
            drawn = categorical(law, draw[rows])
            if self.log_law is not None:
                add_log_law(self.log_law, rows, law, drawn, (called & free)[rows])
            new = torch.where(called, new.index_copy(0, rows, drawn), new)
        if self.rows is not None:
            self.rows.calls.index_add_(0, rows, torch.ones_like(rows))
            self.rows.called.copy_(called & free)
        return x.scatter(1, sites, torch.where(free, new, now))

    def law_if_called(
        self, query: Query, rows: Tensor, t: int | Tensor, S: Tensor, now: Tensor, odds: Tensor, check: bool = True
    ) -> Tensor:
        """(R, b, V) weights of the new tokens of the rows (R,), given that the coin calls the network."""
        noise, schedule, truncation = self.process.noise, self.process.schedule, self.options.truncation
        steps, done = schedule.steps, schedule.steps - t - schedule.block
        pi = noise.at(query.sites)
        log_law = noise.within(self._answer(query, check), query.sites)
        log_law = without_barred(log_law, query.sites, self.rules, rows)
        if isinstance(self.conditional, StepLaw):
            return kernels.step(truncation(log_law, done, steps, check), now, odds)
        if self.options.on_mixture:
            log_p = kernels.mixture(log_law.exp(), S, pi).log()
            return kernels.step(truncation(log_p, done, steps, check), now, odds)
        clean = truncation(log_law, done, steps, check)
        if self.options.mark_noise:
            return clean
        if self.may_skip:
            return kernels.residual(clean, S, now, odds, pi)
        return kernels.step(kernels.mixture(clean, S, pi), now, odds)

    def _answer(self, query: Query, check: bool) -> Tensor:
        """The conditional's, (R, b, V) in float64."""
        knows = self.conditional.step_law if isinstance(self.conditional, StepLaw) else self.conditional
        answer, due = knows(*query).double(), (*query.sites.shape, self.process.vocab)
        if answer.shape != due:
            raise ValueError(f"the conditional answered with shape {tuple(answer.shape)} where {due} was due")
        if check and not bool((answer.amax(-1) > -torch.inf).all()):  # NaN is not above anything
            raise ValueError(NO_LAW)
        return answer

    def conditioning(self, x: Tensor, survival: Tensor, rows: Tensor) -> Tensor:
        """(R, L) the survival of each site of the rows (R,) as the network gets it."""
        if self.options.mark_noise:
            survival = (x != self.process.noise.mask).double()
        elif self.options.clamp_rule == "exact":
            survival = torch.where(self.given[rows], 1.0, survival)
        return torch.where(self.absent[rows], 0.0, survival)


NO_LAW = "the conditional answered with NaN, or left some site no token; are its weights whole?"


def query_sites(sites: Tensor, free: Tensor) -> Tensor:
    """(R, b) the sites of a query. A clamped site is evidence, so a free one of the row stands twice in its place."""
    return torch.where(free, sites, sites.gather(1, free.int().argmax(1, keepdim=True)))


def add_log_law(log_law: Tensor, rows: Tensor, weights: Tensor, drawn: Tensor, counts: Tensor) -> None:
    """Add log P(drawn) of the tokens that count (R, b), drawn by weights (R, b, V), to `log_law` (B,) of their rows (R,)."""
    own = weights.gather(-1, drawn.clamp_max(weights.shape[-1] - 1)[..., None]).squeeze(-1) / weights.sum(-1)
    log_law.index_add_(0, rows, torch.where(counts, own, 1.0).log().sum(-1))


def uncounted(conditional: Any) -> Any:
    """Without the counter around it."""
    return conditional.function if isinstance(conditional, CallCounter) else conditional
