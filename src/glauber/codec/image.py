"""The codec of images that a word names."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from glauber.codec.patches import PatchCodec
from glauber.codec.pixels import PixelCodec
from glauber.codec.protocol import ImageCodec
from glauber.codec.vq import VQCodec, VQFiles, require_tiling, vq_channels, vq_factor, vq_vocab

SQUARES = 2**16
"""The codes of patches are found on at most so many of them."""


@dataclass(frozen=True)
class ImageSpec:
    """`pixels:LEVELS` (grey; 256 if not said), `patches:CODES:SIDE` (2 pixels if not said), or `vq:` and a folder or hub id."""

    kind: str
    vocab: int
    side: int = 1
    vq: VQFiles | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, word: str) -> "ImageSpec | None":
        """None if the word is of another kind, such as a tokenizer of texts."""
        kind, *details = word.split(":")
        if kind == VQCodec.kind and any(details):
            files = VQFiles.read(word.partition(":")[2])
            return cls(kind, vq_vocab(files.network), vq_factor(files.network), files)
        if kind not in (PixelCodec.kind, PatchCodec.kind, VQCodec.kind):
            return None
        numbers = [int(detail) if detail.isdecimal() else 0 for detail in details]
        known = {PixelCodec.kind: (0, 1), PatchCodec.kind: (1, 2)}.get(kind, ())
        if len(numbers) not in known or 0 in numbers:
            raise ValueError(
                f"images become tokens by pixels:LEVELS or patches:CODES:SIDE (patches:512:4, say) or vq:CODEC, not by {word!r}"
            )
        if kind == PixelCodec.kind:
            return cls(kind, numbers[0] if numbers else 256)
        return cls(kind, numbers[0], numbers[1] if len(numbers) > 1 else 2)

    @property
    def grey(self) -> bool:
        """Whether it takes grey images only."""
        return self.kind == PixelCodec.kind or (self.vq is not None and vq_channels(self.vq.network) == 1)

    def length(self, shape: tuple[int, ...]) -> int:
        """L of an image of this shape."""
        if self.vq is not None:
            require_tiling(self.side, shape)
        if shape[0] % self.side or shape[1] % self.side:
            raise ValueError(
                f"patches of side {self.side} do not tile images of {shape[1]}×{shape[0]}; choose another side or size"
            )
        return shape[0] // self.side * (shape[1] // self.side)

    def make(self, shape: tuple[int, ...], sample: Callable[[], np.ndarray]) -> ImageCodec:
        """The codec; where it must be fitted, on the images that `sample` gives."""
        if self.vq is not None:
            return VQCodec(self.vq.network, self.vq.weights, shape)
        if self.kind == PixelCodec.kind:
            return PixelCodec((shape[0], shape[1]), self.vocab)
        return PatchCodec.fit(sample(), self.side, self.vocab, most=SQUARES)
