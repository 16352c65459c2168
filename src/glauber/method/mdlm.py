"""MDLM, masked diffusion (Sahoo et al., 2024, arXiv 2406.07524): a site holds its token until time t with probability
α_t = 1 - t, and is the mask from then on.

The network sees tokens and masks, told as survival 1 and 0; so it does not know the time, and need not. Its answer at a mask is
a law over the clean tokens, never the mask, and a token once there stays: the paper's SUBS parameterisation.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.chain.bounds import row_bounds
from glauber.conditional import Conditional, Denoiser, StepLaw, TransformerConfig, check_guidance
from glauber.conditional.adapters import Network
from glauber.method.base import BoundOptions, Capabilities, LossOptions
from glauber.method.chain import chain_plan, sample_chain
from glauber.method.diffusion import Diffusion, draw_times, integral, query, whole_start, without
from glauber.method.sampling import Request, Run, Samples, SamplingPlan
from glauber.objective.cross_entropy import linear_cross_entropy
from glauber.process import Process, Schedule, Tokens, as_tokens
from glauber.process.draws import Generator, categorical, uniform
from glauber.runtime.progress import watched


class MaskedDiffusion(Diffusion):
    """One whose noise is the mask. Its network knows the clean conditional given some tokens, so a chain fills gaps by it."""

    def noised(self, process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
        return masked(process, x0, t, generator)

    def start(self, process: Process, rows: int, generator: Generator | None, ban: Sequence[int] = ()) -> Tensor:
        return all_masked(process, rows)

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """As in `Method`."""
        check_guidance(class_, guidance)
        config = getattr(network, "config", None)
        if config is not None and config.conditioning == "time":  # which cannot see that a token is noise
            raise ValueError("a masked diffusion told the time knows no noise but masks; train it with conditioning=survival")
        return Denoiser(network, class_, guidance)

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """Steps from masks to tokens; to fill gaps, the chain on the model's own schedule."""
        if not request.gaps:
            return super().plan(own, config, request)
        for name in ("calls", "sampler", "sweeps", "block", "order"):
            if getattr(request, name) is not None:
                raise ValueError(f"the method {self.name} fills gaps by a chain on its own schedule; leave {name} out")
        return chain_plan(self, own, config, request)

    def plan_bound(
        self, network: Any, process: Process, plan: SamplingPlan, x0: Tensor, how: BoundOptions = BoundOptions()
    ) -> Tensor | None:
        """In an order that of the chain with keep 0 that goes back through it: it draws the same sites with each call."""
        if plan.order is None:
            return super().plan_bound(network, process, plan, x0, how)
        L, block = process.length, max(1, process.length // plan.calls)
        schedule = Schedule.round_robin(L, L, 0.0, plan.order.cpu().flip(0), block).to(process.noise.probs.device)
        chain = Process(schedule, process.noise)
        conditional, draws = self.conditional(network, chain), min(how.draws, L // block)
        return row_bounds(conditional, chain, x0, ("heat-bath",), draws, how.generator, progress=how.progress)[0]


class MDLM(MaskedDiffusion):
    """The bound needs no prior and no reconstruction term, since α_1 = 0 and α_0 = 1."""

    name = "mdlm"
    can = Capabilities(
        fill_gaps=True, orders=True, samplers=("first-hitting", "ancestral"), fewer_calls=True, site_vocabularies=True
    )

    def term(self, network: Network, process: Process, x0: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """The continuous-time NELBO, in which α'_t / (1 - α_t) = -1/t: -(1/t) Σ log p(x_0 | z) over the masked sites."""
        loss = F.cross_entropy(clean_logits(network, process, z).flatten(0, 1), x0.flatten(), reduction="none")
        return torch.where(z == process.noise.mask, loss.view_as(x0), 0.0).sum(1) / t

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """As in `Diffusion`; in a training run without holding all the logits (`linear_cross_entropy`)."""
        if how.spec is None:
            return super().loss(network, process, x0, how)
        clean = process.check_tokens(x0) if how.check else as_tokens(x0)
        t = draw_times(len(clean), how.generator, clean.device)
        z = masked(process, clean, t, how.generator)
        hidden, none = z == process.noise.mask, torch.zeros_like(clean).flatten()  # no site has its own token as evidence

        def readout(h: Tensor, head: nn.Linear) -> Tensor:
            scale = (hidden / t[:, None]).flatten() / clean.numel()
            return linear_cross_entropy(h.flatten(0, 1), head.weight, head.bias, none, none.double(), clean.flatten(), scale)

        loss: Tensor = network(z, torch.zeros_like(t), (~hidden).double(), readout=readout)
        return loss

    def law(self, network: Network, process: Process, z: Tensor, t: float, s: float, sampler: str) -> Tensor:
        """p_θ(z_s | z_t): a mask goes with probability (t - s) / t, and then becomes what the network says."""
        p = clean_logits(network, process, z).double().softmax(-1) * ((t - s) / t)
        stay = torch.full_like(p[..., :1], s / t)
        return carried_over(process, z, torch.cat([p, stay], -1))

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """As in `MaskedDiffusion`; the ancestral sampler has its own order."""
        plan = super().plan(own, config, request)
        if plan.order is not None and plan.sampler != "first-hitting":
            raise ValueError("an order of sites goes with the first-hitting sampler; the ancestral one has its own")
        return plan

    @torch.no_grad()
    def sample(self, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run = Run()) -> Samples:
        """Unmask all sites.

        first-hitting (Zheng et al., 2024, arXiv 2409.02908): site by site in random order, which is the continuous-time chain
        itself, exact with L calls; with fewer, equally many sites at a time. With an `order` (L,) of the sites, in that one.
        ancestral: `calls` steps of `law`. What goes is drawn first: a row in which nothing goes needs no call, since the answer
        would be the one before (the paper's cache).
        """
        if plan.by_chain:
            return sample_chain(self, network, process, plan, num, run)
        rows, network = whole_start(self, num, run), without(network, plan.options.get("ban", ()))
        if plan.sampler == "first-hitting":
            return unmask_in_order(network, process, rows, plan, run)
        z, queried = all_masked(process, rows), 0
        for k in watched(range(plan.calls), run.progress, plan.calls, "sample", "step", leave=False):
            coin, u = uniform((2, *z.shape), run.generator, z.device)
            goes = (z == process.noise.mask) & (coin < 1 / (plan.calls - k))  # (t - s) / t
            z, needed = unmask(network, process, z, goes, u)
            queried += needed
        return Samples(z, queried / max(1, rows))

    def plan_bound(
        self, network: Any, process: Process, plan: SamplingPlan, x0: Tensor, how: BoundOptions = BoundOptions()
    ) -> Tensor | None:
        """With as many calls as sites the bound itself; with fewer, in random orders, what the calls pay for what they draw."""
        if plan.order is not None or plan.calls == process.length:
            return super().plan_bound(network, process, plan, x0, how)
        return unmasking_bound(network, process, plan.calls, x0, how)


@torch.no_grad()
def unmasking_bound(network: Network, process: Process, calls: int, x0: Tensor, how: BoundOptions) -> Tensor:
    """(B,) nats: what the calls of `unmask_in_order` pay for the sites that they draw, each row in random orders of its own.

    The mean over the orders is a bound. So many calls, at most `draws`, are looked at, each in an order of its own.
    """

    def term(x: Tensor, t: Tensor) -> Tensor:
        now = (t * calls).long()[:, None]
        rank = uniform(x.shape, how.generator, x.device).argsort(1)
        drawn_by = ((rank + 1) * calls - 1) // process.length  # as `unmask_in_order` cuts the sites
        z = torch.where(drawn_by < now, x, process.noise.mask)
        paid = F.cross_entropy(clean_logits(network, process, z).mT.double(), x, reduction="none")
        return calls * torch.where(drawn_by == now, paid, 0.0).sum(1)

    return integral(term, x0, process.vocab, min(how.draws, calls), how.generator)


def unmask_in_order(network: Network, process: Process, rows: int, plan: SamplingPlan, run: Run) -> Samples:
    """Equally many sites with each call, in the plan's order or each row in a random one. One by one it is exact in any."""
    z, L = all_masked(process, rows), process.length
    calls = min(plan.calls, L)
    order = uniform(z.shape, run.generator, z.device).argsort(1) if plan.order is None else plan.order.to(z.device)
    sites = order.expand_as(z)
    for k in watched(range(calls), run.progress, calls, "sample", "step", leave=False):
        now = sites[:, k * L // calls : (k + 1) * L // calls]  # the network answers for these alone
        law = clean_logits(network, process, z, now).double().softmax(-1)
        z = z.scatter(1, now, categorical(law, uniform(now.shape, run.generator, z.device)))
    return Samples(z, float(calls))


def unmask(network: Network, process: Process, z: Tensor, goes: Tensor, u: Tensor) -> tuple[Tensor, int]:
    """Draw the masks that go (B, L) from the network's answers; rows without any need no call. How many did."""
    need = goes.any(1).nonzero().squeeze(1)
    if not len(need):
        return z, 0
    law = clean_logits(network, process, z[need]).double().softmax(-1)
    return torch.where(goes, z.index_copy(0, need, categorical(law, u[need])), z), len(need)


def clean_logits(network: Network, process: Process, z: Tensor, sites: Tensor | None = None) -> Tensor:
    """(B, L, V), or (B, b, V) of masked `sites` alone, of a network that is told which sites are masked, and no time."""
    logits = query(network, z, torch.zeros(len(z), device=z.device), (z != process.noise.mask).double(), sites)
    if process.noise.allowed is None:
        return logits
    allowed = process.noise.allowed if sites is None else process.noise.allowed[sites]
    return logits.masked_fill(~allowed, -torch.inf)


def masked(process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
    """Each site is masked with probability t (B,)."""
    return torch.where(uniform(x0.shape, generator, x0.device) < t[:, None], process.noise.mask, x0)


def all_masked(process: Process, rows: int) -> Tensor:
    """(rows, L)."""
    return torch.full((rows, process.length), process.noise.mask, device=process.noise.probs.device)


def carried_over(process: Process, z: Tensor, law: Tensor) -> Tensor:
    """The law (B, L, V+1) at the masks; elsewhere the token stays."""
    return torch.where((z == process.noise.mask)[..., None], law, F.one_hot(z, process.vocab + 1).to(law))
