"""Upper bounds on -log p(x_0), where p is the law of a chain started from noise (identity 7).

    -log p(x_0) ≤ KL(q(X_T | x_0) ‖ π^L) + Σ_t E KL(q(X_{t,i} | ·, x_0) ‖ p_θ(X_{t,i} | X_{t+1}))

For the reversal chain q is the forward process's own posterior. For the heat-bath chain, which forgets the site's token, it is
the posterior that redraws the site at each visit, q(X_{t,i} | x_0) = S 1[x_{0,i}] + (1-S) π; never tighter.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glauber.chain import kernels
from glauber.conditional import CausalConditional, Conditional, StepLaw
from glauber.process import Process, Tokens
from glauber.process.draws import Generator, uniform
from glauber.process.noise import probability
from glauber.runtime.progress import watched

ROWS = 64  # sequences sent through the network at once
NUMBERS = 2**24  # of one law (rows, b, V) in float64; a step has some ten of them


class Bound(NamedTuple):
    """Nats per sequence, over the rows and times that were drawn."""

    mean: float
    error: float  # standard error of the mean, over rows
    calls: int  # sequences sent through the network
    kernel: str  # whose law is bounded


@torch.no_grad()
def bound(
    conditional: Conditional | StepLaw,
    process: Process,
    x0: Tokens,
    kernel: str = "reversal",
    draws: int = 8,
    generator: Generator | None = None,
) -> Bound:
    """Estimate the bound for the law of `kernel`'s chain, mean over the rows of x0 (B, L).

    Each row spends `draws` network calls, at times that are drawn low-discrepancy over the schedule. Unbiased. A
    `CausalConditional` needs one call a row, and its bound is exact.
    """
    total = row_bounds(conditional, process, x0, (kernel,), draws, generator)[0]
    error = (total.std() / len(x0) ** 0.5).item() if len(x0) > 1 else float("nan")
    return Bound(total.mean().item(), error, len(x0) * (1 if isinstance(conditional, CausalConditional) else draws), kernel)


@torch.no_grad()
def row_bounds(
    conditional: Conditional | StepLaw,
    process: Process,
    x0: Tokens,
    names: Sequence[str] = ("reversal",),
    draws: int = 8,
    generator: Generator | None = None,
    known: Tensor | None = None,
    progress: bool = False,
) -> Tensor:
    """The estimates of each row for each of the kernels named, all from the same network calls: (names, B) nats.

    Args:
        known: (B, L) the sites that hold a token, in rows shorter than L. The others are noise from the first step to the last
            and have no term: the bound is of the known tokens, by a chain that draws the others after them.
        progress: show a bar, from the third second on.
    """
    x0 = process.check_tokens(x0)
    if len(x0) == 0:
        raise ValueError("a bound needs at least one row")
    if draws < 1:
        raise ValueError(f"a bound needs at least one draw per row, not {draws}")
    for kernel in names:
        if kernel not in kernels.KERNELS:
            raise ValueError(f"kernel is 'heat-bath' or 'reversal', not {kernel!r}")
    known = torch.ones_like(x0, dtype=torch.bool) if known is None else known
    if isinstance(conditional, CausalConditional):
        return _causal_bound(conditional, process, x0, known, progress).repeat(len(names), 1)
    total = prior_divergence(process, x0, known).repeat(len(names), 1)
    size = max(1, min(ROWS, NUMBERS // (process.schedule.block * process.vocab)))
    parts = ((k, start) for k in range(draws) for start in range(0, len(x0), size))
    for k, start in watched(parts, progress, draws * -(-len(x0) // size), "score", "batch", leave=False):
        if start == 0:
            t, updates = _times(process, known, k, draws, generator)
            x_next = process.corrupt(x0, t, generator).x_next
            if not bool(known.all()):
                x_next = torch.where(known, x_next, process.noise.sample(x0.shape, generator))
        part = slice(start, start + size)
        arguments = conditional, process, x0[part], x_next[part], t[part]
        for total_of, terms in zip(total, step_divergences(*arguments, names, known[part]), strict=True):
            total_of[part] += terms * (updates[part] / draws)
    return total


def _causal_bound(conditional: CausalConditional, process: Process, x0: Tensor, known: Tensor, progress: bool) -> Tensor:
    """-log p of each row whose first sites are known, by a causal chain: exact, and all steps in one call."""
    if not process.schedule.causal:
        raise ValueError("an autoregressive model's bound is that of one sweep, left to right, with keep 0; take that schedule")
    size = max(1, min(ROWS, NUMBERS // (process.length * process.vocab)))
    parts = zip(x0.split(size), known.split(size), strict=True)  # type: ignore[no-untyped-call]
    shown = watched(parts, progress, -(-len(x0) // size), "score", "batch", leave=False)
    return torch.cat([-torch.where(here, conditional.rows(rows, process.noise.allowed), 0.0).sum(1) for rows, here in shown])


def _times(process: Process, known: Tensor, k: int, draws: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """The k-th time of each row, drawn low-discrepancy over the updates of its known sites, and their number: (B,) and (B,)."""
    B, schedule = len(known), process.schedule
    row, within = uniform((2, B), generator, known.device)
    strata = (row.argsort() + within) / B
    starts = torch.tensor(schedule.times, device=known.device)
    live = known[:, schedule.sites(starts).flatten()].view(B, len(starts), -1).any(-1)  # (B, updates)
    updates = live.sum(1)
    which = torch.minimum(((k + strata) / draws * updates).long(), updates - 1)
    return starts[torch.searchsorted(live.cumsum(1), which[:, None] + 1).squeeze(1)], updates


def prior_divergence(process: Process, x0: Tensor, known: Tensor | None = None) -> Tensor:
    """KL(q(X_T | x_0) ‖ π^L) of each row: (B, L) → (B,). Zero when the schedule ends in keep 0.

    A site adds Σ_{a≠x} (1-S) π(a) log(1-S) + q(x) log(q(x) / π(x)), where x = x_0 and q(x) = S + (1-S) π(x).
    """
    pi = probability(process.noise.table, x0)
    S = process.schedule.survival(torch.full((len(x0),), process.schedule.steps, device=x0.device))
    own = S + (1 - S) * pi
    each = (1 - pi) * torch.xlogy(1 - S, 1 - S) + torch.where(own > 0, own * (own / pi).log(), 0.0)
    return (each if known is None else torch.where(known, each, 0.0)).sum(-1)


def step_divergence(
    conditional: Conditional | StepLaw, process: Process, x0: Tensor, x_next: Tensor, t: Tensor, kernel: str
) -> Tensor:
    """KL(q ‖ p_θ) of the reverse step at t, given the states X_{t+1} = x_next: (B, L), (B,) → (B,)."""
    return step_divergences(conditional, process, x0, x_next, t, (kernel,), torch.ones_like(x0, dtype=torch.bool))[0]


def step_divergences(
    conditional: Conditional | StepLaw,
    process: Process,
    x0: Tensor,
    x_next: Tensor,
    t: Tensor,
    names: Sequence[str],
    known: Tensor,
) -> list[Tensor]:
    """The same for several kernels, over the known sites (B, L) that the step visits."""
    schedule, noise = process.schedule, process.noise
    sites, survival = schedule.sites(t), torch.where(known, schedule.survival(t), 0.0)
    pi = noise.at(sites)
    counts, S, now = (part.gather(1, sites) for part in (known, survival, x_next))
    if isinstance(conditional, StepLaw):
        p = noise.within(conditional.step_law(x_next, t, survival, sites).double(), sites).exp()
    else:
        p = kernels.mixture(noise.within(conditional(x_next, t, survival, sites).double(), sites).exp(), S, pi)
    truth = kernels.mixture(kernels.one_hot(x0.gather(1, sites), p), S, pi)
    found = []
    for kernel in names:
        odds = kernels.own_odds(kernel, schedule.keeps(t), probability(pi, now))
        terms = divergence(kernels.step(truth, now, odds), kernels.step(p, now, odds))
        found.append(torch.where(counts, terms, 0.0).sum(-1))
    return found


def divergence(q: Tensor, p: Tensor) -> Tensor:
    """KL(q ‖ p) over the last axis."""
    return torch.where(q > 0, q * (q / p).log(), 0.0).sum(-1)
