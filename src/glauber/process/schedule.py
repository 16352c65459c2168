"""Which site is visited at each step, and how likely the visit is to leave it alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

MOST = 2**22
"""Steps of a schedule, and sites: more are never meant, and their tables would fill the memory."""
ORDERS = ("right-to-left", "left-to-right", "random", "strided", "segments")


@dataclass(frozen=True, eq=False)
class Schedule:
    """A round robin over `order`: visit t goes to site i_t = order[t mod L] and keeps its token with probability κ_t.

    Shapes: L sites, T visits (`steps`), b sites visited at once (`block`), B rows. Times t run over 0..T; a time inside
    a block means the block that contains it. Tables are float64. Build one with `Schedule.round_robin`.

    Args:
        order: (L,) the sites, each once, in the order in which they are noised; the chain walks back through it.
        keep: (T,) κ_t, the probability that visit t leaves its site alone.
        block: sites updated at once; it divides L and T. The chain is exact for block 1.
    """

    order: Tensor
    keep: Tensor
    block: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", _whole_numbers(self.order))
        object.__setattr__(self, "keep", torch.as_tensor(self.keep).double())
        L, T = len(self.order), len(self.keep)
        if L < 1 or not torch.equal(self.order.sort().values, torch.arange(L, device=self.order.device)):
            raise ValueError(f"order must name each of the sites 0..{L - 1} exactly once")
        if T < 1:
            raise ValueError("a schedule needs at least one step")
        if not bool(((self.keep >= 0) & (self.keep <= 1)).all()):  # also catches NaN
            raise ValueError("keep must lie in [0, 1], since it is a probability")
        if self.block < 1 or L % self.block or T % self.block:
            raise ValueError(f"block must divide both the length ({L}) and the steps ({T}), and {self.block} does not")

    @classmethod
    def round_robin(
        cls,
        length: int,
        steps: int,
        keep: float | Sequence[float] | Tensor | str = 0.5,
        order: str | Sequence[int] | Tensor = "right-to-left",
        block: int = 1,
        last_keep: float | None = None,
        generator: torch.Generator | None = None,
    ) -> "Schedule":
        """Visit the sites again and again in one fixed order.

        Args:
            length: L, the number of sites.
            steps: T, the number of site visits; the chain makes at most T / block network calls.
            keep: κ as one value, K = T/L values (one per sweep), T values (one per step), or "linear": survival falls by
                equal parts with each sweep and ends in 0.
            order: how the chain writes: "left-to-right", "right-to-left", "random" (one permutation for all sweeps), "strided"
                (right to left, the sites of a block L/block apart), "segments" (each of `block` equal parts from left to right,
                all parts at once); or the sites themselves, in the order in which they are noised.
            last_keep: κ of the last sweep. 0 makes X_T pure noise, so that a chain from noise is exact.
            generator: for order "random".

        Example:
            >>> Schedule.round_robin(length=4, steps=8, keep=0.5).survival(torch.tensor([6])).tolist()
            [[0.25, 0.25, 0.5, 0.5]]
        """
        if length < 1 or steps < 1:
            raise ValueError(f"length and steps must be at least 1, not {length} and {steps}")
        if max(length, steps) > MOST:
            raise ValueError(f"a schedule has at most {MOST:,} sites and steps, not {length:,} and {steps:,}")
        if block < 1 or length % block:
            raise ValueError(f"block must divide the length ({length}), and {block} does not")
        kappa = _keep_per_step(keep, length, steps)
        if last_keep is not None:
            kappa[-min(length, steps) :] = last_keep
        return cls(_order(order, length, block, generator), kappa, block)

    @property
    def length(self) -> int:
        return len(self.order)

    @property
    def steps(self) -> int:
        return len(self.keep)

    @property
    def sweeps(self) -> int:
        """K, the most visits that any site gets."""
        return -(-self.steps // self.length)

    @property
    def times(self) -> range:
        """The times at which an update begins, in the forward direction."""
        return range(0, self.steps, self.block)

    def site(self, t: int | Tensor) -> Tensor:
        """i_t, elementwise."""
        return self.order[torch.as_tensor(t, device=self.order.device) % self.length]

    def sites(self, t: Tensor) -> Tensor:
        """The sites updated together at time t: (B,) → (B, b)."""
        return self.site(self._visits(t))

    def keeps(self, t: Tensor) -> Tensor:
        """κ of each of `sites(t)`: (B,) → (B, b)."""
        return self.keep[self._visits(t)]

    def settled(self, sites: Tensor) -> int:
        """The time from which on, going back, none of the sites (L,) bool is visited any more; 0 where there is none."""
        ranks = sites.to(self.order.device)[self.order].nonzero()
        return int(ranks.min()) // self.block * self.block if len(ranks) else 0

    def survival(self, t: Tensor) -> Tensor:
        """S_t(j) = ∏_{s<t, i_s=j} κ_s, the probability that site j still carries its clean token: (B,) → (B, L)."""
        start = (t // self.block * self.block).unsqueeze(-1)
        visited = start // self.length + (self._rank < start % self.length)  # visits of each site before t
        return self._survival_after[visited, self._rank]

    @cached_property
    def causal(self) -> bool:
        """Whether this is one sweep that noises all, from the last site to the first: undone, each site is drawn given a clean
        beginning and noise that tells nothing, which is autoregressive generation."""
        last_to_first = torch.arange(self.length - 1, -1, -1, device=self.order.device)
        return self.block == 1 and torch.equal(self.order, last_to_first) and self.draws_once

    @cached_property
    def draws_once(self) -> bool:
        """Whether this is one sweep that noises all: undone, each site is drawn once, so that the law of a row is known."""
        return self.steps == self.length and not bool(self.keep.any())

    @cached_property
    def signal(self) -> Tensor:
        """(T,) S_t(i_t): how often a heat-bath chain with the skip needs the network at visit t (identity 5)."""
        return self._survival_after[:-1].flatten()[: self.steps]

    def to(self, device: torch.device | str) -> "Schedule":
        order = self.order.to(device)
        return self if order is self.order else Schedule(order, self.keep.to(device), self.block)

    def to_dict(self) -> dict[str, Any]:
        """The shortest arguments of `round_robin` that give this schedule back."""
        keep, L = self.keep, self.length
        order: str | list[int] = self.order.tolist()
        for name in ("right-to-left", "left-to-right", "strided", "segments"):
            if torch.equal(self.order.cpu(), _order(name, L, self.block, None)):
                order = name
                break
        if bool((keep == keep[0]).all()):
            short: float | list[float] = keep[0].item()
        elif self.steps % L == 0 and bool((keep.view(-1, L) == keep.view(-1, L)[:, :1]).all()):
            short = keep.view(-1, L)[:, 0].tolist()
        else:
            short = keep.tolist()
        return {"length": L, "steps": self.steps, "keep": short, "order": order, "block": self.block}

    def _visits(self, t: Tensor) -> Tensor:
        return (t // self.block * self.block).unsqueeze(-1) + torch.arange(self.block, device=t.device)

    @cached_property
    def _rank(self) -> Tensor:
        """(L,) where each site stands in the order."""
        return self.order.argsort()

    @cached_property
    def _survival_after(self) -> Tensor:
        """(K+1, L) survival after r visits of the site that stands at each rank."""
        K, L = self.sweeps, self.length
        kappa = self.keep.new_ones(K * L)
        kappa[: self.steps] = self.keep
        return torch.cat([self.keep.new_ones(1, L), kappa.view(K, L).cumprod(0)])


def smallest_block(length: int, steps: int, calls: int) -> int:
    """The fewest sites at once with which so many visits take at most so many network calls."""
    blocks = (block for block in range(1, length + 1) if length % block == 0 and steps % block == 0)
    found = next((block for block in blocks if steps <= block * calls), None)
    if found is None:
        raise ValueError(f"no block of {length} sites makes {steps} visits in {calls} calls; give more calls, or fewer visits")
    return found


def _keep_per_step(keep: float | Sequence[float] | Tensor | str, length: int, steps: int) -> Tensor:
    sweeps = -(-steps // length)
    if isinstance(keep, str):
        if keep != "linear":
            raise ValueError(f"keep is a number, a list of numbers, or 'linear', not {keep!r}")
        if steps % length:
            raise ValueError(f"keep='linear' needs whole sweeps: steps a multiple of {length}, not {steps}")
        left = torch.arange(sweeps, -1, -1, dtype=torch.float64)  # survival after r sweeps, times K
        keep = left[1:] / left[:-1]
    kappa = torch.as_tensor(keep, dtype=torch.float64).detach().cpu()
    if kappa.dim() == 0:
        return kappa.repeat(steps)
    if kappa.shape == (steps,):
        return kappa.clone()
    if kappa.shape == (sweeps,):
        return kappa.repeat_interleave(length)[:steps]
    raise ValueError(f"keep has {kappa.numel()} values; give one, one per sweep ({sweeps}) or one per step ({steps})")


def _order(order: str | Sequence[int] | Tensor, length: int, block: int, generator: torch.Generator | None) -> Tensor:
    if not isinstance(order, str):
        sites = _whole_numbers(order)
        if sites.shape != (length,):
            raise ValueError(f"order must name each of the {length} sites exactly once")
        return sites
    if order == "right-to-left":
        return torch.arange(length)
    if order == "left-to-right":
        return torch.arange(length - 1, -1, -1)
    if order in ("strided", "segments"):
        parts = torch.arange(length).view(block, length // block)
        return (parts if order == "strided" else parts.flip(1)).T.flatten()
    if order == "random":
        device = generator.device if generator is not None else torch.device("cpu")
        return torch.randperm(length, generator=generator, device=device).cpu()
    raise ValueError(f"unknown order {order!r}; choose one of {', '.join(ORDERS)}, or give the sites themselves")


def _whole_numbers(order: Sequence[int] | Tensor) -> Tensor:
    try:
        sites = torch.as_tensor(order)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError("an order is a name, or made of whole numbers, the sites") from error
    if sites.is_floating_point():
        raise ValueError("an order is made of whole numbers, the sites")
    return sites.long()
