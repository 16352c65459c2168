"""Temperature, banned tokens, top-k and top-p: ways to leave the exact law on purpose."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

from glauber.process import as_tokens

PLACES = ("clean", "mixture")
FEW = 256
"""Tokens that mostly suffice for top-p, and are found without sorting all of them."""


@dataclass(frozen=True)
class Truncation:
    """What to do to a law before drawing from it, in this order: temperature, ban, top-k, top-p.

    Args:
        temperature: one value, or several, one for each equal part of the chain, the noisy end first: the paper's 1.05 in
            the first half is (1.05, 1.0).
        place: "clean" truncates the clean conditional c, "mixture" the step law p = S c + (1-S) π, as the paper does. They
            are different laws (identity 5).
    """

    temperature: float | Sequence[float] = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    ban: Sequence[int] = ()
    place: str = "clean"

    def __post_init__(self) -> None:
        temperatures = (
            (float(self.temperature),) if isinstance(self.temperature, float | int | Real) else tuple(self.temperature)
        )
        object.__setattr__(self, "temperature", temperatures)
        object.__setattr__(self, "ban", tuple(as_tokens(list(self.ban)).tolist()))
        if not temperatures or not all(0 < value < float("inf") for value in temperatures):
            raise ValueError("temperature must be above 0; use a small one such as 0.1 for near-certain choices")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top-p must lie in (0, 1], not {self.top_p}")
        if self.top_k is not None and (not isinstance(self.top_k, Integral) or self.top_k < 1):
            raise ValueError(f"top-k must be a whole number of at least 1, not {self.top_k}")
        if self.place not in PLACES:
            raise ValueError(f"truncate is 'clean' or 'mixture', not {self.place!r}")

    def check_vocab(self, vocab: int) -> None:
        if any(not isinstance(token, int) or not 0 <= token < vocab for token in self.ban):
            raise ValueError(f"banned tokens must be whole numbers in 0..{vocab - 1}")
        if len(set(self.ban)) >= vocab:
            raise ValueError("every token is banned; leave at least one")

    @property
    def active(self) -> bool:
        return set(self.temperature) != {1.0} or self.top_p < 1 or self.top_k is not None or bool(self.ban)  # type: ignore[arg-type]

    def __call__(self, log_law: Tensor, done: int | Tensor, steps: int, check: bool = True) -> Tensor:
        """Probabilities (B, ..., V) from logarithms, when `done` of the chain's `steps` lie behind, or (B,) behind each row.

        check: see that the ban leaves some token, which makes a GPU wait.
        """
        if not self.active:
            return log_law.exp()
        parts: tuple[float, ...] = self.temperature  # type: ignore[assignment]
        logits = log_law / _part(parts, done, steps, log_law)
        if self.ban:
            for token in self.ban:  # one by one: a list would have to be brought to the GPU
                logits.select(-1, token).fill_(-torch.inf)
            if check and not bool((logits > -torch.inf).any(-1).all()):
                raise ValueError("a ban leaves no possible token at some site; ban fewer tokens")
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            best = logits.topk(self.top_k)
            logits = torch.full_like(logits, -torch.inf).scatter(-1, best.indices, best.values)
        law = logits.softmax(-1)
        return keep_top_p(law, self.top_p) if self.top_p < 1 else law


def _part(parts: Sequence[float], done: int | Tensor, steps: int, like: Tensor) -> float | Tensor:
    """The part of the chain's `steps` in which those that are `done` end, (B, 1, ...) where each row has its own."""
    if not isinstance(done, Tensor) or len(parts) == 1:
        return parts[0] if isinstance(done, Tensor) else parts[done * len(parts) // steps]
    number, own = done * len(parts) // steps, torch.zeros_like(done, dtype=like.dtype)
    for k, part in enumerate(parts):
        own = torch.where(number == k, part, own)
    return own.view(-1, *[1] * (like.dim() - 1))


def keep_top_p(law: Tensor, top_p: float) -> Tensor:
    """The fewest most likely tokens whose probabilities reach top_p, renormalised."""
    rows = law.reshape(-1, law.shape[-1])
    if rows.is_cuda or rows.shape[-1] <= FEW:  # a GPU would have to wait to know whether a few tokens suffice
        kept, _ = _kept(rows, rows.sort(-1, descending=True), top_p)
    else:
        kept, mass = _kept(rows, rows.topk(FEW), top_p)
        many = (mass < top_p).nonzero().squeeze(1)
        if len(many):
            kept[many], _ = _kept(rows[many], rows[many].sort(-1, descending=True), top_p)
    return (kept / kept.sum(-1, keepdim=True)).view_as(law)


def _kept(law: Tensor, best: tuple[Tensor, Tensor], top_p: float) -> tuple[Tensor, Tensor]:
    """The law (B, V), 0 where it is not kept; `best` are its largest values and their tokens, (B, n). And their mass (B,)."""
    value, token = best
    reached = value.cumsum(-1)
    kept = torch.where(reached - value < top_p, value, 0.0)  # the mass of the tokens that are more likely
    return torch.zeros_like(law).scatter(-1, token, kept), reached[:, -1]
