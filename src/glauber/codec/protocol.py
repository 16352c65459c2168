"""Real things ⇄ tokens."""

from typing import Any, ClassVar, Protocol

import numpy as np
from torch import Tensor


class ImageCodec(Protocol):
    """Images uint8 (N, H, W) or (N, H, W, 3) ⇄ tokens int64 (N, L)."""

    kind: ClassVar[str]
    vocab: int
    grid: tuple[int, int]  # rows and columns of tokens, L = rows × columns
    shape: tuple[int, ...]  # (H, W) or (H, W, 3)

    def encode(self, images: np.ndarray) -> Tensor: ...

    def decode(self, tokens: Tensor) -> np.ndarray: ...

    def to_dict(self) -> dict[str, Any]: ...

    def tensors(self) -> dict[str, Tensor]: ...


def check_images(images: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Refuse anything but uint8 (N, *shape)."""
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        raise ValueError(
            f"expected uint8 images of shape (number, {', '.join(map(str, shape))}), got {images.dtype} {images.shape}"
        )
    return images
