"""Algorithm 1 of the paper: classify signal and noise at one site."""

import torch.nn.functional as F
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.objective.visit import visit
from glauber.process import Process, Tokens
from glauber.process.draws import Generator


def binary(
    network: Network, process: Process, x0: Tokens, timesteps: int = 1, check: bool = True, generator: Generator | None = None
) -> Tensor:
    """The paper's loss, one label a pass: cross-entropy of ŷ = σ(logit at the visited site's token) against "was it noise?".

    Each example is used at `timesteps` times of its own (the paper: 32). `check` the tokens first, which makes a GPU wait.
    """
    seen = visit(process, x0, timesteps, check, generator)
    logits = network(seen.x_next, seen.t, seen.survival, seen.sites)
    return binary_loss(logits, seen.x_next.gather(1, seen.sites), seen.z).mean()


def binary_loss(logits: Tensor, token: Tensor, z: Tensor) -> Tensor:
    """-1[z ≠ φ] log ŷ_a - 1[z = φ] log(1 - ŷ_a) for the token a at the site after the step.

    The label is the event that noise was drawn (z ≥ 0), not that the value changed: noise may draw what was there.

    Args:
        logits: (..., V), token: (...) X_{t+1} at the site, z: (...) the noise drawn, -1 for φ. Returns (...).
    """
    chosen = logits.gather(-1, token[..., None]).squeeze(-1)
    return F.binary_cross_entropy_with_logits(chosen, (z >= 0).to(chosen.dtype), reduction="none")
