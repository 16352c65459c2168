"""UDLM, uniform-state diffusion (Schiff et al., 2024, arXiv 2412.10193): a site holds its token until time t with probability
α_t = 1 - t, and is any of the V tokens alike after that. GGM's closest relative by noise.

The network sees all tokens, told as survival α_t everywhere, and answers with a law x_θ over the clean token of each site.
What minimises the bound is P(X_0 = · | the other sites), not P(X_0 = · | all sites): the site's own token is weighed in by the
formulas below, and a law that knows it already would count it twice (arXiv 2605.22765; a test proves it).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.method.base import Capabilities
from glauber.method.diffusion import Diffusion, query
from glauber.process import Process
from glauber.process.draws import Generator, uniform


class UDLM(Diffusion):
    """The bound needs no prior and no reconstruction term, since α_1 = 0 and α_0 = 1."""

    name = "udlm"
    can = Capabilities(samplers=("ancestral",), fewer_calls=True)

    def noised(self, process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
        return uniformly_noised(process, x0, 1 - t, generator)

    def term(self, network: Network, process: Process, x0: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """The continuous-time bound, with x̄ = V α x + (1 - α) for x_0 and x̄_θ for the network's law, i the token in z:

        -α'/(V α) Σ [V/x̄_θi - V/x̄_i + Σ_j x̄_j/x̄_i log(x̄_j x̄_θi / (x̄_i x̄_θj))] over all sites: the score entropy of the
        ratios x̄_θj/x̄_θi.
        """
        V, lost = process.vocab, t[:, None, None]
        p = query(network, z, t, 1 - t).softmax(-1)
        log_x = (V * (1 - lost).to(p.dtype) * p + lost.to(p.dtype)).log()
        log_s = log_x - log_x.gather(-1, z[..., None])
        return score_entropy(log_s, x0, z, 1 - t, t) / (V * (1 - t))

    def law(self, network: Network, process: Process, z: Tensor, t: float, s: float, sampler: str) -> Tensor:
        """q(z_s | z_t, x_0) with x_θ in the place of x_0: ∝ [α_t/α_s 1(b = z) + (1 - α_t/α_s)/V] · [α_s x_θ(b) + s/V]."""
        V, now = process.vocab, torch.full((len(z),), t, dtype=torch.float64, device=z.device)
        p, kept = query(network, z, now, 1 - now).double().softmax(-1), (1 - t) / (1 - s)
        law = (kept * F.one_hot(z, V) + (1 - kept) / V) * ((1 - s) * p + s / V)
        return law / law.sum(-1, keepdim=True)

    def start(self, process: Process, rows: int, generator: Generator | None, ban: Sequence[int] = ()) -> Tensor:
        return uniform_tokens(process, (rows, process.length), generator, ban)


def score_entropy(log_s: Tensor, x0: Tensor, z: Tensor, kept: Tensor, lost: Tensor) -> Tensor:
    """(B,) Σ_{y≠z} [s_y - r_y log s_y + r_y (log r_y - 1)] over all sites, with r_y = q(y | x_0) / q(z | x_0) of uniform noise.

    With d = log s - log r each term is r (e^d - 1 - d), which is at least 0.

    Args:
        log_s: (B, L, V), 0 at the site's own token z. kept, lost: (B,) float64, which sum to 1.
    """
    V = log_s.shape[-1]
    low, high = (lost / V).log()[:, None], (kept + lost / V).log()[:, None]
    own = torch.where(z == x0, high, low)
    at_clean, elsewhere = ((part - own).to(log_s.dtype)[..., None] for part in (high, low))
    column = torch.arange(V, device=z.device)
    log_r = torch.where(column == x0[..., None], at_clean, elsewhere).masked_fill(column == z[..., None], 0.0)
    d = log_s - log_r
    return (log_r.exp() * (torch.expm1(d) - d)).sum((1, 2))


def uniformly_noised(process: Process, x0: Tensor, kept: Tensor, generator: Generator | None) -> Tensor:
    """Each site holds its token with probability `kept` (B,), else any."""
    stays = uniform(x0.shape, generator, x0.device) < kept[:, None]
    return torch.where(stays, x0, uniform_tokens(process, x0.shape, generator))


def uniform_tokens(process: Process, shape: tuple[int, ...], generator: Generator | None, ban: Sequence[int] = ()) -> Tensor:
    """Each of the V alike, but for those of `ban`."""
    left = process.vocab - len(set(ban))
    token = (uniform(shape, generator, process.noise.probs.device) * left).long()
    for never in sorted(set(ban)):
        token = token + (token >= never)
    return token
