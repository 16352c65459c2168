"""MAUVE: how near the law of some texts is to that of others, between 0 and 1, from features of both.

The features are put into buckets by k-means. With p and q the shares of the two sets in the buckets and r = w p + (1-w) q, the
curve (exp(-c KL(q‖r)), exp(-c KL(p‖r))) over 0 < w < 1 tells of both kinds of error; the area under it is the score.
Settings are those of the published figures and of the package mauve-text: features of length 1, the principal components of
90 % of their variance, a bucket per ten texts, c = 5, 25 weights, and of five runs of k-means from random features the best. A
seed starts from the same features as there, and gives the same figure unless rounding decides which of two buckets is nearer,
as it does where texts are repeated word for word.
"""

from typing import NamedTuple

import numpy as np

SCALE, WEIGHTS, VARIANCE, TRIALS, STEPS = 5.0, 25, 0.9, 5, 500
SEED, NEXT = 3, 15486557
"""What mauve-text and faiss add to a seed, and to that of each further trial."""
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
    """Of features (N, D) and (M, D). The score depends on the numbers: compare scores of the same ones."""
    number = min(len(p), len(q))
    if number < FEWEST:
        raise ValueError(f"MAUVE needs at least {FEWEST} texts of each kind, not {number}")
    buckets = max(2, round(number / 10))
    both = np.concatenate([q, p]).astype(np.float64)
    both /= np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-300)
    kinds, kind = np.unique(both, axis=0, return_inverse=True)
    many, values = len(kinds) > buckets, []
    both = principal(both) if many else both
    for seed in range(seeds):
        labels = nearest_buckets(both, buckets, seed) if many else kind.reshape(-1)
        shares = [np.bincount(part, minlength=buckets) / len(part) for part in (labels[len(q) :], labels[: len(q)])]
        values.append(frontier_area(*shares))
    return Mauve(float(np.mean(values)), float(np.std(values)), values, buckets, number)


def principal(features: np.ndarray) -> np.ndarray:
    """As the principal components of most of their variance."""
    try:
        from sklearn.decomposition import PCA
    except ImportError as error:
        raise ImportError("MAUVE needs scikit-learn: pip install 'glauber[eval]'") from error
    made: np.ndarray = PCA(VARIANCE, svd_solver="full").fit_transform(features)
    return made


def nearest_buckets(features: np.ndarray, buckets: int, seed: int) -> np.ndarray:
    """(N,) the bucket of each, by the best of some runs of k-means until nothing moves."""
    from sklearn.cluster import KMeans

    runs = []
    for trial in range(TRIALS):
        start = features[first_centres(len(features), buckets, seed + SEED + trial * NEXT)]
        runs.append(KMeans(buckets, init=start, n_init=1, max_iter=STEPS, tol=0).fit(features))
    found: np.ndarray = min(runs, key=lambda run: run.inertia_).labels_
    return found


def first_centres(number: int, buckets: int, seed: int) -> np.ndarray:
    """The first of a random order, as faiss draws it: place k changes with k + (word k of a Mersenne twister mod the rest)."""
    order, words = np.arange(number), np.random.RandomState(seed).randint(2**32, size=buckets, dtype=np.uint32)
    for place, word in enumerate(words.tolist()):
        other = place + word % (number - place)
        order[[place, other]] = order[[other, place]]
    return order[:buckets]


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
