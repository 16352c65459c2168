"""Masked language modelling: the time-independent conditional of plain Gibbs sampling (appendix F of the paper)."""

import torch
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.objective.dense import answers_loss
from glauber.process import Process, Tokens, as_tokens
from glauber.process.draws import Generator, uniform

MASKED = 0.15  # share of the sites that are masked, BERT's


def masked(
    network: Network,
    process: Process,
    x0: Tokens,
    chunked: bool = False,
    check: bool = True,
    generator: Generator | None = None,
) -> Tensor:
    """Predict masked tokens of (B, L) clean rows from all others: cross-entropy over the masked sites, divided by all.

    Arguments as for `dense`; the schedule plays no part, of the process only the vocabulary does.
    """
    x0 = process.check_tokens(x0) if check else as_tokens(x0)
    hidden = uniform(x0.shape, generator, x0.device) < MASKED
    x = torch.where(hidden, process.noise.mask, x0)
    survival, t = (~hidden).double(), torch.zeros_like(x0[:, 0])
    return answers_loss(network, x, t, survival, x0, process.noise.table, chunked)
