"""The image table: a codec, the GGM and its autoregressive twin on the same tokens, samples of both, and their figures.

    python tools/images.py card --images TRAIN --recipe fashion --out OUT [--seconds 180] [--grey] ...
    python tools/images.py judge --train TRAIN.npy --test TEST.npy --out OUT --features inception.safetensors

TRAIN is a folder of images, TRAIN.npy the same as an array. `card` trains and samples, on a GPU if there is one; `judge` scores
what it left. Either may be interrupted: called again it goes on from where it was. tools/inpainting.py judges fills.
"""

import argparse
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from language import low_precision

from glauber import Model, load
from glauber.codec import ImageCodec
from glauber.codec.training import VQSettings
from glauber.codec_train import train_codec
from glauber.data import prepare
from glauber.data.writing import write
from glauber.evaluate.features import FeatureNetwork, Images, read_images, reconstructed
from glauber.evaluate.images import evaluate_images
from glauber.train.recipe import recipe
from glauber.train.run import run, shards_data
from glauber.train.settings import apply_settings, parse_settings

METHODS = ("ggm", "ar")
ROWS = 1000  # sampled at once


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
    write(out / f"samples-{name}.json", json.dumps({"seconds": seconds, "number": number, "options": options}).encode())
    keep(out / f"samples-{name}.npy", decoded(model, tokens))
    print(f"{name}: {number} samples, {seconds:.1f} s", flush=True)


def keep(path: Path, array: np.ndarray) -> None:
    """All of it or nothing."""
    content = io.BytesIO()
    np.save(content, array)
    write(path, content.getvalue())


def decoded(model: Model, tokens: torch.Tensor) -> np.ndarray:
    """Images of tokens."""
    own: ImageCodec = model.codec  # type: ignore[assignment]
    return own.decode(tokens.cpu())


def judge(args: argparse.Namespace) -> None:
    """Every set of samples, and the test images as the codec gives them back; the figures in OUT/images.json."""
    path = args.out / "images.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"samples": {}}
    network, train = FeatureNetwork(args.features), read_images(args.train)
    sets: dict[str, Images] = {file.stem[8:]: read_images(file) for file in sorted(args.out.glob("samples-*.npy"))}
    own: ImageCodec = load(args.out / "ggm").codec  # type: ignore[assignment]
    sets["reconstructed"] = reconstructed(read_images(args.test), own)
    for name, images in sets.items():
        if name not in found["samples"]:
            found["samples"][name] = evaluate_images(images, train, network, None, args.out / "features", progress=True)
            write(path, json.dumps(found, indent=1).encode())
    for name, report in found["samples"].items():
        print(f"| {name} | {report['samples']['number']} | {report['fid']:.2f} |")


def main() -> None:
    """Read the arguments; do the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("card", "judge"))
    parser.add_argument("--out", type=Path, required=True)
    for name in ("images", "train", "test"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--features")
    parser.add_argument("--recipe", default="fashion")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=180.0)
    for name, value in {"size": 28, "factor": 4, "codes": 512, "width": 32, "steps": 5000, "number": 10_000}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--grey", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.stage == "judge":
        judge(args)
        return
    codec(args)
    made = models(args)
    for method, model in made.items():
        sample(method, model, args.out, args.number)


if __name__ == "__main__":
    main()
