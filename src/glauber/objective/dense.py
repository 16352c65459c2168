"""A label at every site of one pass (identity 4): the default way to learn the clean conditional."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.process import Process
from glauber.process.draws import inverse_cdf, uniform


def dense(
    network: Network,
    process: Process,
    x0: Tensor,
    any_order: bool = True,
    prompts: float = 0.25,
    labels: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Predict every clean token of a noised row, each site's own token weighed in as the evidence that it is.

    Args:
        x0: (B, L) clean tokens.
        any_order: each row is noised in a random order of its own, so that the network serves every order. A network told
            the scalar time can only know the schedule's own.
        prompts: share of rows in which a random set of sites, or all but one stretch, is never noised: infilling.
        labels: share of rows in which noise is labelled, that is masked (identity 9).
    """
    process.check_tokens(x0)
    t = draw_times(process, len(x0), generator)
    survival = process.schedule.survival(t)
    if any_order:
        survival = survival.gather(1, _random_ranks(x0, generator))
    survival = torch.where(_prompt(x0, prompts, generator), 1.0, survival)
    x = process.noised(x0, survival, generator)
    if labels > 0:
        alive = uniform(x0.shape, generator, x0.device) < survival
        labelled = uniform((len(x0), 1), generator, x0.device) < labels
        x = torch.where(labelled, torch.where(alive, x0, process.noise.mask), x)
        survival = torch.where(labelled, alive.double(), survival)

    masked = _random_ranks(x0, generator) < _mask_count(x0, generator)
    x = torch.where(masked, process.noise.mask, x)
    survival = torch.where(masked, 0.0, survival)
    loss, counted = dense_loss(network(x, t, survival), x, x0, survival, process.noise.probs)
    return loss.sum() / counted.sum().clamp_min(1)


def dense_loss(logits: Tensor, x: Tensor, clean: Tensor, survival: Tensor, pi: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy of P(X_{0,j} | X_t = x) ∝ softmax(logits_j)(a) · [S_j 1(a = x_j) + (1 - S_j) π(x_j)] against x_{0,j}.

    In logarithms the bracket adds log(1 + S_j / ((1 - S_j) π(x_j))) to the entry a = x_j. At the optimum logits_j is the
    clean conditional P(X_{0,j} | x_{-j}) up to a constant. A site known for certain teaches nothing and is not counted.

    Args:
        logits: (B, L, V), x: (B, L) with masks (id V), clean: (B, L), survival: (B, L), 0 at the masks, pi: (V,).

    Returns:
        loss: (B, L), 0 where not counted; counted: (B, L) bool.
    """
    masked = x == len(pi)
    token = torch.where(masked, 0, x)
    odds = survival / ((1 - survival) * pi[token])  # of "signal" against "this very noise token"
    odds = torch.where(masked | (survival == 0), 0.0, odds)
    counted = torch.isfinite(odds)
    evidence = torch.where(counted, odds, 0.0).log1p().to(logits.dtype)
    logits = logits.scatter_add(-1, token[..., None], evidence[..., None])
    loss = F.cross_entropy(logits.flatten(0, 1), clean.flatten(), reduction="none").view_as(clean)
    return torch.where(counted, loss, 0.0), counted


def draw_times(process: Process, rows: int, generator: torch.Generator | None = None) -> Tensor:
    """(rows,) times t drawn as often as the chain with the skip calls the network there, P(t) ∝ S_t(i_t), low-discrepancy."""
    device = process.noise.probs.device
    strata = (torch.arange(rows, device=device) + uniform((rows,), generator, device)) / rows
    return inverse_cdf(process.schedule.signal.cumsum(0), strata)


def _random_ranks(x0: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, L) a random permutation per row."""
    return uniform(x0.shape, generator, x0.device).argsort(1)


def _mask_count(x0: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, 1) how many sites to mask: log-uniform between 1, what the chain shows, and a quarter of the row."""
    most = max(1, x0.shape[1] // 4)
    u = uniform((len(x0), 1), generator, x0.device)
    return torch.exp(u * math.log(most + 1)).long().clamp(1, most)


def _prompt(x0: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """(B, L) bool, the sites never noised: in a `share` of the rows a scattered set, or all but one stretch, of any size."""
    B, L = x0.shape
    chosen, scattered, size, turn = uniform((4, B, 1), generator, x0.device)
    stretch = (torch.arange(L, device=x0.device) + (turn * L).long()) % L
    rank = torch.where(scattered < 0.5, _random_ranks(x0, generator), stretch)
    given: Tensor = (chosen < share) & (rank < (size * L).long())
    return given
