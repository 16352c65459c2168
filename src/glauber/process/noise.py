"""The law of a noise token."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from glauber.process.draws import Generator, inverse_cdf, uniform


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """π = Π(· | X), the law of a token that noise puts in place of another: `probs` (V,) in float64, summing to one."""

    probs: Tensor

    def __post_init__(self) -> None:
        probs = torch.as_tensor(self.probs, dtype=torch.float64).detach()
        if probs.dim() != 1 or len(probs) < 2:
            raise ValueError("a noise law is a vector of at least two probabilities, one per token")
        total = probs.sum().item()
        if not bool(torch.isfinite(probs).all()) or bool((probs < 0).any()) or abs(total - 1) > 1e-6:
            raise ValueError("the probabilities of a noise law must be at least 0 and sum to 1")
        # A law that is exact but for rounding stays as it is to the bit, however often it is saved, loaded or moved.
        object.__setattr__(self, "probs", probs if abs(total - 1) < 1e-12 else probs / total)

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

    def sample(self, shape: Sequence[int], generator: Generator | None = None) -> Tensor:
        """Independent noise tokens, int64."""
        return self.draw(uniform(shape, generator, self.probs.device))

    def draw(self, u: Tensor) -> Tensor:
        """Noise tokens from given uniforms."""
        return inverse_cdf(self.cdf, u)

    def to(self, device: torch.device | str) -> "NoiseLaw":
        probs = self.probs.to(device)
        return self if probs is self.probs else NoiseLaw(probs)
