"""The paper's loss with the site's own randomness integrated out (identity 3)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.conditional import require_classifiable
from glauber.conditional.adapters import Network
from glauber.process import Process


def marginal(
    network: Network,
    process: Process,
    x0: Tensor,
    timesteps: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Same minimiser as `binary`, less variance: every ŷ_a gets its expected label instead of one getting a drawn one."""
    require_classifiable(process)
    x0 = x0.repeat_interleave(timesteps, dim=0)
    t = torch.randint(process.schedule.steps, (len(x0),), generator=generator, device=x0.device)
    step = process.corrupt(x0, t, generator)
    sites = step.site.view(len(x0), -1)
    logits = network(step.x_t, t, step.survival, sites)
    survival, keep = step.survival.gather(1, sites), process.schedule.keeps(t)
    return marginal_loss(logits, x0.gather(1, sites), survival, keep, process.noise.probs).mean()


def marginal_loss(logits: Tensor, clean: Tensor, survival: Tensor, keep: Tensor, pi: Tensor) -> Tensor:
    """-κ Σ_a q(a) log(1 - ŷ_a) - Σ_a (1-κ) π(a) log ŷ_a, with q(a) = S 1[a = x_{0,i}] + (1-S) π(a) the law of X_{t,i}.

    Args:
        logits: (..., V), clean: (...) x_0 at the site, survival and keep: (...), pi: (V,). Returns (...).
    """
    pi = pi.to(logits.dtype)
    survival, keep = survival.to(logits.dtype), keep.to(logits.dtype)
    signal, noise = F.softplus(logits), F.softplus(-logits)  # -log(1 - ŷ) and -log ŷ
    at_clean = signal.gather(-1, clean[..., None]).squeeze(-1)
    q_signal = survival * at_clean + (1 - survival) * (signal @ pi)
    return keep * q_signal + (1 - keep) * (noise @ pi)
