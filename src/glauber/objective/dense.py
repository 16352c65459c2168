"""A label at every site of one pass (identity 4): the default way to learn the clean conditional."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.conditional.adapters import Network
from glauber.objective.cross_entropy import linear_cross_entropy
from glauber.process import Process, Tokens, as_tokens
from glauber.process.draws import Generator, KeyedGenerator, inverse_cdf, uniform
from glauber.process.noise import probability

TOKEN_DROPOUT = 0.6
"""Largest share of a causal row whose tokens are masked."""


def dense(
    network: Network,
    process: Process,
    x0: Tokens,
    any_order: bool = True,
    clean_fraction: float = 0.25,
    marked_fraction: float = 0.0,
    causal_every: int = 0,
    chunked: bool = False,
    check: bool = True,
    generator: Generator | None = None,
) -> Tensor:
    """Predict every clean token of a noised row, each site's own token weighed in as the evidence that it is.

    Args:
        x0: (B, L) clean tokens.
        any_order: each row is noised in a random order of its own, so that the network serves every order. A network that is
            conditioned on the scalar time can only learn the schedule's own order.
        clean_fraction: share of rows in which a random set of sites, or all but one stretch, is never noised: infilling.
        marked_fraction: share of rows in which noise is marked: each noise token is a mask (identity 9).
        causal_every: every so-many-th row is trained by the loss `causal` instead; 0 for none, 2 for every other row. One set
            of weights then learns every order, bidirectionally, and the order from left to right, autoregressively.
        chunked: never hold all the logits (`linear_cross_entropy`), for a large vocabulary; needs a `Transformer`.
        check: look at the tokens first, which makes a GPU wait.
    """
    x0 = process.check_tokens(x0) if check else as_tokens(x0)
    if not (0 <= clean_fraction <= 1 and 0 <= marked_fraction <= 1):
        raise ValueError(f"clean_fraction and marked_fraction lie in [0, 1], not {clean_fraction} and {marked_fraction}")
    pi = process.noise.table
    if causal_every == 0:
        return answers_loss(
            network, *_noised(process, x0, any_order, clean_fraction, marked_fraction, generator), x0, pi, chunked
        )
    if causal_every < 2 or len(x0) % causal_every:
        raise ValueError(
            f"causal_every is 0, or a number above 1 that divides the {len(x0)} rows of a batch, not {causal_every}"
        )
    groups = x0.view(-1, causal_every, x0.shape[1])
    causal, others = groups[:, 0], groups[:, 1:].flatten(0, 1)
    first = rest = generator
    if isinstance(generator, KeyedGenerator):
        first, rest = generator.every(causal_every), generator.without_every(causal_every)
    parts = _dropped_out(process, causal, first), _noised(process, others, any_order, clean_fraction, marked_fraction, rest)
    x, t, survival = (torch.cat(pair) for pair in zip(*parts, strict=True))
    return answers_loss(network, x, t, survival, torch.cat([causal, others]), pi, chunked, len(causal))


def _dropped_out(process: Process, x0: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor, Tensor]:
    """Causal rows, as `_noised`: half of them whole, the others with token dropout, a share of up to TOKEN_DROPOUT.

    Without token dropout a network that sees its text many times soon overfits.
    """
    u = uniform((len(x0), 1 + x0.shape[1]), generator, x0.device)
    dropped = u[:, 1:] < TOKEN_DROPOUT * (2 * u[:, :1] - 1)
    return torch.where(dropped, process.noise.mask, x0), torch.zeros_like(x0[:, 0]), (~dropped).double()


def _noised(
    process: Process, x0: Tensor, any_order: bool, clean_fraction: float, marked_fraction: float, generator: Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows as a chain may show them to the network: tokens and masks (B, L), times (B,), survivals (B, L)."""
    t = draw_times(process, len(x0), generator)
    survival = process.schedule.survival(t)
    if any_order:
        survival = survival.gather(1, _random_ranks(x0, generator))
    survival = torch.where(_clean_sites(x0, clean_fraction, generator), 1.0, survival)
    x = process.noised(x0, survival, generator)
    if marked_fraction > 0:
        alive = uniform(x0.shape, generator, x0.device) < survival
        marked = uniform((len(x0), 1), generator, x0.device) < marked_fraction
        x = torch.where(marked, torch.where(alive, x0, process.noise.mask), x)
        survival = torch.where(marked, alive.double(), survival)
    masked = _random_ranks(x0, generator) < _mask_count(x0, generator)
    return torch.where(masked, process.noise.mask, x), t, torch.where(masked, 0.0, survival)


