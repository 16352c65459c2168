"""The image table: a codec, the GGM and its autoregressive twin on the same tokens, samples, inpaintings, and their figures.

    python tools/images.py card --images TRAIN --test TEST.npy --recipe fashion --out OUT [--seconds 180] [--grey] ...
    python tools/images.py judge --train TRAIN.npy --test TEST.npy --out OUT --features inception.safetensors

TRAIN is a folder of images. `card` trains and samples, on a GPU if there is one; `judge` scores what it left. Either may be
interrupted: called again it goes on from where it was.
"""

import argparse
import io
import json
import time
from pathlib import Path
from typing import Any

import fashion
import numpy as np
import torch

from glauber import Model, load
from glauber.codec import ImageCodec
from glauber.codec.training import VQSettings
from glauber.codec_train import train_codec
from glauber.data import prepare
from glauber.evaluate.features import FeatureNetwork, Images, read_images, reconstructed
from glauber.evaluate.images import evaluate_images, lpips
from glauber.inpaint import given_tokens
from glauber.storage import write_file
from glauber.train.recipe import recipe
from glauber.train.run import run, shards_data
from glauber.train.settings import apply_settings, parse_settings

METHODS = ("ggm", "ar")
ROWS = 1000  # sampled at once
HELD_OUT = 512  # images that are inpainted
RULES = ("cover", "paper", "again")  # which tokens a mask frees
CLAMPS = ("exact", "paper")


def codec(args: argparse.Namespace) -> None:
    """A VQ codec of the images, in OUT/codec."""
    folder, settings = args.out / "codec", VQSettings(args.codes, args.factor, args.width, steps=args.steps, batch=256)
    state = folder / "log.jsonl"
    done = json.loads(state.read_text().splitlines()[-1])["step"] if state.is_file() else 0
    if done < args.steps:
        began = time.perf_counter()
        report = train_codec([args.images], folder, settings, args.size, args.grey, every=1000, resume=done > 0).report
        print("codec", report, f"{time.perf_counter() - began:.0f} s", flush=True)


def models(args: argparse.Namespace) -> dict[str, Model]:
    """The GGM and its twin, for the same time on the same tokens."""
    tokenizer = f"vq:{args.out / 'codec'}"
    if not (args.out / "data" / "header.json").is_file():
        prepare([args.images], args.out / "data", tokenizer, size=args.size, grey=args.grey, progress=False)
    made, device = {}, "cuda" if torch.cuda.is_available() else "cpu"
    for method in METHODS:
        settings = {"method": method, "train.seconds": args.seconds, "train.steps": 10**7, **parse_settings(args.set)}
        run(apply_settings(recipe(args.recipe), settings), shards_data(args.out / "data"), args.out / method, resume=True)
        made[method] = load(args.out / method, device)
    return made


