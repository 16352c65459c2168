"""From a network's logits to what the chain asks for."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.conditional.transformer import Cache, Transformer
from glauber.process import Process

FARTHEST = 1000.0
"""Guidance beyond this is a slip."""
Network = Callable[..., Tensor]
"""Anything called as `Transformer.forward` is."""


class Denoiser:
    """A network trained with the dense loss: its logits at a masked site are the clean conditional, up to a constant.

    Args:
        class_: of all rows, if the network has classes.
        guidance: w of `guided`, away from what the network says without a class; costs a second call.
    """

    def __init__(self, network: Network, class_: int | None = None, guidance: float = 0.0):
        check_guidance(class_, guidance)
        self.network, self.class_, self.guidance = network, class_, guidance

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        condition = {} if self.class_ is None else {"class_": self.class_}
        law = self.network(x, t, survival, sites, **condition).double().log_softmax(-1)
        if self.guidance == 0:
            return law
        return guided(law, self.network(x, t, survival, sites).double().log_softmax(-1), self.guidance)


def check_guidance(class_: int | None, guidance: float) -> None:
    """Refuse a guidance that goes nowhere, or so far that numbers end."""
    if not 0 <= guidance <= FARTHEST:
        raise ValueError(f"guidance is between 0 and {FARTHEST:.0f}, such as 2, not {guidance}")
    if guidance and class_ is None:
        raise ValueError("guidance goes towards a class; say which one")


def guided(conditioned: Tensor, unconditioned: Tensor, guidance: float) -> Tensor:
    """Classifier-free guidance: (1+w) log c(a | x, class) - w log c(a | x), normalised over the tokens a, (..., V)."""
    beyond = (1 + guidance) * conditioned - guidance * unconditioned
    return torch.where(conditioned == -torch.inf, conditioned, beyond).log_softmax(-1)  # what is impossible stays so


class CausalConditional:
    """A causal network, for sweeps from left to right: the clean conditional of a site given the sites before it alone.

    It goes on from where its cache ends, so that a sweep costs one pass over the row, and not one for each site.
    """

    def __init__(self, network: Any):
        self.network: Transformer = network
        self.cache: Cache | None = None
        self.seen = torch.empty(0, 0)  # (B, n) the slots that the cache holds

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        """As `Conditional`, for one site, the same in all rows; what x holds from there on is not looked at."""
        site = int(sites[0, 0])
        if sites.shape[1] != 1 or bool((sites != site).any()):
            raise ValueError("a causal network answers site after site, all rows together; use block 1 and one order")
        slots = F.pad(x[:, :site], (1, 0), value=self.network.begin)
        known = self.seen.shape[1]
        if self.cache is None or known > site or not self._goes_on(slots[:, :known]):
            self.cache, known = Cache(self.network, len(x)), 0
        if known == 0:
            logits, known = self.network.extend(slots, self.cache), site + 1
        for start in range(known, site + 1):
            slot = x.new_tensor([start]) if x.is_cuda else None  # a GPU plans its attention anew for each shape: let it be one
            logits = self.network.extend(slots[:, start : start + 1], self.cache, slot)
        self.seen = slots
        return logits.double().log_softmax(-1)[:, None]

    def _goes_on(self, slots: Tensor) -> bool:
        """Whether the cache holds these slots (B, n), if need be without the rows that are no longer there."""
        if self.cache is None or torch.equal(self.seen, slots):
            return self.cache is not None
        if len(slots) >= len(self.seen):
            return False
        same = (slots[:, None] == self.seen[None]).all(-1)  # what stands for a row depends on its slots alone
        if not bool(same.any(1).all()):
            return False
        self.cache.keep(same.int().argmax(1))
        return True

    def together(self, rows: int) -> "CausalBatch":
        """For so many rows that are drawn from the first site to the last, none left out."""
        return CausalBatch(self.network, rows)

    def rows(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """log P(x_j | x_0 .. x_{j-1}) of every token of clean rows, in one pass: (B, L) → (B, L).

        allowed: (L, V) bool, the tokens that each site may hold.
        """
        laws = self.laws(x)
        laws = laws if allowed is None else laws.masked_fill(~allowed, -torch.inf).log_softmax(-1)
        return laws.gather(-1, x[..., None]).squeeze(-1)

    def laws(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        """log P(· | x_0 .. x_{j-1}) at the sites j (B, b), or every site, of clean rows (B, L) in one pass: (B, b or L, V)."""

        def readout(h: Tensor, head: torch.nn.Linear) -> Tensor:
            there = h if sites is None else h.gather(1, sites[..., None].expand(-1, -1, h.shape[-1]))
            answer: Tensor = head(there)
            return answer

        clean = torch.ones_like(x, dtype=torch.float64)
        logits: Tensor = self.network(x, torch.zeros_like(x[:, 0]), clean, readout=readout, causal_rows=len(x))
        return logits.double().log_softmax(-1)


class CausalBatch:
    """A `CausalConditional` that is queried for each site once, in order. On a GPU it looks at no number outside of tensors, so
    that one of its answers can be a CUDA graph, which is replayed for all sites."""

    def __init__(self, network: Transformer, rows: int):
        self.network, self.cache = network, Cache(network, rows)

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        """As `Conditional`, for one site, the same in all rows."""
        left = F.pad(x, (1, 0), value=self.network.begin).gather(1, sites)  # what the slot that answers holds
        slot = sites[0] if x.is_cuda else None  # on a CPU it is faster to count along, and to look at no empty slots
        return self.network.extend(left, self.cache, slot).double().log_softmax(-1)[:, None]


class Classifier:
    """A network trained with the binary or marginal loss: σ(logit_a) = ŷ_a tells whether an a at the site is noise.

    The paper's formula p_t(a) = Π_t(a)/Π_t(φ) · (1/ŷ_a - 1), renormalised, since a trained ŷ is not quite consistent.
    1/σ(l) - 1 is exp(-l), so in logarithms it is a subtraction.
    """

    def __init__(self, network: Network, process: Process):
        require_classifiable(process)
        self.network, self.process = network, process

    def step_law(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        self.process = process = self.process.to(x.device)
        kappa = process.schedule.keeps(t)[..., None]
        prior = ((1 - kappa) / kappa).log() + process.noise.probs.log()  # log Π_t(a) / Π_t(φ)
        return (prior - self.network(x, t, survival, sites).double()).log_softmax(-1)


def require_classifiable(process: Process) -> None:
    """Refuse a process in which some question "signal or noise?" has a constant or undefined answer (identity 2)."""
    if not bool(((process.schedule.keep > 0) & (process.schedule.keep < 1)).all()):
        raise ValueError(
            "the paper's classifier needs 0 < keep < 1 at every step; use the dense loss for a schedule that ends in 0"
        )
    if not bool(torch.all(process.noise.probs > 0)):
        raise ValueError("the paper's classifier needs a noise law without zeros; smooth it, e.g. smoothing=1")
