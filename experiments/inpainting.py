"""Inpainting evaluated on held-out Fashion-MNIST: how near the fills are to what was there, by mask rule and clamp rule.

    python experiments/inpainting.py fill MODEL DATA --out fills.npz
    python experiments/inpainting.py evaluate fills.npz DATA classifier.safetensors --out docs/results/inpainting.json
    python experiments/inpainting.py picture fills.npz DATA --out docs/media/fashion-inpainting.png

`fill` uses a GPU if there is one. DATA and classifier.safetensors as for experiments/fashion.py. LPIPS needs
`pip install --no-deps stlpips-pytorch`.
"""

import io
import json
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from fashion import Classifier, agreement, read_classifier, read_part
from shared import PATH, device, low_precision, run_command
from tqdm import tqdm

from glauber import load
from glauber.codec import ImageCodec
from glauber.evaluate.images import lpips
from glauber.model import Model
from glauber.pictures import FAINT, rows_with_names
from glauber.provenance import write_figures
from glauber.runtime.files import write
from glauber.tasks.inpaint import REFINEMENTS, closed, covered, fast_pass, given_tokens

HOLES = ("centre", "top", "blobs")
RULES = (("cover", "exact"), ("iterative", "exact"), ("paper", "exact"), ("cover", "paper"), ("paper", "paper"))
"""Mask rule and clamp rule."""
SHOWN = 12  # images in the picture


def hole(kind: str, number: int, side: int = 28) -> np.ndarray:
    """The middle, the upper half, or three discs that differ from image to image; bool (side, side)."""
    y, x = np.mgrid[:side, :side] / side
    made: np.ndarray
    if kind == "centre":
        made = (abs(y - 0.5 + 0.5 / side) < 0.21) & (abs(x - 0.5 + 0.5 / side) < 0.21)
    elif kind == "top":
        made = y < 0.5
    else:
        discs = np.random.default_rng(number).uniform((0.15, 0.15, 0.09), (0.85, 0.85, 0.18), (3, 3))
        made = np.any([(y - a) ** 2 + (x - b) ** 2 < r**2 for a, b, r in discs], axis=0)
    return made


def holes_of(kind: str, number: int) -> np.ndarray:
    """One for each image."""
    return np.stack([hole(kind, k) for k in range(number)])


def codecs_own(model: Model, images: np.ndarray, kind: str) -> dict[str, np.ndarray]:
    """Of a kind of hole: what the codec itself makes of it, and the share of tokens outside."""
    codec, masks = image_codec(model), holes_of(kind, len(images))
    own = np.where(masks, codec.decode(codec.encode(images)), images)
    return {f"{kind}/codec": own, f"{kind}/outside": np.array(1 - np.mean([covered(codec, hole) for hole in masks]))}


def fills(model: Model, images: np.ndarray, kind: str, rule: str, clamp: str) -> dict[str, np.ndarray]:
    """All images at once, each with its own hole; and the share of given tokens."""
    codec, masks = image_codec(model), holes_of(kind, len(images))
    pairs = [given_tokens(codec, image, hole, rule) for image, hole in zip(images, masks, strict=True)]
    given, tokens = (torch.stack(part) for part in zip(*pairs, strict=True))
    generator, filled = torch.Generator().manual_seed(0), images
    for refinements_left in reversed(range(1 + (REFINEMENTS if rule == "iterative" else 0))):
        with low_precision(model):
            sampler = model.sampler(clamp_rule=clamp, gaps=True)
            sampler = fast_pass(sampler) if refinements_left else sampler
            drawn = sampler.run(len(images), generator=generator, clamp=(given, tokens))
        filled = np.where(masks, codec.decode(drawn), images)
        tokens = codec.encode(filled)
    name = f"{kind}/{rule}/{clamp}"
    return {name: filled, f"{name}/given": np.array(given.double().mean().item())}


def image_codec(model: Model) -> ImageCodec:
    """Of a model of images."""
    return cast(ImageCodec, model.codec)