def low_precision(model: Model) -> torch.autocast:
    """bfloat16 on a GPU, as it was trained; draws are float64 everywhere."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda")


def sample(name: str, model: Model, out: Path, number: int, **options: Any) -> None:
    """OUT/samples-NAME.npy, uint8, and their tokens."""
    if (out / f"samples-{name}.npy").is_file():
        return
    began = time.perf_counter()
    with low_precision(model):
        parts = range(0, number, ROWS)
        tokens = torch.cat([model.sample_tokens(min(ROWS, number - part), part, **options).cpu() for part in parts])
    seconds = time.perf_counter() - began
    keep(out / f"tokens-{name}.npy", tokens.numpy().astype(np.int32))
    write_file(out / f"samples-{name}.json", json.dumps({"seconds": seconds, "number": number, "options": options}).encode())
    keep(out / f"samples-{name}.npy", decoded(model, tokens))
    print(f"{name}: {number} samples, {seconds:.1f} s", flush=True)


def keep(path: Path, array: np.ndarray) -> None:
    """All of it or nothing."""
    content = io.BytesIO()
    np.save(content, array)
    write_file(path, content.getvalue())


def decoded(model: Model, tokens: torch.Tensor) -> np.ndarray:
    """Images of tokens."""
    own: ImageCodec = model.codec  # type: ignore[assignment]
    return own.decode(tokens.cpu())


def holes(images: np.ndarray) -> dict[str, np.ndarray]:
    """(N, H, W) bool by name, true where an image is to be filled in: the centre, the top half, blobs."""
    number, height, width = images.shape[:3]
    centre, top = (np.zeros((number, height, width), bool) for _ in range(2))
    centre[:, height // 4 : 3 * height // 4, width // 4 : 3 * width // 4] = True
    top[:, : height // 2] = True
    draw, blobs = np.random.default_rng(0), np.zeros((number, height, width), bool)
    y, x = np.mgrid[:height, :width]
    for blob in blobs:
        for _ in range(3):
            cy, cx, radius = draw.uniform(0, height), draw.uniform(0, width), draw.uniform(height / 8, height / 4)
            blob |= (y - cy) ** 2 + (x - cx) ** 2 < radius**2
    return {"centre": centre, "top": top, "blobs": blobs}


def inpaint(model: Model, test: np.ndarray, out: Path) -> None:
    """OUT/inpaint-HOLE-RULE-CLAMP.npy: each of the first images filled in once."""
    own: ImageCodec = model.codec  # type: ignore[assignment]
    images = test[:HELD_OUT]
    for name, hole in holes(images).items():
        for rule in RULES:
            known = [given_tokens(own, image, here, rule) for image, here in zip(images, hole, strict=True)]
            given = torch.stack([mask.view(-1) for mask, _ in known])
            tokens = torch.stack([ids.view(-1) for _, ids in known])
            for clamp in CLAMPS:
                path = out / f"inpaint-{name}-{rule}-{clamp}.npy"
                if path.is_file():
                    continue
                with low_precision(model):
                    filled = model.sample_tokens(len(images), 0, clamp=(given, tokens), clamp_rule=clamp)
                pictures = decoded(model, filled)
                pictures[~hole] = images[~hole]
                keep(path, pictures)
                print(path.stem, flush=True)


def judge(args: argparse.Namespace) -> None:
    """Every set of samples and every inpainting; the figures in OUT/images.json."""
    path = args.out / "images.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"samples": {}, "inpaint": {}}
    network, train, test = FeatureNetwork(args.features), read_images(args.train), np.load(args.test)
    sets: dict[str, Images] = {file.stem[8:]: read_images(file) for file in sorted(args.out.glob("samples-*.npy"))}
    own: ImageCodec = load(args.out / "ggm").codec  # type: ignore[assignment]
    sets["reconstructed"] = reconstructed(read_images(args.test), own)
    for name, images in sets.items():
        if name not in found["samples"]:
            found["samples"][name] = evaluate_images(images, train, network, None, args.out / "features", progress=True)
            write_file(path, json.dumps(found, indent=1).encode())
    images = test[:HELD_OUT]
    classifier = fashion.read_classifier(args.classifier) if args.classifier is not None else None
    for file in sorted(args.out.glob("inpaint-*.npy")):
        if file.stem not in found["inpaint"]:
            filled = np.load(file)
            figures = {"lpips": float(lpips(filled, images).mean())} if args.lpips else {}
            if classifier is not None:
                figures["agreement"] = fashion.agreement(classifier, filled, images)
            found["inpaint"][file.stem] = figures
            write_file(path, json.dumps(found, indent=1).encode())
    for name, report in found["samples"].items():
        print(f"| {name} | {report['samples']['number']} | {report['fid']:.2f} |")
    for name, figures in found["inpaint"].items():
        print(f"| {name} | {figures} |")


def main() -> None:
    """Read the arguments; do the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("card", "judge"))
    for name in ("out", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("images", "train", "classifier"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--features")
    parser.add_argument("--recipe", default="fashion")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=180.0)
    for name, value in {"size": 28, "factor": 4, "codes": 512, "width": 32, "steps": 5000, "number": 10_000}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--grey", action="store_true")
    parser.add_argument("--lpips", action="store_true", help="needs the package stlpips-pytorch")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.stage == "judge":
        judge(args)
        return
    codec(args)
    made = models(args)
    for method, model in made.items():
        sample(method, model, args.out, args.number)
    inpaint(made["ggm"], np.load(args.test), args.out)


if __name__ == "__main__":
    main()
