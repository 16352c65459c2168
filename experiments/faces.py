"""Faces at 64 pixels from UTKFace's aligned crops, without doubles, to train and to test on.

    git clone https://github.com/xerow03/UTKFace
    python experiments/faces.py UTKFace OUT
    python experiments/images.py card --images OUT/train --recipe faces --size 64 --factor 4 --codes 1024 ...

The terms of UTKFace allow non-commercial research only. OUT gets train/ (each image and its mirror image), train.npy (without
the mirror images) and test.npy. Of images that hardly differ (by less than 8 of 255 levels, root mean square over 16×16 greys)
the first stays. The order, and so which 5,000 are held out, is that of the sha256 of their pixels. What comes in and what comes
out is checked.
"""

import argparse
import hashlib
import io
from pathlib import Path

import numpy as np
from checked import keep, require
from PIL import Image
from shared import npy
from tqdm import tqdm

SIDE, HELD_OUT, LEVELS = 64, 5000, 8
CROPS = "96c6832713f9caf018aef6af1bf9519e03ab7741e67cb17c7b289e08ba334a47"
"""Of the sha256 of all files one after the other."""
SHA256 = {
    "test": "4a3fde13c806dd70b2a97c3dfa97bdb302eda3174c36ff8326416b1c5d4d1a42",
    "train": "cb7833acebeb820249ab6183e60da43f55399b2367d0e2eb8fbaa25ab719facb",
}


def crops(folder: Path) -> np.ndarray:
    """All of them, scaled, uint8 (N, 64, 64, 3), in the order of their names."""
    files, images, content = sorted(folder.glob("*.jpg")), [], hashlib.sha256()
    if not files:
        raise SystemExit(f"{folder} holds no .jpg; name a checkout of UTKFace")
    for file in tqdm(files, desc="faces", disable=None):
        raw = file.read_bytes()
        content.update(raw)
        with Image.open(io.BytesIO(raw)) as image:
            images.append(np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)))
    require(content.digest(), CROPS, f"the {len(files):,} crops", "take the newest commit of xerow03/UTKFace")
    return np.stack(images)


def different(images: np.ndarray, block: int = 1000) -> np.ndarray:
    """Those that differ from all before them."""
    greys = (
        images.astype(np.int64).sum(3).reshape(len(images), 16, SIDE // 16, 16, SIDE // 16).sum((2, 4)).reshape(len(images), -1)
    )
    greys = (greys // (3 * (SIDE // 16) ** 2)).astype(np.float32)  # whole numbers, whose products are exact in float32
    square, stays = (greys**2).sum(1), np.ones(len(images), dtype=bool)
    for at in tqdm(range(0, len(images), block), desc="doubles", disable=None):
        rows, before = greys[at : at + block], greys[: at + block]
        distance = square[at : at + block, None] + square[None, : at + block] - 2 * rows @ before.T
        earlier = np.arange(len(before))[None] < np.arange(at, at + len(rows))[:, None]
        stays[at : at + block] = ~((distance < LEVELS**2 * greys.shape[1]) & earlier).any(1)
    return images[stays]


def main() -> None:
    """Read the checkout, write two arrays and a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    images = different(crops(args.checkout / "data"))
    images = images[np.argsort([hashlib.sha256(image.tobytes()).hexdigest() for image in images])]
    parts = {"test": images[:HELD_OUT], "train": images[HELD_OUT:]}
    for part, array in parts.items():
        print(f"{part}: {len(array):,} images")
        keep(args.out / f"{part}.npy", npy(array), SHA256[part], "another Pillow may scale in another way; 13.0.0 was used")
    folder = args.out / "train"
    folder.mkdir(exist_ok=True)
    for number, image in enumerate(tqdm(parts["train"], desc="train", disable=None)):
        for name, pixels in ((f"{number:05d}.png", image), (f"{number:05d}-mirrored.png", image[:, ::-1])):
            Image.fromarray(pixels).save(folder / name, compress_level=1)


if __name__ == "__main__":
    main()
