"""A label at every site, each given the sites before it: the loss of an autoregressive model.

It is the loss of the schedule of one sweep from left to right with keep 0, all its steps in one pass. There a row is noised
from the last site to the first, and drawn from the first to the last, each site given a clean beginning and noise that carries
no information. That chain is autoregressive generation, and its bound is the exact likelihood.
"""

import torch
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.objective.dense import answers_loss
from glauber.process import Process, Tokens, as_tokens


def causal(network: Network, process: Process, x0: Tokens, chunked: bool = False, check: bool = True) -> Tensor:
    """Predict every token of clean rows (B, L) from those before it: mean cross-entropy. For a causal network.

    Args:
        chunked: never hold all the logits (`linear_cross_entropy`); needs a `Transformer`.
        check: look at the tokens first, which makes a GPU wait.
    """
    x0 = process.check_tokens(x0) if check else as_tokens(x0)
    survival, t = torch.ones_like(x0, dtype=torch.float64), torch.zeros_like(x0[:, 0])
    return answers_loss(network, x0, t, survival, x0, process.noise.table, chunked, len(x0))
