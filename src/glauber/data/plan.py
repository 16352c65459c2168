"""What `prepare` is asked for."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from glauber.codec import ImageCodec, ImageSpec, TextCodec, text_codec
from glauber.data.images import LARGEST, Frame
from glauber.data.shards import SPLITS
from glauber.data.sources import Piece, Position, Sources
from glauber.runtime.progress import progress_bar, watched

SECTION = 2**14
"""A document longer than so many characters (or tokens) may be split between training and validation."""
LONGEST = 2**20
"""L of a row is at most this, as that of a network."""
TRAINING_TEXT = 2**26
"""A BPE is trained on at most about so many characters, from the start of every file in equal shares."""
TRAINING_PIXELS = 2**25
"""The codes of patches are found on images of at most about so many bytes, evenly spaced."""


@dataclass(frozen=True)
class Plan:
    """Where things are read, how they become tokens, and which of them are for validation."""

    sources: Sources
    own_valid: int | None  # the first of the files that are for validation only
    share: float
    tokenizer: str
    length: int
    shard_rows: int
    images: ImageSpec | None
    classes: tuple[str, ...] = ()  # the sub-folders' names, where they tell what is in the images

    @property
    def width(self) -> int:
        """Numbers of a row: L tokens, and the class if there are classes."""
        return self.length + bool(self.classes)

    @classmethod
    def make(
        cls,
        sources: Sequence[str | Path],
        tokenizer: str | Path,
        length: int | None,
        valid: float | Sequence[str | Path],
        field: str,
        vocab: int | None,
        size: int | None,
        grey: bool,
        shard_tokens: int,
        classes: bool = False,
    ) -> "Plan":
        """From what the user says."""
        images = ImageSpec.read(str(tokenizer))
        frame = _frame(images, size, grey)
        train = [sources] if isinstance(sources, (str, Path)) else list(sources)
        files = Sources(train, field, vocab, frame)
        share, own_valid = (valid, None) if isinstance(valid, (int, float)) else (0.0, len(files.files))
        if own_valid is not None:
            extra = [valid] if isinstance(valid, (str, Path)) else list(valid)  # type: ignore[arg-type]
            files = Sources([*train, *extra], field, vocab, frame)
        if not 0 <= share < 1:
            raise ValueError(f"the share for validation must be at least 0 and below 1, not {share}")
        length = _length(length, files.row_length() if images is None else images.length(files.shape))
        if classes and images is None:
            raise ValueError("classes are sub-folders of images; name a tokenizer of images, such as patches:512 or pixels:16")
        names = files.sub_folders() if classes else ()
        return cls(files, own_valid, share, str(tokenizer), length, max(1, shard_tokens // length), images, names)

    def settings(self) -> dict[str, Any]:
        """What must be the same for unfinished work to go on."""
        path = Path(self.tokenizer)
        spec = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else self.tokenizer
        if self.images is not None and self.images.vq is not None:
            spec = self.images.vq.digest  # wherever it lies
        return {
            "sources": self.sources.fingerprint(),
            "field": self.sources.field,
            "vocab": self.sources.vocab,
            "tokenizer": None if self.sources.tokens else spec,
            "length": self.length,
            "valid": self.share if self.own_valid is None else [self.own_valid],
            "shard_rows": self.shard_rows,
            **({} if self.sources.frame is None else self.sources.frame._asdict()),
            **({"classes": list(self.classes)} if self.classes else {}),
        }

    def side(self, file: int, sizes: dict[str, int], starts: bool) -> str:
        """Which split a new document (`starts`), or a new section of one, belongs to, given how much each one has."""
        if self.own_valid is not None:
            return SPLITS[file >= self.own_valid]
        room = 0 if starts else SECTION  # a document is often shorter than a section
        return SPLITS[sizes["valid"] + room < self.share * (sum(sizes.values()) + room)]

    def codec(self, progress: bool) -> ImageCodec | TextCodec | None:
        """Made from the data where it must be; None for tokens."""
        if self.sources.tokens:
            return None
        if self.images is not None:
            return self.images.make(self.sources.shape, lambda: self._sample(progress))
        if self.tokenizer == "char":
            pieces = read_pieces(self.sources, None, "alphabet", progress)
            return text_codec(self.tokenizer, (str(piece.data) for piece in pieces))
        most = TRAINING_TEXT if self.tokenizer.startswith("bpe:") else 2**20
        return text_codec(self.tokenizer, self.sources.texts(most, self.own_valid))

    def _sample(self, progress: bool) -> np.ndarray:
        """Images to find codes on."""
        pictures = self.sources.pictures(TRAINING_PIXELS, self.own_valid)
        return np.stack(list(watched(pictures, progress, None, "codes", "image")))


def _frame(images: ImageSpec | None, size: int | None, grey: bool) -> Frame | None:
    if images is None:
        if size is not None or grey:
            raise ValueError("a size and grey are for images; name a tokenizer of images, such as patches:512 or pixels:16")
        return None
    if size is not None and not 1 <= size <= isqrt(LARGEST):
        raise ValueError(f"the size of an image must be at least 1 and at most {isqrt(LARGEST):,} pixels a side, not {size:,}")
    return Frame(size, grey or images.grey)


def _length(asked: int | None, rows: int | None) -> int:
    length = asked if asked is not None else rows if rows is not None else 256
    if length < 1:
        raise ValueError(f"the length of a row must be at least 1, not {length}")
    if length > LONGEST:
        raise ValueError(f"a row of {length:,} tokens is too long; choose an L of at most {LONGEST:,}")
    if rows is not None and length != rows:
        raise ValueError(f"the data comes in rows of {rows} tokens, not {length}; leave the length out")
    return length


def read_pieces(sources: Sources, position: Position | None, label: str, progress: bool) -> Iterator[Piece]:
    """The pieces, with a bar of the bytes read."""
    before = np.cumsum([0, *(source.size for source in sources.files)]).tolist()
    with progress_bar(progress, sources.size or None, label, "B", unit_scale=True) as bar:
        done = 0
        for piece in sources.pieces(position):
            now = before[piece.after.file] + piece.read
            if now != done:
                bar.update(now - done)
                done = now
            yield piece
