"""The law of a noise token."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from glauber.process.draws import Generator, inverse_cdf, uniform

NUMBERS = 2**24
"""Of the laws of single sites that are made at once."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """π = Π(· | X), the law of a token that noise puts in place of another: `probs` (V,) in float64, summing to one.

    Where each site has a vocabulary of its own, the noise at site j is π given that its token is one of these.
    """

    probs: Tensor
    allowed: Tensor | None = None
    """(L, V) bool, the tokens that each site may hold; None where every site may hold all of them."""

    def __post_init__(self) -> None:
        probs = torch.as_tensor(self.probs, dtype=torch.float64).detach()
        if probs.dim() != 1 or len(probs) < 2:
            raise ValueError("a noise law is a vector of at least two probabilities, one per token")
        total = probs.sum().item()
        if not bool(torch.isfinite(probs).all()) or bool((probs < 0).any()) or abs(total - 1) > 1e-6:
            raise ValueError("the probabilities of a noise law must be at least 0 and sum to 1")
        # A law that is exact but for rounding stays as it is to the bit, however often it is saved, loaded or moved.
        object.__setattr__(self, "probs", probs if abs(total - 1) < 1e-12 else probs / total)
        if self.allowed is not None:
            object.__setattr__(self, "allowed", _checked_mask(self.allowed, self.probs))

    @classmethod
    def uniform(cls, vocab: int) -> "NoiseLaw":
        """Every token alike: the paper's choice for image codes."""
        if vocab < 2:
            raise ValueError(f"a vocabulary needs at least two tokens, not {vocab}")
        return cls(torch.full((vocab,), 1 / vocab, dtype=torch.float64))

    @classmethod
    def unigram(cls, counts: Sequence[float] | Tensor, smoothing: float = 1.0) -> "NoiseLaw":
        """Tokens as frequent as in the data, π(a) ∝ n_a + smoothing: the paper's choice for text.

        Without smoothing a token that the data lacks can never be noise, and its classifier is undefined.
        """
        n = torch.as_tensor(counts, dtype=torch.float64)
        if n.dim() != 1 or bool((n < 0).any()) or smoothing < 0 or not (n.sum() + smoothing * n.numel() > 0):
            raise ValueError("counts must be a vector of numbers that are at least 0, not all 0 without smoothing")
        return cls((n + smoothing) / (n + smoothing).sum())

    @property
    def vocab(self) -> int:
        return len(self.probs)

    @property
    def mask(self) -> int:
        """The id of the mask ω, one past the last token."""
        return self.vocab

    @cached_property
    def cdf(self) -> Tensor:
        return self.probs.cumsum(0)

    @cached_property
    def table(self) -> Tensor:
        """(V,), or (L, V) where each site has a vocabulary of its own."""
        if self.allowed is None:
            return self.probs
        within = self.probs * self.allowed
        return within / within.sum(1, keepdim=True)

    @cached_property
    def _site_cdf(self) -> Tensor:
        return self.table.cumsum(-1)

    def at(self, sites: Tensor) -> Tensor:
        """π of these sites: (V,) if it is the same everywhere, else (..., V)."""
        return self.table if self.allowed is None else self.table[sites]

    def within(self, log_law: Tensor, sites: Tensor) -> Tensor:
        """(..., V) log-probabilities at these sites (...), given that each holds a token of its vocabulary."""
        return log_law if self.allowed is None else log_law.masked_fill(~self.allowed[sites], -torch.inf).log_softmax(-1)

    def sample(self, shape: Sequence[int], generator: Generator | None = None, sites: Tensor | None = None) -> Tensor:
        """Independent noise tokens, int64, as `draw`."""
        return self.draw(uniform(shape, generator, self.probs.device), sites)

    def draw(self, u: Tensor, sites: Tensor | None = None) -> Tensor:
        """Noise tokens from given uniforms, at these sites; if None the last axis is that of all sites."""
        if self.allowed is None:
            return inverse_cdf(self.cdf, u)
        where = torch.arange(len(self.table), device=u.device) if sites is None else sites
        cdf, size = self._site_cdf, max(1, NUMBERS // self.vocab)
        parts = zip(u.flatten().split(size), where.expand(u.shape).flatten().split(size), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([inverse_cdf(cdf[site], part) for part, site in parts]).view(u.shape)

    def to(self, device: torch.device | str) -> "NoiseLaw":
        probs = self.probs.to(device)
        return self if probs is self.probs else NoiseLaw(probs, None if self.allowed is None else self.allowed.to(device))


def probability(pi: Tensor, tokens: Tensor) -> Tensor:
    """π(token) of each of the tokens (...), by a law (V,) of all sites or by each site's own, (..., V)."""
    return pi[tokens] if pi.dim() == 1 else pi.expand(*tokens.shape, -1).gather(-1, tokens[..., None]).squeeze(-1)


def _checked_mask(allowed: Tensor, probs: Tensor) -> Tensor:
    """On the device of the law; refused where some site is left without noise."""
    mask = torch.as_tensor(allowed, device=probs.device)
    if mask.dtype != torch.bool or mask.dim() != 2 or mask.shape[1] != len(probs):
        raise ValueError(f"the vocabularies of the sites are booleans of shape (sites, {len(probs)}), not {tuple(mask.shape)}")
    empty = ((probs * mask).sum(1) == 0).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f"site {empty[0]} may hold no token that noise can draw; allow it one")
    return mask
