"""The embedded data: scikit-learn's 1797 handwritten digits, 8×8."""

from typing import NamedTuple

import numpy as np


class Digits(NamedTuple):
    """uint8 images (N, 8, 8) with the digit each one shows, split once and for all."""

    train: np.ndarray
    train_labels: np.ndarray
    held_out: np.ndarray
    held_out_labels: np.ndarray


def load_digits(held_out: int = 297) -> Digits:
    """All digits in a fixed random order, the last `held_out` of them kept apart."""
    try:
        from sklearn.datasets import load_digits as from_sklearn
    except ImportError as error:
        raise ImportError("the embedded digits come with scikit-learn: pip install 'glauber[demo]'") from error
    digits = from_sklearn()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images = (digits.images[order] * (255 / 16)).round().astype(np.uint8)
    labels = digits.target[order]
    return Digits(images[:-held_out], labels[:-held_out], images[-held_out:], labels[-held_out:])
