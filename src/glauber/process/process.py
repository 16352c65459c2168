"""The forward process: noise falls on one site after the other."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glauber.process.draws import Generator, uniform
from glauber.process.noise import NoiseLaw
from glauber.process.schedule import Schedule
from glauber.process.tokens import Tokens, as_tokens


class Corruption(NamedTuple):
    """What one step of the forward process did to each row. b is the schedule's block; for b = 1 that axis is dropped."""

    x_t: Tensor  # (B, L) the state before step t
    z: Tensor  # (B,) or (B, b) the noise token drawn at step t, -1 for φ: nothing drawn, the site is left alone
    x_next: Tensor  # (B, L) the state after step t
    site: Tensor  # (B,) or (B, b) the site that step t visited
    survival: Tensor  # (B, L) S_t: the probability that each site of x_t still carries its clean token


@dataclass(frozen=True, eq=False)
class Process:
    """A schedule and a noise law: X_{t+1} is X_t with Z_t ~ Π_t put at site i_t, where Π_t = κ_t δ_φ + (1 - κ_t) π."""

    schedule: Schedule
    noise: NoiseLaw

    def __post_init__(self) -> None:
        if self.noise.allowed is not None and len(self.noise.allowed) != self.schedule.length:
            raise ValueError(f"the noise has vocabularies of {len(self.noise.allowed)} sites, the schedule {self.length} sites")

    @property
    def length(self) -> int:
        return self.schedule.length

    @property
    def vocab(self) -> int:
        return self.noise.vocab

    def corrupt(self, x0: Tokens, t: int | Tensor, generator: Generator | None = None, check: bool = True) -> Corruption:
        """Draw X_t directly from X_0 = x0, and X_{t+1} from it; each row has its own t.

        A site survives when every visit kept it, so p_j = 1 - ∏ Π_s(φ) over its visits s < t (the paper's appendix has
        1 - Π_s(φ) inside the product, which agrees only at ½).

        Args:
            x0: (B, L) clean tokens, also as an array or lists.
            t: (B,) or one number, in 0..T-1.
            check: look at x0 and t first, which makes a GPU wait; without it they must be right, and t (B,).
        """
        x0 = self.check_tokens(x0) if check else as_tokens(x0)
        times = self.check_times(t, len(x0), self.schedule.steps - 1) if check else torch.as_tensor(t)
        schedule, noise = self.schedule, self.noise
        survival = schedule.survival(times)
        x_t = self.noised(x0, survival, generator)
        sites, keeps = schedule.sites(times), schedule.keeps(times)
        kept = uniform(sites.shape, generator, x0.device) < keeps
        z = torch.where(kept, -1, noise.sample(sites.shape, generator, sites))
        x_next = x_t.scatter(1, sites, torch.where(kept, x_t.gather(1, sites), z))
        if schedule.block == 1:
            z, sites = z.squeeze(1), sites.squeeze(1)
        return Corruption(x_t, z, x_next, sites, survival)

    def noised(self, x0: Tensor, survival: Tensor, generator: Generator | None = None) -> Tensor:
        """Each site keeps its clean token with its survival probability (B, L), else holds a noise token."""
        alive = uniform(x0.shape, generator, x0.device) < survival
        return torch.where(alive, x0, self.noise.sample(x0.shape, generator))

    def check_tokens(self, x: Tokens, mask: bool = False) -> Tensor:
        """Tokens as (B, L) int64; anything but whole numbers 0..V-1 (V, the mask, where `mask` allows it) is refused."""
        x = as_tokens(x) if isinstance(x, Tensor) else as_tokens(x).to(self.noise.probs.device)
        if x.dim() != 2 or x.shape[1] != self.length:
            raise ValueError(f"expected tokens of shape (rows, {self.length}), got {tuple(x.shape)}")
        top = self.vocab if mask else self.vocab - 1
        if x.numel() and (int(x.min()) < 0 or int(x.max()) > top):
            raise ValueError(f"tokens must lie in 0..{top}; these span {int(x.min())}..{int(x.max())}")
        self._check_vocabularies(x)
        return x

    def _check_vocabularies(self, x: Tensor) -> None:
        """Refuse the first token (B, L) that its site may not hold; a mask may stand anywhere."""
        if self.noise.allowed is None:
            return
        allowed = torch.cat([self.noise.allowed, torch.ones_like(self.noise.allowed[:, :1])], 1).to(x.device)
        wrong = (~allowed.expand(len(x), -1, -1).gather(-1, x[..., None]).squeeze(-1)).nonzero()
        if len(wrong):
            row, site = wrong[0].tolist()
            raise ValueError(f"site {site} may not hold the token {int(x[row, site])}; its vocabulary lacks it")

    def check_times(self, t: int | Tensor, rows: int, last: int) -> Tensor:
        """Times as (rows,) int64 on this process's device, refused outside 0..last."""
        times = torch.as_tensor(t, device=self.noise.probs.device)
        if times.is_floating_point() or times.shape not in ((), (rows,)):
            raise ValueError(f"t must be one whole number or {rows} of them, one per row")
        if times.numel() and (int(times.min()) < 0 or int(times.max()) > last):
            raise ValueError(f"t must lie in 0..{last}, got {int(times.min())}..{int(times.max())}")
        return times.long().expand(rows)

    def to(self, device: torch.device | str) -> "Process":
        schedule, noise = self.schedule.to(device), self.noise.to(device)
        return self if schedule is self.schedule and noise is self.noise else Process(schedule, noise)
