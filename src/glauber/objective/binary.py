"""Algorithm 1 of the paper: tell signal from noise at one site."""

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.conditional import require_classifiable
from glauber.conditional.adapters import Network
from glauber.process import Process


def binary(
    network: Network,
    process: Process,
    x0: Tensor,
    timesteps: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The paper's loss, one label a pass: cross-entropy of ŷ = σ(logit at the visited site's token) against "was it noise?".

    Each example is used at `timesteps` times of its own (the paper: 32). t is uniform over 0..T-1; the printed algorithm
    stops at T-2, but the sampler uses step T-1 too.
    """
    require_classifiable(process)
    x0 = x0.repeat_interleave(timesteps, dim=0)
    t = torch.randint(process.schedule.steps, (len(x0),), generator=generator, device=x0.device)
    step = process.corrupt(x0, t, generator)
    sites, z = step.site.view(len(x0), -1), step.z.view(len(x0), -1)
    logits = network(step.x_next, t, step.survival, sites)
    return binary_loss(logits, step.x_next.gather(1, sites), z).mean()


def binary_loss(logits: Tensor, token: Tensor, z: Tensor) -> Tensor:
    """-1[z ≠ φ] log ŷ_a - 1[z = φ] log(1 - ŷ_a) for the token a at the site after the step.

    The label is the event that noise was drawn (z ≥ 0), not that the value changed: noise may draw what was there.

    Args:
        logits: (..., V), token: (...) X_{t+1} at the site, z: (...) the noise drawn, -1 for φ. Returns (...).
    """
    chosen = logits.gather(-1, token[..., None]).squeeze(-1)
    return F.binary_cross_entropy_with_logits(chosen, (z >= 0).to(chosen.dtype), reduction="none")
