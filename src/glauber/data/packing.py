"""Tokens → rows → shards."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glauber.data.shards import COUNTS, FORMAT, HEADER, content_hash, row_dtype, sha256
from glauber.runtime.files import replacing, write


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


def close(
    folder: Path,
    packers: Mapping[str, Packer],
    length: int,
    vocab: int,
    classes: Sequence[str],
    sources: list[dict[str, Any]],
    totals: Mapping[str, int],
    codec: dict[str, Any] | None,
) -> None:
    """The last shards, the counts of the training tokens and the header: the folder is then whole.

    Args:
        packers: by split.
        sources: of each file that was read its name and size.
        codec: what the header says of it.
    """
    for packer in packers.values():
        packer.write()
    with replacing(folder / COUNTS) as file:
        np.save(file, packers["train"].counts)
    header: dict[str, Any] = {
        "format": FORMAT,
        "vocab": vocab,
        "length": length,
        "dtype": row_dtype(max(vocab, len(classes))),
        **({"classes": list(classes)} if classes else {}),
        "splits": {split: packer.shards for split, packer in packers.items()},
        "counts": {"file": COUNTS, "sha256": sha256(folder / COUNTS)},
        "sources": sources,
        "totals": dict(totals),
        "codec": codec,
    }
    content = {"hash": content_hash(header), **header}
    write(folder / HEADER, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
