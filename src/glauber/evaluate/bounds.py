"""Upper bounds on -log p(x_0), where p is the law of a chain started from noise (identity 7).

    -log p(x_0) ≤ KL(q(X_T | x_0) ‖ π^L) + Σ_t E KL(q(X_{t,i} | ·, x_0) ‖ p_θ(X_{t,i} | X_{t+1}))

For the reversal chain q is the forward process's own posterior. For the heat-bath chain, which forgets the site's token, it is
the posterior that redraws the site at each visit, q(X_{t,i} | x_0) = S 1[x_{0,i}] + (1-S) π; never tighter.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from glauber.chain import kernels
from glauber.conditional import Conditional, StepLaw
from glauber.process import Process
from glauber.process.draws import Generator, uniform


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
    x0: Tensor,
    kernel: str = "reversal",
    draws: int = 8,
    generator: Generator | None = None,
) -> Bound:
    """Estimate the bound for the law of `kernel`'s chain, mean over the rows of x0 (B, L).

    Each row spends `draws` network calls, at times that are drawn low-discrepancy over the schedule. Unbiased.
    """
    process.check_tokens(x0)
    if len(x0) == 0:
        raise ValueError("a bound needs at least one row")
    if draws < 1:
        raise ValueError(f"a bound needs at least one draw per row, not {draws}")
    if kernel not in kernels.KERNELS:
        raise ValueError(f"kernel is 'heat-bath' or 'reversal', not {kernel!r}")
    total = prior_divergence(process, x0)
    updates = len(process.schedule.times)
    for k in range(draws):
        row, within = uniform((2, len(x0)), generator, x0.device)
        strata = (row.argsort() + within) / len(x0)
        t = ((k + strata) / draws * updates).long().clamp_max(updates - 1) * process.schedule.block
        x_next = process.corrupt(x0, t, generator).x_next
        total += step_divergence(conditional, process, x0, x_next, t, kernel) * (updates / draws)
    error = (total.std() / len(x0) ** 0.5).item() if len(x0) > 1 else float("nan")
    return Bound(total.mean().item(), error, draws * len(x0), kernel)


def prior_divergence(process: Process, x0: Tensor) -> Tensor:
    """KL(q(X_T | x_0) ‖ π^L) of each row: (B, L) → (B,). Zero when the schedule ends in keep 0."""
    pi = process.noise.probs
    T = torch.full((len(x0),), process.schedule.steps, device=x0.device)
    q = kernels.mixture(kernels.one_hot(x0, pi.expand(*x0.shape, -1)), process.schedule.survival(T), pi)
    return divergence(q, pi).sum(-1)


def step_divergence(
    conditional: Conditional | StepLaw, process: Process, x0: Tensor, x_next: Tensor, t: Tensor, kernel: str
) -> Tensor:
    """KL(q ‖ p_θ) of the step that undoes t at the given states X_{t+1} = x_next: (B, L), (B,) → (B,)."""
    schedule, pi = process.schedule, process.noise.probs
    sites, survival = schedule.sites(t), schedule.survival(t)
    S, now = survival.gather(1, sites), x_next.gather(1, sites)
    odds = kernels.own_odds(kernel, schedule.keeps(t), pi[now])
    if isinstance(conditional, StepLaw):
        p = conditional.step_law(x_next, t, survival, sites).double().exp()
    else:
        p = kernels.mixture(conditional(x_next, t, survival, sites).double().exp(), S, pi)
    truth = kernels.mixture(kernels.one_hot(x0.gather(1, sites), p), S, pi)
    return divergence(kernels.step(truth, now, odds), kernels.step(p, now, odds)).sum(-1)


def divergence(q: Tensor, p: Tensor) -> Tensor:
    """KL(q ‖ p) over the last axis."""
    return torch.where(q > 0, q * (q / p).log(), 0.0).sum(-1)
