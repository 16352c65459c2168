"""One token per small square of the image: the nearest of a few typical squares."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glauber.codec.protocol import Ids, check_images, check_tokens

DISTANCES = 2**23
"""Distances of squares to centres that are worked out at once."""


class PatchCodec:
    """Cut the image into patch × patch squares, each replaced by the nearest of V centres found by k-means.

    Args:
        centres: (V, patch · patch · channels) float32, greys in 0..255.
        patch: side of a square.
        shape: (H, W) or (H, W, 3), both sides a multiple of the patch.
    """

    kind: ClassVar[str] = "patches"

    def __init__(self, centres: Tensor, patch: int, shape: tuple[int, ...]):
        if len(shape) not in (2, 3) or patch < 1 or any(side % patch for side in shape[:2]):
            raise ValueError(f"patches of side {patch} do not tile an image of {'×'.join(map(str, shape))}")
        if centres.dim() != 2 or centres.shape[1] != _area(patch, shape):
            raise ValueError(f"the centres have shape {tuple(centres.shape)}, which does not fit patches of side {patch}")
        self.centres, self.patch, self.shape = centres.float().contiguous(), patch, tuple(shape)
        self.grid = (shape[0] // patch, shape[1] // patch)
        self.vocab = len(centres)

    @classmethod
    def fit(cls, images: np.ndarray, patch: int, vocab: int, seed: int = 0, most: int | None = None) -> "PatchCodec":
        """Find the centres on uint8 images (N, H, W) or (N, H, W, 3), or on `most` of their squares drawn at random."""
        try:
            from sklearn.cluster import KMeans
            from threadpoolctl import threadpool_limits
        except ImportError as error:
            raise ImportError("fitting a patch codec needs scikit-learn: pip install 'glauber[demo]'") from error
        images = check_images(images, images.shape[1:])
        squares = cls(torch.zeros(1, _area(patch, images.shape[1:])), patch, images.shape[1:])._cut(images)
        if most is not None and len(squares) > most:
            squares = squares[np.sort(np.random.default_rng(seed).choice(len(squares), most, replace=False))]
        squares = squares.float()
        distinct = len(np.unique(squares.numpy(), axis=0))
        if distinct < vocab:
            raise ValueError(f"these images have only {distinct} different patches; ask for at most that many codes")
        with threadpool_limits(1):  # threads add up in any order, and the same images must give the same centres
            means = KMeans(vocab, n_init=1, random_state=seed).fit(squares.numpy())
        return cls(torch.from_numpy(means.cluster_centers_).float(), patch, images.shape[1:])

    def encode(self, images: np.ndarray) -> Tensor:
        parts = torch.split(self._cut(check_images(images, self.shape)), max(1, DISTANCES // self.vocab))
        tokens = torch.cat([torch.cdist(part.float(), self.centres).argmin(-1) for part in parts])
        return tokens.view(len(images), self.grid[0] * self.grid[1])

    def decode(self, tokens: Ids) -> np.ndarray:
        (rows, columns), p = self.grid, self.patch
        tokens = check_tokens(tokens, self.vocab, rows * columns)
        squares = self.centres[tokens].clamp(0, 255).round().to(torch.uint8)
        squares = squares.view(len(tokens), rows, columns, p, p, *self.shape[2:])
        return squares.transpose(2, 3).reshape(len(tokens), *self.shape).numpy()

    def _cut(self, images: np.ndarray) -> Tensor:
        """(N, H, W, ...) → (N · rows · columns, patch · patch · channels), row by row."""
        (rows, columns), p = self.grid, self.patch
        squares = torch.from_numpy(images).view(len(images), rows, p, columns, p, *self.shape[2:])
        return squares.transpose(2, 3).reshape(len(images) * rows * columns, _area(p, self.shape))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "shape": list(self.shape), "patch": self.patch}

    def tensors(self) -> dict[str, Tensor]:
        return {"centres": self.centres}


def _area(patch: int, shape: tuple[int, ...]) -> int:
    return patch * patch * (shape[2] if len(shape) == 3 else 1)
