"""Distances between two sets of features: Fréchet's (FID) and the kernel's (KID).

FID is the squared Fréchet distance of two normal laws that have the sets' means and covariances:

    ‖μ₁ - μ₂‖² + tr Σ₁ + tr Σ₂ - 2 tr √(√Σ₁ Σ₂ √Σ₁)

With any factors Σ = R Rᵀ the last trace is the sum of the singular values of R₁ᵀ R₂. These are found without squaring, so
the zeros of a set smaller than the number of its features cost no accuracy.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glauber.runtime.files import require_file

FORMAT = "glauber image statistics 1"
SUBSETS, SUBSET = 100, 1000


class Moments:
    """Number, mean and covariance of what was added, in float64."""

    def __init__(self, width: int):
        self.number = 0
        self.mean = np.zeros(width)
        self.scatter = np.zeros((width, width))

    def add(self, values: np.ndarray) -> None:
        """(n, width), merged with what is there."""
        values = values.astype(np.float64)
        own, total = values.mean(0), self.number + len(values)
        step, away = own - self.mean, values - own
        self.scatter += away.T @ away + np.outer(step, step) * (self.number * len(values) / total)
        self.mean += step * (len(values) / total)
        self.number = total

    @property
    def covariance(self) -> np.ndarray:
        """Divided by number - 1."""
        return self.scatter / (self.number - 1)


@dataclass
class Statistics:
    """What FID needs of a set: the mean (D,), and a factor (D, r) of the covariance."""

    mean: np.ndarray
    factor: np.ndarray
    number: int
    hash: str  # of the images
    features: str  # identity of the network
    shape: tuple[int, ...]  # (height, width)

    @classmethod
    def of(cls, values: np.ndarray, hash: str = "", features: str = "", shape: tuple[int, ...] = ()) -> "Statistics":
        """Of features (N, D), at least two rows."""
        number, width = values.shape
        if number <= width:  # few rows, less their mean, are a factor themselves
            mean = values.mean(0, dtype=np.float64)
            return cls(mean, (values - mean).T / np.sqrt(number - 1), number, hash, features, shape)
        moments = Moments(width)
        for at in range(0, number, 1024):
            moments.add(values[at : at + 1024])
        return cls(moments.mean, factor(moments.covariance), number, hash, features, shape)


def factor(covariance: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = covariance, a column for each eigenvalue that is more than rounding."""
    values, vectors = torch.linalg.eigh(torch.from_numpy(covariance))
    there = values > values[-1].clamp_min(0) * len(values) * torch.finfo(torch.float64).eps
    made: np.ndarray = (vectors[:, there] * values[there].sqrt()).numpy()
    return made


def frechet(a: Statistics, b: Statistics) -> float:
    """FID."""
    common = torch.linalg.svdvals(torch.from_numpy(a.factor.T @ b.factor)).sum().item() if 0 not in a.factor.shape else 0.0
    traces = (a.factor**2).sum() + (b.factor**2).sum()
    return max(0.0, float(((a.mean - b.mean) ** 2).sum() + traces - 2 * common))


def packed(statistics: Statistics) -> bytes:
    """A small file: the triangular factor of the covariance in half precision, 4 MB for 2048 features.

    Rounding it moves √FID by at most the length of what was rounded off, since √FID is a distance; the covariance itself,
    rounded as coarsely, need not be one any more.
    """
    from safetensors.numpy import save

    width = len(statistics.mean)
    # R = (Q U)ᵀ has Uᵀ U = R Rᵀ for the triangular U; a set of few images has fewer rows
    upper = np.linalg.qr(statistics.factor.T, mode="r")
    triangle = np.zeros((width, width))
    triangle[: len(upper)] = upper
    scale = np.abs(triangle).max() or 1.0
    tensors = {
        "mean": statistics.mean,
        "factor": (triangle / scale)[np.triu_indices(width)].astype(np.float16),
        "scale": np.array([scale]),
    }
    said = {"number": str(statistics.number), "hash": statistics.hash, "features": statistics.features}
    return bytes(save(tensors, said | {"format": FORMAT, "shape": "x".join(map(str, statistics.shape))}))


def unpacked(path: Path) -> Statistics:
    """The inverse of `packed`, from a file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(require_file(path), "np") as file:
            said = file.metadata() or {}
            if said.get("format") != FORMAT:
                raise ValueError("other tensors")
            mean, values, scale = (file.get_tensor(name) for name in ("mean", "factor", "scale"))
        if not all(np.isfinite(numbers).all() for numbers in (mean, values, scale)) or scale[0] > np.finfo(np.float32).max:
            raise ValueError("numbers that are not finite")
        if values.shape != (len(mean) * (len(mean) + 1) // 2,):
            raise ValueError("a factor of another size")
        triangle = np.zeros((len(mean), len(mean)))
        triangle[np.triu_indices(len(mean))] = values.astype(np.float64) * scale[0]
        shape = tuple(map(int, said["shape"].split("x")))
        return Statistics(mean, triangle.T.copy(), int(said["number"]), said["hash"], said["features"], shape)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} holds no statistics of images; make them by glauber evaluate IMAGES --out {path}") from error


class Kid(NamedTuple):
    """Over subsets of both sets."""

    mean: float
    std: float
    subsets: int
    size: int


def kid(x: Tensor, y: Tensor, seed: int = 0) -> Kid:
    """Maximum mean discrepancy², unbiased, with the kernel (x·y / D + 1)³: mean and deviation over random subsets."""
    size = min(SUBSET, len(x), len(y))
    generator = torch.Generator().manual_seed(seed)
    values = []
    for _ in range(SUBSETS):
        some = [rows[torch.randperm(len(rows), generator=generator)[:size].to(rows.device)].double() for rows in (x, y)]
        values.append(discrepancy(*some))
    return Kid(float(np.mean(values)), float(np.std(values)), SUBSETS, size)


def discrepancy(x: Tensor, y: Tensor) -> float:
    """Of n rows each: Σ_{i≠j} (k(x_i, x_j) + k(y_i, y_j)) / n(n-1) - 2 Σ k(x_i, y_j) / n²."""
    n, width = x.shape

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.T / width + 1) ** 3

    inside = sum(float(table.sum() - table.diagonal().sum()) for table in (kernel(x, x), kernel(y, y)))
    return inside / (n * (n - 1)) - 2 * float(kernel(x, y).mean())
