"""The codec of images that a word names."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glauber.codec.patches import PatchCodec
from glauber.codec.pixels import PixelCodec
from glauber.codec.protocol import ImageCodec

SQUARES = 2**16
"""The codes of patches are found on at most so many of them."""


@dataclass(frozen=True)
class ImageSpec:
    """`pixels:LEVELS` (grey; 256 if not said) or `patches:CODES:SIDE` (2 pixels if not said)."""

    kind: str
    vocab: int
    side: int = 1

    @classmethod
    def read(cls, word: str) -> "ImageSpec | None":
        """None if the word is of another kind, such as a tokenizer of texts."""
        kind, *details = word.split(":")
        if kind not in (PixelCodec.kind, PatchCodec.kind):
            return None
        numbers = [int(detail) if detail.isdecimal() else 0 for detail in details]
        known = (0, 1) if kind == PixelCodec.kind else (1, 2)
        if len(numbers) not in known or 0 in numbers:
            raise ValueError(
                f"images become tokens by pixels:LEVELS or patches:CODES:SIDE, such as patches:512:4, not by {word!r}"
            )
        if kind == PixelCodec.kind:
            return cls(kind, *(numbers or [256]))
        return cls(kind, numbers[0], numbers[1] if len(numbers) > 1 else 2)

    @property
    def grey(self) -> bool:
        """Whether it takes grey images only."""
        return self.kind == PixelCodec.kind

    def length(self, shape: tuple[int, ...]) -> int:
        """L of an image of this shape."""
        if shape[0] % self.side or shape[1] % self.side:
            raise ValueError(
                f"patches of side {self.side} do not tile images of {shape[1]}×{shape[0]}; choose another side or size"
            )
        return shape[0] // self.side * (shape[1] // self.side)

    def make(self, shape: tuple[int, ...], sample: Callable[[], np.ndarray]) -> ImageCodec:
        """The codec; where it must be fitted, on the images that `sample` gives."""
        if self.kind == PixelCodec.kind:
            return PixelCodec((shape[0], shape[1]), self.vocab)
        return PatchCodec.fit(sample(), self.side, self.vocab, most=SQUARES)
