"""What can be said of rows of tokens before anything is trained on them: entropy, doubles, rows that both splits have."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

MOST = 2**18
"""Rows of a split that are looked at, evenly spread."""
AT_ONCE = 2**22
"""Tokens."""


class Rows(Protocol):
    """N rows of tokens, read by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> np.ndarray: ...


class Doubles(NamedTuple):
    """Of the rows that were looked at, how many are copies."""

    train: int
    """Rows to train on that an earlier one is the same as."""
    shared: int
    """Rows to validate on that are among those to train on."""
    looked: int
    """Rows to train on that were looked at."""


def entropy(counts: np.ndarray) -> float:
    """Bits per token of the law by which the tokens occur."""
    law = np.asarray(counts, np.float64)
    law = law[law > 0] / max(law.sum(), 1)
    return float(-(law * np.log2(law)).sum()) + 0.0


def doubles(train: Rows, valid: Rows) -> Doubles:
    """Count the rows that are the same, number for number."""
    seen = set[bytes]()
    looked = 0
    for looked, key in enumerate(_keys(train), start=1):  # noqa: B007 (its last value counts)
        seen.add(key)
    return Doubles(looked - len(seen), sum(key in seen for key in _keys(valid)), looked)


def _keys(rows: Rows) -> Iterator[bytes]:
    """A digest of each row."""
    index = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST)).astype(np.int64))
    if not len(index):
        return
    step = max(1, AT_ONCE // max(1, rows[index[:1]].size))
    for at in range(0, len(index), step):
        for row in np.ascontiguousarray(rows[index[at : at + step]]):
            yield hashlib.blake2b(row.tobytes(), digest_size=16).digest()