def fill(model: str, data: Path, out: Path, images: int) -> None:
    """The fills by all rules, as an archive of arrays; called again it goes on with what is not there yet."""
    loaded = load(model, device())
    tests = read_part(data, "test")[0]
    made: dict[str, Any] = {"about": np.array(json.dumps(loaded.about))}
    if out.is_file():
        with np.load(out, allow_pickle=False) as archive:
            made = dict(archive)
    for kind, (rule, clamp) in tqdm(list(product(HOLES, RULES)), desc="fill"):
        if f"{kind}/codec" not in made:
            made |= codecs_own(loaded, np.array(tests[:images]), kind)
        if f"{kind}/{rule}/{clamp}" not in made:
            made |= fills(loaded, np.array(tests[: len(made[f"{kind}/codec"])]), kind, rule, clamp)
            content = io.BytesIO()
            np.savez_compressed(content, **made)
            write(out, content.getvalue())


def seam(images: np.ndarray, masks: np.ndarray) -> float:
    """Mean step of grey between a pixel inside and its neighbour outside."""
    steps = [np.abs(np.diff(images.astype(float), axis=a))[np.diff(masks.astype(int), axis=a) != 0] for a in (1, 2)]
    return float(np.concatenate(steps).mean())


def figures(truth: np.ndarray, filled: np.ndarray, masks: np.ndarray, classifier: Classifier) -> dict[str, float]:
    """Of images in which only the holes may differ."""
    error = ((filled.astype(float) - truth) ** 2)[masks].mean() ** 0.5
    return {
        "lpips": float(lpips(filled, truth).mean()),
        "agreement": agreement(classifier, filled, truth),
        "rms error in the hole": float(error),
        "seam": seam(filled, masks),
    }


def evaluate(made: Path, data: Path, classifier: Path, out: Path) -> None:
    """How near they are; of what there is so far."""
    network, rows = read_classifier(classifier), list[dict[str, Any]]()
    with np.load(made, allow_pickle=False) as archive:
        found = dict(archive)
    tests = read_part(data, "test")[0]
    for kind in HOLES:
        truth = np.array(tests[: len(found[f"{kind}/codec"])])
        about, masks = {"hole": kind, "images": len(truth)}, holes_of(kind, len(truth))
        smooth = np.stack([closed(image, hole) for image, hole in zip(truth, masks, strict=True)])
        for name, images in (("truth", truth), ("the codec's own", found[f"{kind}/codec"]), ("smooth", smooth)):
            rows.append({**about, "rule": name, **figures(truth, images, masks, network)})
        for rule, clamp in RULES:
            name = f"{kind}/{rule}/{clamp}"
            if name not in found:
                continue
            shares = {"given": float(found[f"{name}/given"]), "outside": float(found[f"{kind}/outside"])}
            rows.append({**about, "rule": rule, "clamp": clamp, **shares, **figures(truth, found[name], masks, network)})
    report = {"model": json.loads(str(found["about"])), "rows": rows}
    write_figures(out, report)
    for row in rows:
        print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}))


def picture(made: Path, data: Path, out: Path) -> None:
    """The first twelve images, the kinds of holes in turn: given, filled by each mask rule, and the truth."""
    truth = read_part(data, "test")[0][:SHOWN]
    kinds = [HOLES[k % len(HOLES)] for k in range(len(truth))]
    masks = np.stack([hole(kind, k) for k, kind in enumerate(kinds)])
    with np.load(made, allow_pickle=False) as archive:
        filled = {rule: np.stack([archive[f"{kind}/{rule}/exact"][k] for k, kind in enumerate(kinds)]) for rule, _ in RULES[:3]}
    rows = {name: np.repeat(images[..., None], 3, -1) for name, images in (filled | {"truth": truth}).items()}
    given = np.where(masks[..., None], np.array(FAINT, np.uint8), rows["truth"])
    out.parent.mkdir(parents=True, exist_ok=True)
    rows_with_names({"given": given, **rows}, 2).save(out)


def main() -> None:
    """See above."""
    made, out = {"made": PATH, "data": PATH}, {"--out": PATH | {"required": True}}
    images = {"--images": {"type": int, "default": 500}}
    run_command(
        __doc__,
        {fill: {"model": {}, "data": PATH} | images | out, evaluate: made | {"classifier": PATH} | out, picture: made | out},
    )


if __name__ == "__main__":
    main()
