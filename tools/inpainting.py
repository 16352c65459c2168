"""Inpainting judged on held-out Fashion-MNIST: how near the fills are to what was there, by mask rule and clamp rule.

    python tools/inpainting.py MODEL DATA classifier.safetensors --out docs/results/inpainting.json

DATA and classifier.safetensors as for tools/fashion.py. LPIPS needs `pip install --no-deps stlpips-pytorch`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fashion import Classifier, agreement, read_classifier, read_part
from tqdm import tqdm

from glauber import load
from glauber.codec import ImageCodec
from glauber.codec.perceptual import Perceptual
from glauber.codec.vq import to_signal
from glauber.data.writing import write
from glauber.inpaint import closed, covered, given_tokens
from glauber.model import Model

HOLES = ("centre", "top", "blobs")
WAYS = (("cover", "exact"), ("again", "exact"), ("paper", "exact"), ("cover", "paper"), ("paper", "paper"))
"""Mask rule and clamp rule."""


def hole(kind: str, number: int, side: int = 28) -> np.ndarray:
    """The middle, the upper half, or three discs that differ from image to image; bool (side, side)."""
    y, x = np.mgrid[:side, :side] / side
    if kind == "centre":
        return (abs(y - 0.5 + 0.5 / side) < 0.21) & (abs(x - 0.5 + 0.5 / side) < 0.21)
    if kind == "top":
        return y < 0.5
    discs = np.random.default_rng(number).uniform((0.15, 0.15, 0.09), (0.85, 0.85, 0.18), (3, 3))
    return np.any([(y - a) ** 2 + (x - b) ** 2 < r**2 for a, b, r in discs], axis=0)


def fill(model: Model, codec: ImageCodec, images: np.ndarray, holes: np.ndarray, rule: str, clamp: str) -> dict[str, Any]:
    """All images at once, each with its own hole: the fills, and the share of tokens that were given."""
    pairs = [given_tokens(codec, image, hole, rule) for image, hole in zip(images, holes, strict=True)]
    given, tokens = (torch.stack(part) for part in zip(*pairs, strict=True))
    generator, filled = torch.Generator().manual_seed(0), images
    for turn in range(2 if rule == "again" else 1):
        tokens = tokens if turn == 0 else codec.encode(filled)
        drawn = codec.decode(model.run(len(images), generator, clamp=(given, tokens), clamp_rule=clamp))
        filled = np.where(holes, drawn, images)
    return {"fills": filled, "given": given.double().mean().item()}


def seam(images: np.ndarray, holes: np.ndarray) -> float:
    """Mean step of grey between a pixel inside and its neighbour outside."""
    steps = [np.abs(np.diff(images.astype(float), axis=a))[np.diff(holes.astype(int), axis=a) != 0] for a in (1, 2)]
    return float(np.concatenate(steps).mean())


def judge(
    truth: np.ndarray, filled: np.ndarray, holes: np.ndarray, classifier: Classifier, lpips: Perceptual
) -> dict[str, float]:
    """Of images in which only the holes may differ."""
    error = ((filled.astype(float) - truth) ** 2)[holes].mean() ** 0.5
    with torch.no_grad():
        parts = zip(*(to_signal(torch.from_numpy(np.array(images))).split(100) for images in (truth, filled)), strict=True)
        distance = torch.cat([lpips(a, b) for a, b in parts]).mean().item()
    return {
        "lpips": distance,
        "agreement": agreement(classifier, filled, truth),
        "rms error in the hole": float(error),
        "seam": seam(filled, holes),
    }


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("classifier", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=500)
    options = parser.parse_args()
    model = load(options.model, "cuda" if torch.cuda.is_available() else "cpu")
    codec: Any = model.codec
    classifier, lpips, truth = read_classifier(options.classifier), Perceptual.installed(), read_part(options.data, "test")[0]
    truth = np.array(truth[: options.images])
    rows: list[dict[str, Any]] = []
    for kind in HOLES:
        holes = np.stack([hole(kind, k) for k in range(len(truth))])
        smooth = np.stack([closed(image, hole) for image, hole in zip(truth, holes, strict=True)])
        again = np.where(holes, codec.decode(codec.encode(truth)), truth)
        outside = 1 - np.mean([covered(codec, hole) for hole in holes])
        for name, images in (("truth", truth), ("the codec's own", again), ("smooth", smooth)):
            rows.append({"hole": kind, "rule": name, **judge(truth, images, holes, classifier, lpips)})
        for rule, clamp in tqdm(WAYS, desc=kind):
            made = fill(model, codec, truth, holes, rule, clamp)
            figures = judge(truth, made["fills"], holes, classifier, lpips)
            rows.append({"hole": kind, "rule": rule, "clamp": clamp, "given": made["given"], "outside": outside, **figures})
    report = {"model": model.about, "images": len(truth), "rows": rows}
    write(options.out, json.dumps(report, indent=1).encode() + b"\n")
    for row in rows:
        print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}))


if __name__ == "__main__":
    main()
