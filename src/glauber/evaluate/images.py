"""Samples of images beside real ones: FID, KID, precision and recall, and what in the training set is nearest."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from glauber.evaluate.features import CHUNK, FeatureNetwork, Features, Images, Store, in_colour
from glauber.evaluate.fid import Statistics, frechet, kid
from glauber.evaluate.neighbours import K, nearest, precision_recall

SHOWN, BESIDE = 8, 5
"""How many samples are shown, from the one nearest to a training image to the farthest, and how many neighbours of each."""


def statistics(images: Images, network: FeatureNetwork, partial: Path | None = None, progress: bool = False) -> Statistics:
    """What FID against these images needs; `partial` as in `evaluate_images`."""
    _require_two(images)
    found = network.features(images, Store(partial), progress)
    return Statistics.of(found.values, found.hash, network.identity, images.shape[:2])


def evaluate_images(
    samples: Images,
    reference: Images | Statistics,
    network: FeatureNetwork,
    train: Images | None = None,
    partial: Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Every figure of the samples, each with the numbers of images that it is of.

    Args:
        reference: real images; with their statistics alone only FID is known.
        train: where to look for the nearest neighbours, if not in the reference.
        partial: a file that keeps features, from which an interrupted evaluation goes on.
    """
    for images in (samples, reference, train):
        if isinstance(images, Images):
            _require_two(images)
            if images.shape[:2] != samples.shape[:2]:
                raise ValueError(_sizes(samples, images.source, images.shape))
    store = Store(partial)
    if isinstance(reference, Statistics):
        if reference.features != network.identity:
            raise ValueError(f"the reference statistics were made with other weights than {network.name}; make them again")
        if reference.shape != samples.shape[:2]:
            raise ValueError(_sizes(samples, "the reference", reference.shape))
        real, theirs = None, reference
    else:
        real = network.features(reference, store, progress)
        theirs = Statistics.of(real.values, real.hash, network.identity)
    ours = network.features(samples, store, progress)
    report: dict[str, Any] = {
        "samples": _about(samples.source, samples.number, ours.hash),
        "reference": _about(reference.source if isinstance(reference, Images) else None, theirs.number, theirs.hash),
        "features": {"name": network.name, "sha256": network.identity, "width": len(theirs.mean)},
        "fid": frechet(Statistics.of(ours.values), theirs),
    }
    if real is not None:
        _compare(report, ours, real, network.device)
    known = None if train is None else network.features(train, store, progress)
    there, where = (known, train) if train is not None else (real, reference)
    if there is not None and isinstance(where, Images):
        report["nearest"] = _nearest(ours, there, network.device) | {"source": where.source, "number": where.number}
        if known is not None and real is not None:
            apart = nearest(_rows(real.values, network.device), _rows(known.values, network.device), 1).distances
            report["nearest"]["median_of_reference"] = float(np.median(apart))
    return report


def _compare(report: dict[str, Any], ours: Features, real: Features, device: torch.device) -> None:
    """KID, and precision and recall of as many images of either kind, on which these depend."""
    x, y = (_rows(found.values, device) for found in (ours, real))
    report["kid"] = kid(x, y)._asdict()
    number = min(len(x), len(y))
    if number > K:
        x, y = (rows[torch.linspace(0, len(rows) - 1, number).round().long().to(device)] for rows in (x, y))
        precision, recall = precision_recall(x, y)
        report |= {"precision": precision, "recall": recall, "precision_recall_number": number}


def _nearest(ours: Features, known: Features, device: torch.device) -> dict[str, Any]:
    found = nearest(_rows(ours.values, device), _rows(known.values, device), BESIDE)
    closest = found.distances[:, 0]
    ranks = np.linspace(0, len(closest) - 1, min(SHOWN, len(closest))).round().astype(int)
    shown = np.argsort(closest, kind="stable")[ranks]
    return {
        "median": float(np.median(closest)),
        "shown": shown.tolist(),
        "neighbours": found.numbers[shown].tolist(),
        "distances": found.distances[shown].tolist(),
    }


def _rows(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values).to(device)


def _about(source: str | None, number: int, hash: str) -> dict[str, Any]:
    return {"source": source, "number": number, "hash": hash}


def _require_two(images: Images) -> None:
    if images.number < 2:
        raise ValueError(f"{images.source} holds only one image; figures need at least two, and mean something from thousands")


def _sizes(samples: Images, other: str, shape: tuple[int, ...]) -> str:
    ours, theirs = (f"{sides[1]}×{sides[0]}" for sides in (samples.shape, shape))
    return f"{samples.source} has images of {ours} pixels, {other} of {theirs}; bring them to one size first"


@torch.no_grad()
def lpips(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How different each image of a looks from that of b, (N,): LPIPS with the weights of stlpips-pytorch."""
    from glauber.codec.perceptual import Perceptual

    if a.shape != b.shape:
        raise ValueError(f"LPIPS compares images one by one, so both arrays need the same shape, not {a.shape} and {b.shape}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    distance = Perceptual.installed().to(device)
    found = []
    for at in range(0, len(a), CHUNK):
        x, y = (
            torch.from_numpy(np.array(in_colour(images[at : at + CHUNK]))).to(device).permute(0, 3, 1, 2) for images in (a, b)
        )
        found.append(distance(x / 127.5 - 1, y / 127.5 - 1).cpu().numpy())
    return np.concatenate(found)
