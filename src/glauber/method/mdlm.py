"""MDLM, masked diffusion (Sahoo et al., 2024, arXiv 2406.07524): a site holds its token until time t with probability
α_t = 1 - t, and is the mask from then on.

The network sees tokens and masks, told as survival 1 and 0; so it does not know the time, and need not. Its answer at a mask is
a law over the clean tokens, never the mask, and a token once there stays: the paper's SUBS parameterisation.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.conditional.adapters import Network
from glauber.method.diffusion import Diffusion, Samples, bar, draw_times, query, without
from glauber.objective.cross_entropy import linear_cross_entropy
from glauber.process import Process
from glauber.process.draws import Generator, categorical, uniform


class MDLM(Diffusion):
    """The bound needs no prior and no reconstruction term, since α_1 = 0 and α_0 = 1."""

    objective = "mdlm"
    samplers = ("first-hitting", "ancestral")

    def noised(self, process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
        return masked(process, x0, t, generator)

    def term(self, network: Network, process: Process, x0: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """The continuous-time NELBO, in which α'_t / (1 - α_t) = -1/t: -(1/t) Σ log p(x_0 | z) over the masked sites."""
        loss = F.cross_entropy(clean_logits(network, process, z).flatten(0, 1), x0.flatten(), reduction="none")
        return torch.where(z == process.noise.mask, loss.view_as(x0), 0.0).sum(1) / t

    def loss(
        self,
        network: Network,
        process: Process,
        x0: Tensor,
        check: bool = True,
        generator: Generator | None = None,
        chunked: bool = False,
    ) -> Tensor:
        """As in `Diffusion`; `chunked` never holds all the logits (`linear_cross_entropy`), and needs a `Transformer`."""
        if not chunked:
            return super().loss(network, process, x0, check, generator)
        if check:
            x0 = process.check_tokens(x0)
        t = draw_times(len(x0), generator, x0.device)
        z = masked(process, x0, t, generator)
        hidden, none = z == process.noise.mask, torch.zeros_like(x0).flatten()  # no site has its own token as evidence

        def readout(h: Tensor, head: nn.Linear) -> Tensor:
            scale = (hidden / t[:, None]).flatten() / x0.numel()
            return linear_cross_entropy(h.flatten(0, 1), head.weight, head.bias, none, none.double(), x0.flatten(), scale)

        return network(z, torch.zeros_like(t), (~hidden).double(), readout=readout)

    def law(self, network: Network, process: Process, z: Tensor, t: float, s: float, sampler: str) -> Tensor:
        """p_θ(z_s | z_t): a mask goes with probability (t - s) / t, and then becomes what the network says."""
        p = clean_logits(network, process, z).double().softmax(-1) * ((t - s) / t)
        stay = torch.full_like(p[..., :1], s / t)
        return carried_over(process, z, torch.cat([p, stay], -1))

    def start(self, process: Process, rows: int, generator: Generator | None, ban: Sequence[int] = ()) -> Tensor:
        return all_masked(process, rows)

    @torch.no_grad()
    def sample(
        self,
        network: Network,
        process: Process,
        rows: int,
        calls: int,
        generator: Generator | None = None,
        sampler: str | None = None,
        order: Tensor | None = None,
        progress: bool = False,
        ban: Sequence[int] = (),
    ) -> Samples:
        """Unmask all sites.

        first-hitting (Zheng et al., 2024, arXiv 2409.02908): site by site in random order, which is the continuous-time chain
        itself, exact with L calls; with fewer, equally many sites at a time. With an `order` (L,) of the sites, in that one.
        ancestral: `calls` steps of `law`. What goes is drawn first: a row in which nothing goes needs no call, since the answer
        would be the one before (the paper's cache).
        """
        kind, network = self.chosen(sampler, calls), without(network, ban)
        if kind == "first-hitting":
            return unmask_in_order(network, process, rows, calls, generator, order, progress)
        if order is not None:
            raise ValueError("an order of sites goes with the first-hitting sampler; the ancestral one has its own")
        z, asked = all_masked(process, rows), 0
        for k in bar(range(calls), progress):
            coin, u = uniform((2, *z.shape), generator, z.device)
            z, needed = unmask(network, process, z, (z == process.noise.mask) & (coin < 1 / (calls - k)), u)  # (t - s) / t
            asked += needed
        return Samples(z, asked / max(1, rows))


def unmask_in_order(
    network: Network,
    process: Process,
    rows: int,
    calls: int,
    generator: Generator | None,
    order: Tensor | None = None,
    progress: bool = False,
) -> Samples:
    """Equally many sites with each call, in this order (L,) or each row in a random one. One by one it is exact in any."""
    z, L = all_masked(process, rows), process.length
    calls = min(calls, L)
    sites = uniform(z.shape, generator, z.device).argsort(1) if order is None else order.to(z.device).expand_as(z)
    for k in bar(range(calls), progress):
        now = sites[:, k * L // calls : (k + 1) * L // calls]  # the network answers for these alone
        law = clean_logits(network, process, z, now).double().softmax(-1)
        z = z.scatter(1, now, categorical(law, uniform(now.shape, generator, z.device)))
    return Samples(z, float(calls))


def unmask(network: Network, process: Process, z: Tensor, goes: Tensor, u: Tensor) -> tuple[Tensor, int]:
    """Draw the masks that go (B, L) from the network's answers; rows without any are not asked about. How many were."""
    need = goes.any(1).nonzero().squeeze(1)
    if not len(need):
        return z, 0
    law = clean_logits(network, process, z[need]).double().softmax(-1)
    return torch.where(goes, z.index_copy(0, need, categorical(law, u[need])), z), len(need)


def clean_logits(network: Network, process: Process, z: Tensor, sites: Tensor | None = None) -> Tensor:
    """(B, L, V), or (B, b, V) of masked `sites` alone, of a network that is told which sites are masked, and no time."""
    return query(network, z, torch.zeros(len(z), device=z.device), (z != process.noise.mask).double(), sites)


def masked(process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
    """Each site is masked with probability t (B,)."""
    return torch.where(uniform(x0.shape, generator, x0.device) < t[:, None], process.noise.mask, x0)


def all_masked(process: Process, rows: int) -> Tensor:
    """(rows, L)."""
    return torch.full((rows, process.length), process.noise.mask, device=process.noise.probs.device)


def carried_over(process: Process, z: Tensor, law: Tensor) -> Tensor:
    """The law (B, L, V+1) at the masks; elsewhere the token stays."""
    return torch.where((z == process.noise.mask)[..., None], law, F.one_hot(z, process.vocab + 1).to(law))
