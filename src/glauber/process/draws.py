"""Float64 random draws. float32 uniforms have 2^24 values and quietly lower the temperature of a large vocabulary."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from numbers import Integral

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / the golden ratio, as an int64


class KeyedGenerator:
    """Random numbers as a function of a key and a row: the same on every device, in every split of a batch over processes.

    Each draw hashes (key, row, how many draws came before, index within the row) with SplitMix64's finaliser. Every shape drawn
    has the rows as its first axis.

    Args:
        key: whole numbers, e.g. (seed, step), or their `digest` as a tensor on the rows' device.
        rows: (B,) int64 which rows of the whole batch these are.
        total: rows of the whole batch.
    """

    def __init__(self, key: Sequence[int] | Tensor, rows: Tensor, total: int):
        self.key = key if isinstance(key, Tensor) else torch.full((), digest(key), device=rows.device)
        self.rows, self.total, self.draws = rows, total, 0
        self.start = _mix(self.key + (rows + 1) * GOLDEN)  # (B,)

    @property
    def device(self) -> torch.device:
        return self.rows.device

    def repeat(self, times: int) -> "KeyedGenerator":
        """For a batch in which each row stands `times` times in a row."""
        copies = self.rows[:, None] * times + torch.arange(times, device=self.device)
        return KeyedGenerator(self.key, copies.flatten(), self.total * times)

    def every(self, number: int) -> "KeyedGenerator":
        """For the first of every `number` rows; their numbers are none of those that are left."""
        return KeyedGenerator(self.key, self.rows[::number] // number + self.total, self.total // number)

    def without_every(self, number: int) -> "KeyedGenerator":
        """For a batch without the first of every `number` rows; those left are counted anew."""
        left = self.rows.view(-1, number)[:, 1:].flatten()
        return KeyedGenerator(self.key, left - left // number - 1, self.total // number * (number - 1))

    def shared(self) -> Tensor:
        """() one float64 uniform in [0, 1), the same for all rows of the whole batch."""
        self.draws += 1
        return _hashed(_mix(self.key)[None] + _signed(self.draws * GOLDEN), _index(1, self.device))[0, 0]  # of the row -1

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Float64 uniforms in [0, 1), of shape (B, ...)."""
        if shape[0] != len(self.rows):
            raise ValueError(f"these random numbers are for {len(self.rows)} rows, not {shape[0]}")
        self.draws += 1
        hashed = _compiled() if self.start.is_cuda else _hashed
        stream, index = self.start + _signed(self.draws * GOLDEN), _index(math.prod(shape[1:]), self.device)
        return hashed(stream, index).view(tuple(shape))


def digest(key: Sequence[int]) -> int:
    """The key of `KeyedGenerator` as one int64."""
    state = 0
    for number in key:
        state = (state + (number + 1) * GOLDEN) % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            state = (state ^ (state >> shift)) * factor % 2**64
    return _signed(state)


class RowGenerators:
    """Random numbers for rows that are drawn together, each part of them by a generator of its own: the same as alone.

    Args:
        parts: generators, and how many rows each draws for; None for fresh randomness.
    """

    device = torch.device("cpu")

    def __init__(self, parts: Sequence[tuple[torch.Generator | None, int]]):
        self.parts = list(parts)

    def uniform(self, shape: Sequence[int], rows: int) -> Tensor:
        """Float64 uniforms in [0, 1); the axis `rows` of the shape is that of the rows."""
        if shape[rows] != sum(number for _, number in self.parts):
            raise ValueError(f"these random numbers are not for {shape[rows]} rows")
        own = ((*shape[:rows], number, *shape[rows + 1 :]) for _, number in self.parts)
        drawn = [uniform(part, generator, self.device) for part, (generator, _) in zip(own, self.parts, strict=True)]
        return torch.cat(drawn, dim=rows)


Generator = torch.Generator | KeyedGenerator | RowGenerators


def uniform(shape: Sequence[int], generator: Generator | None, device: torch.device, rows: int = 0) -> Tensor:
    """Float64 uniforms in [0, 1), drawn where the generator lives and moved to `device`.

    rows: which axis of the shape is that of the rows.
    """
    if isinstance(generator, RowGenerators):
        return generator.uniform(shape, rows).to(device)
    if isinstance(generator, KeyedGenerator):
        return generator.uniform(shape).to(device)
    source = generator.device if generator is not None else device
    return torch.rand(tuple(shape), dtype=torch.float64, generator=generator, device=source).to(device)


def categorical(weights: Tensor, u: Tensor) -> Tensor:
    """Draw an index per row by inverting the cumulative sum: weights (..., V) ≥ 0, u (...) in [0, 1) → (...).

    The weights need not sum to one. An index of weight zero is never drawn.
    """
    return inverse_cdf(weights.double().cumsum(-1), u)


def inverse_cdf(cdf: Tensor, u: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds u · total: cdf (..., V) or (V,), u (...)."""
    total = cdf[..., -1]
    # u · total may round up to total itself; one step down keeps the answer inside the support.
    target = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
    if cdf.dim() == 1:
        return torch.searchsorted(cdf, target, right=True)
    return torch.searchsorted(cdf.contiguous(), target.unsqueeze(-1), right=True).squeeze(-1)


@cache
def _index(size: int, device: torch.device) -> Tensor:
    return torch.arange(1, size + 1, device=device) * GOLDEN


def _hashed(stream: Tensor, index: Tensor) -> Tensor:
    """(B,) and (size,) → (B, size) float64 uniforms."""
    bits = _mix(_mix(stream)[:, None] + index)
    return _shift(bits, 11).double() * 2.0**-53


@cache
def _compiled() -> Callable[[Tensor, Tensor], Tensor]:
    """`_hashed` as one kernel instead of twenty. Made when first needed: the compiler takes long to import."""
    return torch.compile(_hashed, dynamic=True)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64, whose products wrap around."""
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """A logical shift to the right; int64's own keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """A whole number as int64 holds it, wrapped around."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def new_generator(seed: int | None) -> torch.Generator | None:
    """One for a seed; None for fresh randomness."""
    if seed is None:
        return None
    if not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, or None for fresh randomness, not {seed}")
    return torch.Generator().manual_seed(int(seed))
