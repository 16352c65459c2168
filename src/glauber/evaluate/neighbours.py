"""Neighbours in feature space: precision and recall of a set of samples, and the images that are nearest to them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

K = 3
BLOCK = 512
"""Rows whose distances to all others are held at once."""


class Nearest(NamedTuple):
    """For each row: numbers (N, k) of the nearest others, and distances to them, nearest first."""

    numbers: np.ndarray
    distances: np.ndarray


def nearest(x: Tensor, known: Tensor, k: int) -> Nearest:
    """The k rows of `known` nearest to each row of x."""
    found = [table.topk(min(k, len(known)), largest=False) for table in _distances(x, known)]
    numbers, distances = torch.cat([top.indices for top in found]), torch.cat([top.values for top in found])
    return Nearest(numbers.cpu().numpy(), distances.cpu().numpy())


def precision_recall(samples: Tensor, real: Tensor) -> tuple[float, float]:
    """The share of samples within reach of a real image, and of real images within reach of a sample.

    An image reaches as far as the third nearest of its own kind.
    """
    return _covered(samples, real), _covered(real, samples)


def _covered(x: Tensor, centres: Tensor) -> float:
    """The share of x that lies in the ball of one of the centres."""
    # the nearest of all is the centre itself
    reach = torch.cat([table.topk(K + 1, largest=False).values[:, -1] for table in _distances(centres, centres)])
    inside = [(table <= reach).any(1) for table in _distances(x, centres)]
    return torch.cat(inside).double().mean().item()


def _distances(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """(block, M) of √(‖x‖² + ‖y‖² - 2 x·y), block by block; about the mean of y, where these sums lose least."""
    centre = y.mean(0)
    y = y - centre
    lengths = (y**2).sum(1)
    for at in range(0, len(x), BLOCK):
        rows = x[at : at + BLOCK] - centre
        yield ((rows**2).sum(1, keepdim=True) + lengths - 2 * rows @ y.T).clamp_min_(0).sqrt_()
