"""What `score` reads, and how it tells what it found."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glauber.data import Sources, open_shards, open_tokens
from glauber.model import Model
from glauber.runtime.memory import require_memory
from glauber.tasks.score import Windows, characters, cut

KINDS = ("reversal", "heat-bath")


def windows_of_file(loaded: Model, path: Path, rows: int | None) -> Windows:
    """Documents, each with its end, one after the other as `prepare` packs them."""
    codec, length = loaded.require_text_codec(), loaded.process.length
    stream: list[int] = []
    for piece in Sources([str(path)]).pieces():
        stream += codec.encode(str(piece.data)) + ([codec.end] if piece.ends else [])
        if rows is not None and len(stream) >= rows * length:
            break
    return cut([stream[: None if rows is None else rows * length]], codec, length)


def windows_of_tokens(loaded: Model, path: Path, rows: int | None) -> Windows:
    """The rows of an .npy, or a single one, each in windows of L."""
    tokens, length = open_tokens(path), loaded.process.length
    most = None if rows is None else rows if tokens.ndim == 2 else rows * length
    tokens = np.atleast_2d(tokens[:most])
    require_memory(64.0 * tokens.size, f"a score of the {tokens.size:,} tokens in {path}", "take some of them with --rows")
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


def only_bounds(figures: dict[str, Any]) -> dict[str, float | None]:
    """The bounds and their standard errors; None for the error of a single window."""
    wanted = [name for name in figures if name.startswith(("bits", "standard", "exact"))]
    return {name: None if math.isnan(figures[name]) else figures[name] for name in wanted}


def print_score(result: dict[str, Any]) -> None:
    """A small table."""

    def figure(bound: dict[str, Any], key: str, error: str) -> str:
        if key not in bound:
            return ""
        return f"{bound[key]:.3f}" + ("" if bound[error] is None else f" ± {bound[error]:.3f}")

    counted = f", {result['characters']:,} characters" if "characters" in result else ""
    print(f"{result['rows']:,} windows of {result['length']} tokens: {result['tokens']:,} tokens{counted}")
    exact = all(bound["exact"] for bound in result["bounds"].values())  # by either kernel, then
    print(f"{'in bits' if exact else 'at most, in bits':<18}{'per token':<18}{'per character' if counted else ''}".rstrip())
    for name, bound in [("exactly", *list(result["bounds"].values())[:1])] if exact else result["bounds"].items():
        per_token = figure(bound, "bits_per_token", "standard_error")
        per_character = figure(bound, "bits_per_character", "standard_error_per_character")
        print(f"{name:<18}{per_token:<18}{per_character}".rstrip())
    each = result["calls"] // result["rows"]
    print(f"{result['calls']:,} network calls, {each} per window, out of a chain's {result['steps'] // result['block']:,}")
