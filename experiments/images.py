"""The image table: a codec, the GGM, its AR baseline and masked diffusion on the same tokens, samples, their figures.

    python experiments/images.py card --images TRAIN --recipe fashion --out OUT [--seconds 80] [--grey] ...
    python experiments/images.py evaluate --train TRAIN.npy --test TEST.npy --out OUT --features inception.safetensors
    python experiments/images.py pictures --train TRAIN.npy --test TEST.npy --out OUT

TRAIN is a folder of images; TRAIN.npy holds those to compare with, TEST.npy held-out ones. `card` trains and samples.
`evaluate` computes the figures of the samples and the likelihood of held-out images. `pictures` shows samples, and fills of
held-out images. A GPU is used if there is one. The first two may be interrupted: called again they go on from where they were.
inpainting.py beside it evaluates fills.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inpainting import hole
from shared import device, low_precision, npy, trained

from glauber import Model, load
from glauber.codec import ImageCodec
from glauber.data import prepare
from glauber.evaluate.features import FeatureNetwork, Images, in_colour, read_images, reconstructed
from glauber.evaluate.images import evaluate_images
from glauber.pictures import grid
from glauber.provenance import write_figures
from glauber.runtime.files import write
from glauber.train.codec import train_codec
from glauber.train.vq import VQSettings

METHODS = "ggm,ar,mdlm"
NEEDED = {"card": ("images",), "evaluate": ("train", "test", "features"), "pictures": ("train", "test")}
ROWS = 1000  # sampled at once
FILLED = 8  # held-out images in the picture of fills
SCORED = 500  # held-out images whose likelihood is computed
SCORED_BY: dict[str, dict[str, Any]] = {"ggm": {"sweeps": 1, "order": "left-to-right"}}  # which is exact


def codec(args: argparse.Namespace) -> None:
    """A VQ codec of the images, in OUT/codec."""
    folder = args.out / "codec"
    settings = VQSettings(args.codes, args.factor, args.width, steps=args.steps, batch=args.batch, adversarial=args.adversarial)
    state = folder / "log.jsonl"
    done = json.loads(state.read_text().splitlines()[-1])["step"] if state.is_file() else 0
    if done < args.steps:
        began = time.perf_counter()
        report = train_codec([args.images], folder, settings, args.size, args.grey, every=1000, resume=done > 0).report
        report["seconds"] = round(time.perf_counter() - began, 1)
        write(args.out / "codec.json", json.dumps(report).encode())
        print("codec", report, flush=True)


def tokens(args: argparse.Namespace) -> None:
    """What the codec makes of the images, in OUT/data."""
    if not (args.out / "data" / "header.json").is_file():
        name = f"vq:{args.out / 'codec'}"
        prepare([args.images], args.out / "data", name, size=args.size, grey=args.grey, progress=False)


def plans(length: int) -> dict[str, dict[str, dict[str, Any]]]:
    """By method, sets of samples and the options of each: a call for each site, and a quarter of these; of the GGM in two
    orders."""
    block = next(block for block in range(4, length + 1) if length % block == 0)
    return {
        "ar": {"ar": {}},
        "mdlm": {"mdlm": {}, "mdlm-quarter": {"calls": length // block}},
        "ggm": {
            "ggm": {"sweeps": 1, "order": "left-to-right"},
            "ggm-quarter": {"calls": length // block},
            "ggm-random": {"sweeps": 1, "block": block, "order": "random"},
        },
    }


def sample(name: str, model: Model, out: Path, number: int, **options: Any) -> None:
    """OUT/samples-NAME.npy, uint8, and their tokens."""
    if (out / f"samples-{name}.npy").is_file():
        return
    began = time.perf_counter()
    with low_precision(model):
        parts = range(0, number, ROWS)
        drawn = torch.cat([model.sample_tokens(min(ROWS, number - part), part, **options).cpu() for part in parts])
    seconds = time.perf_counter() - began
    write(out / f"tokens-{name}.npy", npy(drawn.numpy().astype(np.min_scalar_type(model.process.vocab - 1))))
    write(out / f"samples-{name}.json", json.dumps({"seconds": seconds, "number": number, "options": options}).encode())
    write(out / f"samples-{name}.npy", npy(decoded(model, drawn)))
    print(f"{name}: {number} samples, {seconds:.1f} s", flush=True)


def decoded(model: Model, tokens: torch.Tensor) -> np.ndarray:
    """Images of tokens."""
    own: ImageCodec = model.codec  # type: ignore[assignment]
    return own.decode(tokens.cpu())


def evaluate(args: argparse.Namespace) -> None:
    """Every set of samples, and the test images as the codec gives them back; the figures in OUT/images.json."""
    path = args.out / "images.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"samples": {}}
    codec_report = args.out / "codec.json"
    found["codec"] = json.loads(codec_report.read_text()) if codec_report.is_file() else None
    network, reference = FeatureNetwork.read(args.features), read_images(args.train)
    likelihoods(args, found.setdefault("bits_per_token", {}))
    write_figures(path, found)
    sets: dict[str, Images] = {file.stem[8:]: read_images(file) for file in sorted(args.out.glob("samples-*.npy"))}
    own: ImageCodec = load(args.out / "ggm").codec  # type: ignore[assignment]
    sets["test"] = read_images(args.test)
    sets["reconstructed"] = reconstructed(sets["test"], own)
    for name, images in sets.items():
        if name not in found["samples"]:
            report = evaluate_images(images, reference, network, None, args.out / "features", progress=True)
            drawn = args.out / f"samples-{name}.json"
            found["samples"][name] = report | ({"sampled": json.loads(drawn.read_text())} if drawn.is_file() else {})
            write_figures(path, found)
    for name, report in found["samples"].items():
        kid, nearest = 1e3 * report["kid"]["mean"], report["nearest"]["median"]
        figures = *(report[key] for key in ("fid", "precision", "recall")), kid, nearest
        print(f"| {name} | {report['samples']['number']} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")


def likelihoods(args: argparse.Namespace, found: dict[str, Any]) -> None:
    """Bits per token of held-out images under each model, or a bound where it has no likelihood; with how it was trained."""
    images = read_images(args.test)
    for method in args.methods.split(","):
        if method not in found and (args.out / method).is_dir():
            model = load(args.out / method, device())
            own: ImageCodec = model.codec  # type: ignore[assignment]
            rows = own.encode(images.read(range(min(SCORED, images.number))))
            report = model.score(rows, **SCORED_BY.get(method, {}))
            found[method] = report | {"trained": model.about}
            print(f"{method}: {report['bits_per_token']:.4f} bits per token", flush=True)


def fills(model: Model, images: np.ndarray) -> np.ndarray:
    """Six for each image: what is given of it, its centre or its upper half being gone in turn; four fills; the truth."""
    shown = []
    for k, image in enumerate(images):
        gone = hole(("centre", "top")[k % 2], k, image.shape[0])
        given = image.copy()
        given[gone] = 128
        shown += [given, *map(np.asarray, model.inpaint(image, gone, num=4, seed=0)), image]
    return np.stack(shown)


def pictures(args: argparse.Namespace) -> None:
    """In OUT: NAME.png, 64 of every set of samples; NAME-nearest.png, eight, each beside its five nearest; inpainting.png."""
    known, held = read_images(args.train), read_images(args.test)
    scale = max(1, 64 // known.shape[0])
    for name, report in json.loads((args.out / "images.json").read_text())["samples"].items():
        if not (args.out / f"samples-{name}.npy").is_file():
            continue  # the test images
        drawn, near = read_images(args.out / f"samples-{name}.npy"), report["nearest"]
        grid(in_colour(drawn.read(range(64))), 16, scale).save(args.out / f"{name}.png")
        beside = zip(near["shown"], near["neighbours"], strict=True)
        rows = [in_colour(images) for k, others in beside for images in (drawn.read([k]), known.read(others))]
        grid(np.concatenate(rows), len(rows[0]) + len(rows[1]), scale).save(args.out / f"{name}-nearest.png")
    shown = fills(load(args.out / "ggm", device()), held.read(range(min(FILLED, held.number))))
    grid(in_colour(shown), 6, scale).save(args.out / "inpainting.png")


def main() -> None:
    """Read the arguments; do the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=tuple(NEEDED))
    parser.add_argument("--out", type=Path, required=True)
    for name in ("images", "train", "test", "features"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--recipe", default="fashion")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=80.0)
    of_codec = {"size": 28, "factor": 2, "codes": 256, "width": 24, "steps": 3000, "batch": 256}
    for name, value in {**of_codec, "number": 10_000}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("grey", "adversarial"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    for name in NEEDED[args.stage]:
        if getattr(args, name) is None:
            parser.error(f"{args.stage} needs --{name}")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.stage != "card":
        {"evaluate": evaluate, "pictures": pictures}[args.stage](args)
        return
    codec(args)
    tokens(args)
    for method in args.methods.split(","):
        model = trained(args.recipe, method, args.out / "data", args.out / method, args.seconds, args.set)
        for name, options in plans(model.process.length)[method].items():
            sample(name, model, args.out, args.number, **options)


if __name__ == "__main__":
    main()
