"""Tokens → rows → shards."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from glauber.data.shards import row_dtype
from glauber.runtime.files import write


class Packer:
    """The tokens of one split, written as a shard whenever there are more than one holds.

    Args:
        length: of a row; with `classes`, the last of its numbers is the row's class, and no token.
    """

    def __init__(self, folder: Path, split: str, rows: int, length: int, vocab: int, classes: int = 0):
        self.folder, self.split, self.length, self.has_classes = folder, split, length, classes > 0
        self.buffer = np.empty(rows * length, dtype=row_dtype(max(vocab, classes)))
        self.filled = 0
        self.shards: list[dict[str, Any]] = []
        self.counts = np.zeros(vocab, dtype=np.int64)

    @property
    def waiting(self) -> int:
        """Whole rows that are not yet written."""
        return self.filled // self.length

    @property
    def rows(self) -> int:
        """Whole rows, written or not."""
        return self.waiting + sum(int(shard["rows"]) for shard in self.shards)

    def add(self, tokens: np.ndarray) -> None:
        while len(tokens):
            if self.filled == len(self.buffer):
                self.write()
            part = tokens[: len(self.buffer) - self.filled]
            self.buffer[self.filled : self.filled + len(part)] = part
            self.filled, tokens = self.filled + len(part), tokens[len(part) :]

    def write(self) -> None:
        """The rows that wait, as a shard; what does not fill a row is dropped."""
        tokens = self.buffer[: self.waiting * self.length]
        if len(tokens):
            name = f"{self.split}-{len(self.shards):05d}.bin"
            little = tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).data
            write(self.folder / name, little)
            self.shards.append({"file": name, "rows": self.waiting, "sha256": hashlib.sha256(little).hexdigest()})
            only = tokens.reshape(-1, self.length)[:, :-1].ravel() if self.has_classes else tokens
            self.counts += np.bincount(only, minlength=len(self.counts))
        self.filled = 0
