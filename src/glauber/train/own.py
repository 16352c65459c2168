"""Data as a user has it: a prepared folder, or texts, images and tokens that are prepared first, in a way that suits them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glauber.codec import ByteCodec, is_image_codec
from glauber.data import open_tokens, prepare
from glauber.data.images import find_images, open_image
from glauber.data.shards import HEADER
from glauber.data.sources import TOKENS, sub_folder
from glauber.model import Model
from glauber.runtime.files import walk, write
from glauber.train.data import Data, shards_data
from glauber.train.run import Say

BESIDE, CODEC = "-data", "codec.json"
LETTERS = 2**21
"""Bytes of text below which letters are the tokens: word pieces would be too rare to be learned."""
PIECES = "bpe:4096"
FEW = 2**22
"""Bytes of tokens or texts below which one in twenty is kept for validation, and not one in a hundred."""
LARGEST_SIDE = 32
"""Pixels of a side of the images that a network sees, unless told otherwise."""
CODES, SQUARES_OF_A_CODE = 512, 8
"""At most so many codes of patches, with so many squares for each."""


ROWS, SHORTEST, LONGEST = 20, 8, 256
"""Texts are cut into so many rows or more, of so many tokens."""


class Prepared(NamedTuple):
    """How something is to be prepared: the options of `prepare`, and why."""

    options: dict[str, Any]
    why: str


def own_data(source: Path, folder: Path, init: Model | None, say: Say) -> Data:
    """The data of a prepared folder; or of anything that `prepare` reads, which is prepared into `folder` first.

    A model that training starts from must have made the same tokens, and its tokenizer is the one that texts are prepared by.
    """
    if (source / HEADER).is_file():
        data = shards_data(source)
    else:
        if (folder / HEADER).is_file():
            raise ValueError(f"{folder} holds prepared data already; train on that with --data, or name another --out")
        chosen = _for_init(init, folder) if init is not None else suited(source)
        prepare([source], folder, **chosen.options)
        data = shards_data(folder)
        say(f"prepared into {folder}: {chosen.why}")
    require_tokens_of(init, data)
    return data


def require_tokens_of(init: Model | None, data: Data) -> None:
    """Refuse data whose tokens mean something else to the model that training starts from."""
    if init is None:
        return
    if _meaning(init.codec) != _meaning(data.codec) or init.network.config.vocab != data.vocab:
        raise ValueError(
            "the data has other tokens than the model of --init, which would then know nothing of them; "
            "give the texts themselves as --data, and they are prepared by the model's own tokenizer"
        )


def _meaning(codec: Any) -> dict[str, Any] | None:
    """What its tokens stand for; whether a tokenizer is lossless depends on the texts that it was tried on."""
    return None if codec is None else {name: value for name, value in codec.to_dict().items() if name != "lossless"}


def suited(source: Path) -> Prepared:
    """How to prepare something that nobody said anything about."""
    if not source.exists():
        raise ValueError(f"there is no file or folder {source}; name what to train on with --data")
    files = [source] if source.is_file() else [Path(entry.path) for entry in walk(source, lambda folder: True)]
    arrays = [file for file in files if file.suffix == TOKENS]
    if arrays:
        vocab = 1 + max(int(np.max(open_tokens(file))) for file in arrays)
        share = _share(sum(file.stat().st_size for file in arrays))
        why = f"tokens, a vocabulary of {vocab:,} since the largest is {vocab - 1:,}"
        return Prepared({"vocab": max(2, vocab), "valid": share}, why)
    first = next(find_images(source), None) if source.is_dir() else None
    if first is not None:
        return _images(source, first.path)
    size = sum(file.stat().st_size for file in files)
    tokenizer, length = "char" if size < LETTERS else PIECES, row_length(size)
    why = f"texts of {size / 1e6:.1f} MB, " + ("a token for each letter" if tokenizer == "char" else f"word pieces, {PIECES}")
    return Prepared({"tokenizer": tokenizer, "length": length, "valid": _share(size)}, f"{why}, rows of {length}")


def row_length(tokens: int) -> int:
    """A power of two that leaves ROWS rows, between a shortest and a longest."""
    return int(min(max(2 ** int(np.log2(max(1, tokens // ROWS))), SHORTEST), LONGEST))


def _images(source: Path, first: Path) -> Prepared:
    """Squares of a power of two, cut into patches; sub-folders are classes where every image lies in one."""
    image = open_image(first)
    side = 2 ** min(int(np.log2(max(2, min(image.size)))), int(np.log2(LARGEST_SIDE)))
    patch = 2 if side <= 16 else 4
    lie = [sub_folder(found.path, source) for found in find_images(source)]
    folders, squares = set(lie), len(lie) * (side // patch) ** 2
    classes = len(folders) > 1 and "" not in folders
    codes = 2 ** max(1, min(int(np.log2(CODES)), int(np.log2(max(1, squares // SQUARES_OF_A_CODE)))))
    word = f"patches:{codes}:{patch}"
    why = f"images of {side}×{side} pixels, {word}" + (f", {len(folders)} classes by their folders" if classes else "")
    grey = image.mode in ("1", "L")
    return Prepared({"tokenizer": word, "size": side, "grey": grey, "classes": classes, "valid": 0.05}, why)


def _share(size: int) -> float:
    return 0.05 if size < FEW else 0.01


def _for_init(init: Model, folder: Path) -> Prepared:
    """By the tokenizer of the model that training starts from."""
    if init.codec is None or is_image_codec(init.codec):
        raise ValueError("the model of --init has no tokenizer of texts; give --data that was prepared with its codec")
    tokenizer = ByteCodec.kind if isinstance(init.codec, ByteCodec) else str(_written(init.codec, folder))
    options = {"tokenizer": tokenizer, "length": init.network.config.length, "valid": 0.05}
    return Prepared(options, "by the tokenizer of the model that it starts from")


def _written(codec: Any, folder: Path) -> Path:
    """The tokenizer in a file beside the folder, from which `text_codec` makes it again."""
    path = folder.with_name(f"{folder.name}-{CODEC}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(codec.to_dict()).encode())
    return path
