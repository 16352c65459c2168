"""What `score` is given, as windows of tokens."""

from pathlib import Path

import numpy as np
import torch

from glauber.data import Sources, open_shards, open_tokens
from glauber.model import Model
from glauber.runtime.memory import require_memory
from glauber.tasks.score import Windows, characters, cut

MEMORY = 64.0
"""Bytes that a token takes, at least."""
LETTERS = 8
"""Bytes of text that are a token, at most; but for a few tokenizers."""


def windows_of_file(loaded: Model, path: Path, rows: int | None) -> Windows:
    """Documents, each with its end, one after the other as `prepare` packs them."""
    codec, length = loaded.require_text_codec(), loaded.process.length
    sources, stream = Sources([str(path)]), list[int]()
    if rows is None:
        require_memory(MEMORY * sources.size / LETTERS, f"a score of all of {path}", "take some of it with --rows")
    for piece in sources.pieces():
        stream += codec.encode(str(piece.data)) + ([codec.end] if piece.ends else [])
        if rows is not None and len(stream) >= rows * length:
            break
    return cut([stream[: None if rows is None else rows * length]], codec, length)


def windows_of_tokens(loaded: Model, path: Path, rows: int | None) -> Windows:
    """The rows of an .npy, or a single one, each in windows of L."""
    tokens, length = open_tokens(path), loaded.process.length
    most = None if rows is None else rows if tokens.ndim == 2 else rows * length
    tokens = np.atleast_2d(tokens[:most])
    require_memory(MEMORY * tokens.size, f"a score of the {tokens.size:,} tokens in {path}", "take some of them with --rows")
    windows = cut(tokens.tolist(), loaded.text_codec, length)
    return Windows(windows.tokens[:rows], *(None if part is None else part[:rows] for part in windows[1:]))


def windows_of_data(loaded: Model, folder: Path, split: str, rows: int | None) -> Windows:
    """The rows of a split, as they are."""
    if folder.suffix == ".npy":
        return windows_of_tokens(loaded, folder, rows)
    if folder.is_file():
        raise ValueError(f"{folder} is neither prepared data nor an .npy of tokens; score a text by --text {folder}")
    shards = open_shards(folder)
    ours, theirs = (None if codec is None else codec.to_dict() for codec in (loaded.codec, shards.codec))
    if (shards.vocab, shards.length) != (loaded.process.vocab, loaded.process.length) or ours != theirs:
        raise ValueError(
            f"{folder} has rows of {shards.length} tokens out of {shards.vocab}, the model {loaded.process.length} out of "
            f"{loaded.process.vocab}, or their tokenizers differ; prepare the text as the model's data was"
        )
    tokens = torch.from_numpy(shards.rows(split)[:rows])
    if not len(tokens):
        raise ValueError(f"{folder} has no rows to {split}; name another --split")
    return Windows(tokens, None, None if loaded.text_codec is None else characters(tokens.tolist(), loaded.text_codec))
