"""SEDD, score entropy (Lou et al., 2024, arXiv 2310.16834): the network says how much likelier each other token would be,
s_θ(x, t)_{i,y} ≈ p_t(x with y at i) / p_t(x), for one site at a time.

Absorbing: a site is masked with probability t (log-linear noise). The exact score at a mask is (1-t)/t · P(X_0 = y | tokens),
so the network gives the logarithm of the second factor, and is told no time.
Uniform: a token is kept with probability e^{-σ(t)}, else any token alike; σ grows geometrically. The network gives log s_θ.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.conditional import TransformerConfig
from glauber.conditional.adapters import Network
from glauber.method.base import Capabilities, Compared
from glauber.method.chain import sample_chain
from glauber.method.diffusion import Diffusion, query, whole_start, without
from glauber.method.mdlm import MaskedDiffusion, carried_over, clean_logits, unmask_in_order
from glauber.method.sampling import Request, Run, Samples, SamplingPlan
from glauber.method.udlm import score_entropy, uniform_tokens, uniformly_noised
from glauber.process import Process, Schedule
from glauber.process.draws import Generator

SIGMA = (1e-4, 20.0)  # of the geometric noise


class Absorbing(MaskedDiffusion):
    """To the mask, and never back: method `sedd`, the paper's better one."""

    name = "sedd"
    can = Capabilities(fill_gaps=True, orders=True, samplers=("tweedie", "euler"), fewer_calls=True)

    def term(self, network: Network, process: Process, x0: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """Denoising score entropy with the weights of the bound: σ'(t) Σ_y [s_y - r_y log s_y + r_y (log r_y - 1)] at masks.

        r is (1-t)/t at y = x_0 and else 0, s is (1-t)/t e^{f_y}, σ' is 1/(1-t): together (1/t) [Σ_y e^{f_y} - f_{x_0} - 1].
        """
        f = self.log_share(network, process, z)
        loss = f.exp().sum(-1) - f.gather(-1, x0[..., None]).squeeze(-1) - 1
        return torch.where(z == process.noise.mask, loss, 0.0).sum(1) / t

    def law(self, network: Network, process: Process, z: Tensor, t: float, s: float, sampler: str) -> Tensor:
        """A mask becomes y with (t-s)/t · e^{f_y}: with this noise Euler's step and Tweedie's are the same.

        f need not be normalised. Where it is too large no mask stays, and in the last step none does.
        """
        go = (t - s) / t * self.log_share(network, process, z).double().exp()
        stay = (1 - go.sum(-1, keepdim=True)).clamp_min(0.0) if s > 0 else torch.zeros_like(go[..., :1])
        law = torch.cat([go, stay], -1)
        return carried_over(process, z, law / law.sum(-1, keepdim=True))

    def log_share(self, network: Network, process: Process, z: Tensor) -> Tensor:
        """(B, L, V) f = log s_θ - log((1-t)/t). A new network says 1/V."""
        return clean_logits(network, process, z) - math.log(process.vocab)

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """As in `MaskedDiffusion`; in an order there are no steps of a sampler."""
        plan = super().plan(own, config, request)
        if plan.order is not None and request.sampler is not None:
            raise ValueError(f"with an order of sites there is no {request.sampler} step; leave the sampler or the order out")
        return plan

    @torch.no_grad()
    def sample(self, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run = Run()) -> Samples:
        """As in `Diffusion`; in an order as the first-hitting sampler does it, by f normalised."""
        if plan.by_chain:
            return sample_chain(self, network, process, plan, num, run)
        if plan.order is None:
            return super().sample(network, process, plan, num, run)
        network = without(network, plan.options.get("ban", ()))
        return unmask_in_order(network, process, whole_start(self, num, run), plan, run)


class Uniform(Diffusion):
    """To any token alike: method `sedd-uniform`."""

    name = "sedd-uniform"
    can = Capabilities(samplers=("tweedie", "euler"), fewer_calls=True)

    def noised(self, process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
        return uniformly_noised(process, x0, (-sigma(t)).exp(), generator)

    def term(self, network: Network, process: Process, x0: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """σ'(t)/V Σ_{y≠x} [s_y - r_y log s_y + r_y (log r_y - 1)] over all sites, with r_y = q(y | x_0) / q(x | x_0)."""
        noise, log_s = sigma(t), self.log_score(network, z, t)
        return sigma_rate(t) / process.vocab * score_entropy(log_s, x0, z, (-noise).exp(), -torch.expm1(-noise))

    def law(self, network: Network, process: Process, z: Tensor, t: float, s: float, sampler: str) -> Tensor:
        """With κ = e^{σ(s) - σ(t)}, the chance of a token to be kept from s to t:

        Tweedie (τ-leaping, analytic): [e^{-ΔσQ} s]_y · [e^{ΔσQ}]_{y,x}, where κ e^{-ΔσQ} s = s - (1 - κ) · its mean.
        Euler: σ'(t) (t - s) s_y / V for y ≠ x; but the last step is Tweedie's.
        """
        V, (now, then) = process.vocab, torch.tensor([t, s], dtype=torch.float64, device=z.device)
        score = self.log_score(network, z, now.expand(len(z))).double().exp()
        if sampler == "euler" and s > 0:
            go = (sigma_rate(now) * (t - s) / V * score).scatter(-1, z[..., None], 0.0)
            law = go.scatter(-1, z[..., None], (1 - go.sum(-1, keepdim=True)).clamp_min(0.0))
        else:
            kept = (sigma(then) - sigma(now)).exp()
            before = (score - (1 - kept) * score.mean(-1, keepdim=True)).clamp_min(0.0)
            law = before * (kept * F.one_hot(z, V) + (1 - kept) / V)
        return law / law.sum(-1, keepdim=True)

    def log_score(self, network: Network, z: Tensor, t: Tensor) -> Tensor:
        """(B, L, V) log s_θ, 0 at the site's own token."""
        return query(network, z, t, (-sigma(t)).exp()).scatter(-1, z[..., None], 0.0)

    def start(self, process: Process, rows: int, generator: Generator | None, ban: Sequence[int] = ()) -> Tensor:
        return uniform_tokens(process, (rows, process.length), generator, ban)

    def compared(self, length: int) -> list[Compared]:
        """None: the paper's better one is `sedd`."""
        return []

    def prior(self, process: Process) -> float:
        kept, V = math.exp(-sigma(torch.tensor(1.0, dtype=torch.float64)).item()), process.vocab
        low, high = (1 - kept) / V, kept + (1 - kept) / V
        return high * math.log(V * high) + (V - 1) * low * math.log(V * low)


def sigma(t: Tensor) -> Tensor:
    """σ(t) = σ_min^{1-t} σ_max^t - σ_min. The paper's noise is σ_min at time 0, which its bound does not count; ours is 0."""
    return SIGMA[0] * torch.expm1(t * math.log(SIGMA[1] / SIGMA[0]))


def sigma_rate(t: Tensor) -> Tensor:
    """σ'(t)."""
    return (sigma(t) + SIGMA[0]) * math.log(SIGMA[1] / SIGMA[0])
