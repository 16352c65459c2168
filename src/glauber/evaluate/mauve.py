"""MAUVE: how near the law of some texts is to that of others, between 0 and 1, from features of both.

The features are put into buckets by k-means. With p and q the shares of the two sets in the buckets and r = w p + (1-w) q, the
curve (exp(-c KL(q‖r)), exp(-c KL(p‖r))) over 0 < w < 1 tells of both kinds of error; the area under it is the score.
Settings are those of the published figures: features of length 1, the principal components of 90 % of their variance, a bucket
per ten texts, c = 5, 25 weights.
"""

from typing import NamedTuple

import numpy as np

SCALE, WEIGHTS, VARIANCE, TRIALS = 5.0, 25, 0.9, 5
FEWEST = 20
"""Texts of each kind that make two buckets; hundreds are needed for a figure to mean something."""


class Mauve(NamedTuple):
    """Over several seeds of the k-means."""

    mean: float
    std: float
    values: list[float]
    buckets: int
    number: int  # texts of each kind


def mauve(p: np.ndarray, q: np.ndarray, seeds: int = 5) -> Mauve:
    """Of features (N, D) and (M, D); the larger set is cut to the size of the smaller, on which the score depends."""
    try:
        from sklearn.cluster import KMeans
        from sklearn.decomposition import PCA
    except ImportError as error:
        raise ImportError("MAUVE needs scikit-learn: pip install 'glauber[eval]'") from error
    number = min(len(p), len(q))
    if number < FEWEST:
        raise ValueError(f"MAUVE needs at least {FEWEST} texts of each kind, not {number}")
    buckets = max(2, round(number / 10))
    both = np.concatenate([p[:number], q[:number]]).astype(np.float64)
    both /= np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-300)
    if len(np.unique(both, axis=0)) > buckets:
        both = PCA(VARIANCE, svd_solver="full").fit_transform(both)
    values = []
    for seed in range(seeds):
        labels = KMeans(buckets, n_init=TRIALS, max_iter=500, random_state=seed).fit(both).labels_
        shares = [np.bincount(part, minlength=buckets) / number for part in (labels[:number], labels[number:])]
        values.append(frontier_area(*shares))
    return Mauve(float(np.mean(values)), float(np.std(values)), values, buckets, number)


def frontier_area(p: np.ndarray, q: np.ndarray) -> float:
    """The area under the curve of two histograms; 1 if they are the same."""
    w = np.linspace(1e-6, 1 - 1e-6, WEIGHTS)[:, None]
    r = w * p + (1 - w) * q
    x, y = (np.exp(-SCALE * divergences(law, r)) for law in (q, p))
    x, y = np.array([0.0, *x[::-1], 1.0]), np.array([1.0, *y[::-1], 0.0])
    return float(((x[1:] - x[:-1]) * (y[1:] + y[:-1])).sum() / 2)


def divergences(law: np.ndarray, others: np.ndarray) -> np.ndarray:
    """KL(law ‖ r) for each row r of the others, which is positive where the law is."""
    there = law > 0
    found: np.ndarray = (law[there] * np.log(law[there] / others[:, there])).sum(-1)
    return found
