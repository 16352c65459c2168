"""The order in which the rows of an epoch are read: a permutation that needs no memory."""

from collections.abc import Sequence

import numpy as np

ROUNDS = 6


def shuffled(index: np.ndarray, size: int, key: Sequence[int]) -> np.ndarray:
    """Where a random permutation of 0..size-1, named by `key`, sends each index.

    A Feistel network on the smallest even power of two that holds `size`; what falls outside is sent on until it falls inside.
    """
    bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    index = np.asarray(index, dtype=np.uint64)
    out = _feistel(index, bits, key)
    while (outside := out >= size).any():
        out[outside] = _feistel(out[outside], bits, key)
    return out.astype(np.int64)


def _feistel(x: np.ndarray, bits: int, key: Sequence[int]) -> np.ndarray:
    mask, width = np.uint64((1 << bits) - 1), np.uint64(bits)
    left, right = x >> width, x & mask
    for turn in range(ROUNDS):
        left, right = right, left ^ (_hash(right, (*key, turn)) & mask)
    return (left << width) | right


def _hash(x: np.ndarray, key: Sequence[int]) -> np.ndarray:
    """SplitMix64's finaliser, once for each number of the key."""
    with np.errstate(over="ignore"):
        for number in key:
            x = x + np.uint64((number + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
    return x
