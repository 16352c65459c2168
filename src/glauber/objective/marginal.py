"""The paper's loss with the site's own randomness integrated out (identity 3)."""

import torch.nn.functional as F
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.objective.visit import visit
from glauber.process import Process, Tokens
from glauber.process.draws import Generator


def marginal(
    network: Network, process: Process, x0: Tokens, timesteps: int = 1, check: bool = True, generator: Generator | None = None
) -> Tensor:
    """Same minimiser as `binary`, less variance: every ŷ_a gets its expected label instead of one getting a drawn one."""
    seen = visit(process, x0, timesteps, check, generator)
    logits = network(seen.x_t, seen.t, seen.survival, seen.sites)
    clean, survival = seen.x0.gather(1, seen.sites), seen.survival.gather(1, seen.sites)
    return marginal_loss(logits, clean, survival, process.schedule.keeps(seen.t), process.noise.probs).mean()


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
