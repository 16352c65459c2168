"""One token per pixel."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glauber.codec.protocol import Ids, check_images, check_tokens


class PixelCodec:
    """Grey levels as tokens: level k of n stands for the grey k · 255 / (n - 1)."""

    kind: ClassVar[str] = "pixels"

    def __init__(self, shape: tuple[int, int], levels: int = 256):
        if not 2 <= levels <= 256:
            raise ValueError(f"a pixel has between 2 and 256 levels, not {levels}")
        if len(shape) != 2:
            raise ValueError("the pixel codec takes grey images, whose shape is (height, width)")
        self.shape: tuple[int, ...] = tuple(shape)
        self.grid = (shape[0], shape[1])
        self.vocab = levels

    def encode(self, images: np.ndarray) -> Tensor:
        grey = torch.from_numpy(check_images(images, self.shape).astype(np.float64))
        return (grey * ((self.vocab - 1) / 255)).round().long().view(len(grey), self.grid[0] * self.grid[1])

    def decode(self, tokens: Ids) -> np.ndarray:
        tokens = check_tokens(tokens, self.vocab, self.grid[0] * self.grid[1])
        grey = (tokens.double() * (255 / (self.vocab - 1))).round().numpy().astype(np.uint8)
        return grey.reshape(-1, *self.shape)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "shape": list(self.shape), "levels": self.vocab}

    def tensors(self) -> dict[str, Tensor]:
        return {}