def answers_loss(
    network: Network,
    x: Tensor,
    t: Tensor,
    survival: Tensor,
    clean: Tensor,
    pi: Tensor,
    chunked: bool,
    causal_rows: int = 0,
) -> Tensor:
    """The `dense_loss` of the network's answers, divided by all sites and not by those counted: the loss of a batch is then the
    mean of its rows' losses. The first `causal_rows` rows are answered causally, so that every site of them counts."""
    if not chunked:
        options = {"causal_rows": causal_rows} if causal_rows else {}
        loss, _ = dense_loss(network(x, t, survival, **options), x, clean, survival, pi, causal_rows)
        return loss.sum() / loss.numel()

    def readout(h: Tensor, head: nn.Linear) -> Tensor:
        token, evidence, counted = (part.flatten() for part in own_evidence(x, survival, pi, causal_rows))
        return linear_cross_entropy(
            h.flatten(0, 1), head.weight, head.bias, token, evidence, clean.flatten(), counted.double() / clean.numel()
        )

    return network(x, t, survival, readout=readout, causal_rows=causal_rows)


def dense_loss(
    logits: Tensor, x: Tensor, clean: Tensor, survival: Tensor, pi: Tensor, causal_rows: int = 0
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of P(X_{0,j} | X_t = x) ∝ softmax(logits_j)(a) · [S_j 1(a = x_j) + (1 - S_j) π(x_j)] against x_{0,j}.

    In logarithms the bracket adds log(1 + S_j / ((1 - S_j) π(x_j))) to the entry a = x_j. At the optimum logits_j is the
    clean conditional P(X_{0,j} | x_{-j}) up to a constant. A site known for certain has no gradient and is not counted.

    Args:
        logits: (B, L, V), x: (B, L) with masks (id V), clean: (B, L), survival: (B, L), 0 at the masks, pi: (V,) or (L, V).
        causal_rows: the first so many rows were answered causally: there a site's answer has not seen it, and all sites count.

    Returns:
        loss: (B, L), 0 where not counted; counted: (B, L) bool.
    """
    token, evidence, counted = own_evidence(x, survival, pi, causal_rows)
    logits = logits.scatter_add(-1, token[..., None], evidence.to(logits.dtype)[..., None])
    loss = F.cross_entropy(logits.flatten(0, 1), clean.flatten(), reduction="none").view_as(clean)
    return torch.where(counted, loss, 0.0), counted


def own_evidence(x: Tensor, survival: Tensor, pi: Tensor, causal_rows: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(B, L) each: the site's own token (0 at a mask), what it adds to that token's logit, whether the site is uncertain."""
    masked = x == pi.shape[-1]
    token = torch.where(masked, 0, x)
    odds = survival / ((1 - survival) * probability(pi, token))  # of "signal" against "this very noise token"
    odds = torch.where(masked | (survival == 0), 0.0, odds)
    counted = torch.isfinite(odds)
    counted[:causal_rows] = True
    odds[:causal_rows] = 0.0
    return token, torch.where(counted, odds, 0.0).log1p(), counted


def draw_times(process: Process, rows: int, generator: Generator | None = None) -> Tensor:
    """(rows,) times t drawn as often as the chain with the skip calls the network there, P(t) ∝ S_t(i_t), low-discrepancy."""
    device = process.noise.probs.device
    row, total = torch.arange(rows, device=device), rows
    if isinstance(generator, KeyedGenerator):
        row, total = generator.rows.to(device), generator.total
    strata = (row + uniform((rows,), generator, device)) / total
    return inverse_cdf(process.schedule.signal.cumsum(0), strata)


def _random_ranks(x0: Tensor, generator: Generator | None) -> Tensor:
    """(B, L) a random permutation per row."""
    return uniform(x0.shape, generator, x0.device).argsort(1)


def _mask_count(x0: Tensor, generator: Generator | None) -> Tensor:
    """(B, 1) how many sites to mask: log-uniform between 1, what the chain shows, and a quarter of the row."""
    most = max(1, x0.shape[1] // 4)
    u = uniform((len(x0), 1), generator, x0.device)
    return torch.exp(u * math.log(most + 1)).long().clamp(1, most)


def _clean_sites(x0: Tensor, share: float, generator: Generator | None) -> Tensor:
    """(B, L) bool, the sites never noised: in a `share` of the rows a scattered set, or all but one stretch, of any size."""
    B, L = x0.shape
    chosen, scattered, size, shift = uniform((B, 4), generator, x0.device)[..., None].unbind(1)
    stretch = (torch.arange(L, device=x0.device) + (shift * L).long()) % L
    rank = torch.where(scattered < 0.5, _random_ranks(x0, generator), stretch)
    given: Tensor = (chosen < share) & (rank < (size * L).long())
    return given
