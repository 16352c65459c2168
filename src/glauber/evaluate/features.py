"""Features of images: resized without aliasing, seen by a network, kept chunk by chunk so that the work can be interrupted."""

import hashlib
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glauber.codec import ImageCodec
from glauber.data.images import Frame, find_images, frame_shape, is_image, read_image
from glauber.evaluate.inception import read_inception
from glauber.runtime.files import NPY_HEADER, read_array, unpacked_size
from glauber.runtime.memory import require_memory
from glauber.runtime.progress import progress_bar

SIDE = 299
CHUNK = 64
"""Images that go through the network together. It is the same whatever is known already, and so are the figures."""


@dataclass
class Images:
    """Images of one shape, read when they are asked for."""

    source: str
    number: int
    shape: tuple[int, ...]  # (H, W) or (H, W, 3)
    read: Callable[[Sequence[int]], np.ndarray]  # numbers → uint8 (n, *shape)

    def chunks(self) -> Iterator[np.ndarray]:
        """All of them in order, in colour (n, H, W, 3)."""
        for at in range(0, self.number, CHUNK):
            yield in_colour(self.read(range(at, min(at + CHUNK, self.number))))


def in_colour(images: np.ndarray) -> np.ndarray:
    """Grey (n, H, W) three times; colour stays."""
    return np.repeat(images[..., None], 3, axis=-1) if images.ndim == 3 else images


def read_images(source: str | Path, grey: bool = False) -> Images:
    """Of a folder (all files in it that are images, but the sheet.png of `glauber sample`), .npy, or .npz with `images`."""
    path = Path(source)
    if path.suffix in (".npy", ".npz"):
        return _array(path)
    if not path.is_dir() and not (path.is_file() and is_image(path)):
        raise ValueError(f"{path} is no folder of images, nor .npy or .npz of them; name one of these")
    files = [found.path for found in find_images(path) if found.path.name != "sheet.png"]
    if not files:
        raise ValueError(f"{path} holds no images; name a folder of .png, .jpg and the like, or a .npy or .npz")
    frame = Frame(grey=grey)
    shape = frame_shape(files[0], frame)
    return Images(str(source), len(files), shape, lambda ks: np.stack([read_image(files[k], frame, shape) for k in ks]))


def _array(path: Path) -> Images:
    try:
        if path.suffix == ".npy":
            images = read_array(path)
        else:
            require_memory(unpacked_size(path), str(path), "give it as .npy, which is read piece by piece")
            with np.load(path, allow_pickle=False, max_header_size=NPY_HEADER) as archive:
                images = archive["images"]
    except (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f'{path} is missing, damaged, or without images; it should be .npy, or .npz with "images"') from error
    good = images.dtype == np.uint8 and (images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3))
    if not good or 0 in images.shape:
        raise ValueError(f"{path} should be uint8 of (number, height, width) or (…, 3), not {images.dtype} of {images.shape}")
    return Images(str(path), len(images), images.shape[1:], lambda ks: images[list(ks)])


def reconstructed(images: Images, codec: ImageCodec) -> Images:
    """As they come back from the codec."""

    def read(ks: Sequence[int]) -> np.ndarray:
        given = images.read(ks)
        return codec.decode(codec.encode(in_colour(given) if len(codec.shape) == 3 else given))

    return Images(f"{images.source}, encoded and decoded", images.number, codec.shape, read)


def prepared(images: Tensor) -> Tensor:
    """Colour uint8 (n, H, W, 3) → (n, 3, 299, 299) in [-1, 0.992]: bicubic, antialiased, not rounded, cut to 0..255."""
    x = images.permute(0, 3, 1, 2).float()
    if x.shape[2:] != (SIDE, SIDE):
        x = F.interpolate(x, (SIDE, SIDE), mode="bicubic", antialias=True, align_corners=False).clamp_(0, 255)
    return (x - 128) / 128


class FeatureNetwork:
    """A network (n, 3, 299, 299) → (n, D) in float32, on a GPU if there is one.

    Args:
        identity: changes when the weights do.
    """

    def __init__(self, network: nn.Module, name: str, identity: str):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.name, self.identity = name, identity

    @classmethod
    def read(cls, path: Path) -> "FeatureNetwork":
        """An InceptionV3, see `read_inception`."""
        network = read_inception(path)
        return cls(network, path.name, hashlib.sha256(path.read_bytes()).hexdigest())

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, D) of colour images (n, H, W, 3)."""
        # float32 as it is: the short floats of a GPU's convolutions would change the third digit
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            x = prepared(torch.from_numpy(np.ascontiguousarray(images)).to(self.device))
            found: np.ndarray = self.network(x.contiguous(memory_format=torch.channels_last)).float().cpu().numpy()
        return found

    def features(self, images: Images, store: "Store", progress: bool = False) -> "Features":
        """Of all images. What the store knows is taken from there; what is new is added chunk by chunk."""
        rows, digest = [], hashlib.sha256()
        shown = progress and sys.stderr.isatty()
        with progress_bar(shown, images.number, f"features of {images.source}"[:60], "image") as bar:
            for chunk in images.chunks():
                key = hashlib.sha256(f"{self.identity} {chunk.shape}".encode() + chunk.tobytes()).digest()
                digest.update(f"{chunk.shape}".encode() + chunk.tobytes())
                found = store.get(key)
                if found is None:
                    found = self._checked(chunk, images.source)
                    store.add(key, found)
                rows.append(found)
                bar.update(len(chunk))
        return Features(np.concatenate(rows), digest.hexdigest())

    def _checked(self, chunk: np.ndarray, source: str) -> np.ndarray:
        found = self(chunk)
        if not np.isfinite(found).all():
            raise ValueError(f"{self.name} gives features that are not numbers for {source}; its weights are damaged")
        return found


@dataclass
class Features:
    """(N, D) float32, and a hash of the images that they are of."""

    values: np.ndarray
    hash: str


class Store:
    """Features of chunks in a file, so that the work goes on where it was killed. Without a path nothing is kept."""

    HEAD = struct.Struct("<32sII")

    def __init__(self, path: Path | None):
        self.path, self.known = path, dict[bytes, tuple[int, int, int]]()
        if path is not None and path.exists():
            self._index(path)

    def _index(self, path: Path) -> None:
        """What is whole; a kill may have cut the last chunk."""
        size, end = path.stat().st_size, 0
        with path.open("rb") as file:
            while end + self.HEAD.size <= size:
                file.seek(end)
                key, number, width = self.HEAD.unpack(file.read(self.HEAD.size))
                if not 0 < number <= CHUNK or not width:
                    raise ValueError(f"{path} is not what an interrupted evaluation leaves; remove it, or name another --out")
                after = end + self.HEAD.size + 4 * number * width
                if after > size:
                    break
                self.known[key] = (end + self.HEAD.size, number, width)
                end = after
        os.truncate(path, end)

    def get(self, key: bytes) -> np.ndarray | None:
        """Features (n, D), if they are known."""
        if self.path is None or key not in self.known:
            return None
        offset, number, width = self.known[key]
        return np.fromfile(self.path, "<f4", number * width, offset=offset).reshape(number, width)

    def add(self, key: bytes, values: np.ndarray) -> None:
        """Keep them."""
        if self.path is not None:
            with self.path.open("ab") as file:
                begin = file.tell()
                file.write(self.HEAD.pack(key, *values.shape) + values.astype("<f4").tobytes())
            self.known[key] = (begin + self.HEAD.size, *values.shape)
