"""Images from files, all of one shape, in the order of their names."""

import hashlib
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from glauber.runtime.files import require_file, walk

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
THREADS = min(8, os.cpu_count() or 1)
LARGEST = 50 * 10**6
"""Pixels of an image that is read, or made."""
MANY = 2**22
"""Of an image that takes much memory while it is read."""
_LARGE = Lock()


class Frame(NamedTuple):
    """The shape that images are brought to: size × size, or the first one's own; grey, or in colour."""

    size: int | None = None
    grey: bool = False


class Found(NamedTuple):
    """An image's file."""

    path: Path
    size: int
    changed: int


def is_image(path: Path) -> bool:
    """By its name."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def find_images(path: Path) -> Iterator[Found]:
    """The file itself, or all images of a folder and its sub-folders in the order of their names, links among them."""
    if path.is_file():
        yield Found(path, path.stat().st_size, path.stat().st_mtime_ns)
        return
    for entry in walk(path, lambda folder: not folder.name.startswith(".")):
        if is_image(Path(entry.name)):
            yield Found(Path(entry.path), entry.stat().st_size, entry.stat().st_mtime_ns)


def summary(path: Path) -> tuple[int, int, int]:
    """How many images, their bytes, and a number that changes when one of them does."""
    count, size, digest = 0, 0, hashlib.sha256()
    for found in find_images(path):
        count, size = count + 1, size + found.size
        digest.update(f"{found.path.relative_to(path)}\0{found.size}\0{found.changed}\n".encode(errors="surrogateescape"))
    return count, size, int.from_bytes(digest.digest()[:7])


def frame_shape(first: Path, frame: Frame) -> tuple[int, ...]:
    """(H, W) or (H, W, 3)."""
    if frame.size is not None:
        sides: tuple[int, ...] = (frame.size, frame.size)
    else:
        image = open_image(first)
        sides = (image.height, image.width)
    return sides if frame.grey else (*sides, 3)


def read_image(path: Path, frame: Frame, shape: tuple[int, ...]) -> np.ndarray:
    """uint8 of the shape: the middle of the image, resized; without a size of the frame only an image that fits as it is."""
    plain = open_image(path).convert("L" if frame.grey else "RGB")
    if frame.size is not None:
        from PIL import Image, ImageOps

        plain = ImageOps.fit(plain, (frame.size, frame.size), Image.Resampling.BICUBIC)  # smooths as it shrinks
    if (plain.height, plain.width) != shape[:2]:
        raise ValueError(
            f"{path} has {plain.width}×{plain.height} pixels, the first image {shape[1]}×{shape[0]}; give a size for all"
        )
    return np.asarray(plain)


def open_image(path: Path, paper: str = "white") -> Any:
    """A PIL image, read whole, upright, of at most 8 bits a channel, on paper of that colour where it can be seen through.

    One that is far too large is refused before it is read, and large ones are read one at a time.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("images need pillow: pip install 'glauber[image]'") from error
    require_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, which we look for ourselves, and of what is odd in them
            with Image.open(path) as image:
                size = image.width * image.height
                if size <= LARGEST:
                    with _LARGE if size > MANY else nullcontext():
                        return flat(ImageOps.exif_transpose(image), paper)
    except Image.DecompressionBombError:
        pass
    except (OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError, IndexError, struct.error, zlib.error) as error:
        raise ValueError(f"{path} is damaged, cut short, or not an image; mend or remove it") from error
    raise ValueError(f"{path} has more than {LARGEST // 10**6} million pixels; make it smaller")


def flat(image: Any, paper: str = "white") -> Any:
    """A PIL image of at most 8 bits a channel; what can be seen through lies on paper."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which convert() would cut off at 255
        image = Image.fromarray((np.asarray(image).clip(0, 65535) / 257).round().astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        image = Image.alpha_composite(Image.new("RGBA", image.size, paper), image.convert("RGBA"))
    return image
