"""Real things ⇄ tokens."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

Ids = Tensor | np.ndarray | Sequence[Any]


class ImageCodec(Protocol):
    """Images uint8 (N, H, W) or (N, H, W, 3) ⇄ tokens int64 (N, L)."""

    kind: ClassVar[str]
    vocab: int
    grid: tuple[int, int]  # rows and columns of tokens, L = rows × columns
    shape: tuple[int, ...]  # (H, W) or (H, W, 3)

    def encode(self, images: np.ndarray) -> Tensor: ...

    def decode(self, tokens: Ids) -> np.ndarray: ...

    def to_dict(self) -> dict[str, Any]: ...

    def tensors(self) -> dict[str, Tensor]: ...


def check_images(images: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A contiguous copy of uint8 images (N, *shape); anything else is refused."""
    images = np.asarray(images)
    if len(shape) not in (2, 3) or images.dtype != np.uint8 or images.shape[1:] != shape:
        wanted = ", ".join(map(str, shape)) if len(shape) in (2, 3) else "height, width"
        raise ValueError(f"expected uint8 images of shape (number, {wanted}), got {images.dtype} {images.shape}")
    return np.array(images, order="C")


def check_tokens(tokens: Ids, vocab: int, length: int) -> Tensor:
    """Tokens (N, length) of 0..vocab-1, int64 on the CPU; anything else is refused."""
    if not isinstance(tokens, Tensor):
        try:
            array = np.asarray(tokens)
        except ValueError as error:
            raise ValueError("tokens may be a tensor, an array, or lists, all of them equally long") from error
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(f"tokens must be whole numbers, not {array.dtype}")
        tokens = torch.from_numpy(array.astype(np.int64))
    if tokens.is_floating_point():
        raise ValueError(f"tokens must be whole numbers, not {tokens.dtype}")
    if tokens.dim() != 2 or tokens.shape[1] != length:
        raise ValueError(f"expected tokens of shape (number, {length}), got {tuple(tokens.shape)}")
    if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) >= vocab):
        raise ValueError(f"tokens must lie in 0..{vocab - 1}; these span {int(tokens.min())}..{int(tokens.max())}")
    return tokens.long().cpu()
