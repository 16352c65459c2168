"""How likely a model finds given tokens: the bounds of its method, per token and per character.

A text is cut into windows of L tokens that do not overlap, and its last window may be shorter: the rest of that row is noise
from the first step to the last, so nothing is dropped and nothing is made up.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glauber.codec import Codec, TextCodec, is_image_codec, is_text_codec
from glauber.method import BoundOptions
from glauber.process import Process, as_array
from glauber.process.draws import new_generator
from glauber.sampler import Sampler


class Windows(NamedTuple):
    """Rows to score."""

    tokens: Tensor  # (N, L) int64
    known: Tensor | None = None  # (N, L) bool, the sites that hold a token; all of them if None
    characters: Tensor | None = None  # (N,) how many characters each row decodes to


def windows_of(items: str | Sequence[Any] | Tensor | np.ndarray, codec: Codec | None, process: Process) -> Windows:
    """Texts, cut into windows of L tokens; images, PIL's or (N, H, W); or tokens (N, L)."""
    texts = [items] if isinstance(items, str) else items
    text_codec = codec if is_text_codec(codec) else None
    if not isinstance(texts, Tensor | np.ndarray) and all(isinstance(text, str) for text in texts):
        if text_codec is None:
            raise ValueError("this model has no text codec; give it images or tokens instead")
        return cut(text_codec.encode_batch(texts), text_codec, process.length)
    if not isinstance(items, Tensor) and (images := as_array(items, "what is scored")).ndim > 2:
        if not is_image_codec(codec):
            raise ValueError("this model has no image codec; give it tokens instead")
        return Windows(codec.encode(images))
    tokens = process.check_tokens(items)
    return Windows(tokens, None, None if text_codec is None else characters(tokens.tolist(), text_codec))


def cut(streams: Iterable[Sequence[int]], codec: TextCodec | None, length: int) -> Windows:
    """Each stream of tokens in windows of L, the last of which may be shorter."""
    rows = [list(stream[start : start + length]) for stream in streams for start in range(0, len(stream), length)]
    if not rows:
        raise ValueError("there is nothing to score; give something that is not empty")
    sizes = torch.tensor([len(row) for row in rows])
    tokens = torch.tensor([row + [0] * (length - len(row)) for row in rows], dtype=torch.int64)
    return Windows(tokens, torch.arange(length) < sizes[:, None], None if codec is None else characters(rows, codec))


def characters(rows: Iterable[Sequence[int]], codec: TextCodec) -> Tensor:
    """(N,) how many characters each row decodes to."""
    return torch.tensor([len(codec.decode(row)) for row in rows])


def score_windows(
    sampler: Sampler,
    windows: Windows,
    kernels: Sequence[str],
    draws: int = 8,
    seed: int | None = 0,
    progress: bool = False,
) -> dict[str, dict[str, Any]]:
    """For each kernel, the upper bound in bits per token and per character, with standard errors, and what it cost.

    The kernels share their network calls. A method that is no chain has one bound, under its own name.
    """
    method, process = sampler.method, Process(sampler.schedule, sampler.process.noise)
    if sampler.plan.order is not None:
        raise ValueError(f"the bound of the method {method.name} has no order of sites; leave the order out")
    if draws < 1:
        raise ValueError(f"a bound needs at least one draw per row, not {draws}")
    device = process.noise.probs.device
    x0, known = windows.tokens.to(device), windows.known
    known = None if known is None else known.to(device)
    how = BoundOptions(kernels, draws, known, new_generator(seed), progress)
    with sampler.evaluating():
        bounds = method.bounds(sampler.network, process, x0, how)
    size = torch.full((len(x0),), x0.shape[1]) if known is None else known.sum(1).cpu()
    return {
        name: _figures(name, nats.cpu(), size, windows.characters, bounds.calls) | {"exact": bounds.exact}
        for name, nats in bounds.nats.items()
    }


def _figures(kernel: str, nats: Tensor, tokens: Tensor, characters: Tensor | None, draws: int) -> dict[str, Any]:
    per_token, error = ratio(nats / math.log(2), tokens.double())
    figures: dict[str, Any] = {"bits_per_token": per_token, "standard_error": error}
    if characters is not None and int(characters.sum()):
        per_character, error = ratio(nats / math.log(2), characters.double())
        figures |= {"bits_per_character": per_character, "standard_error_per_character": error}
        figures["characters"] = int(characters.sum())
    return figures | {"tokens": int(tokens.sum()), "rows": len(nats), "kernel": kernel, "calls": draws * len(nats)}


def ratio(bits: Tensor, size: Tensor) -> tuple[float, float]:
    """Σ bits / Σ size over the rows, and its standard error; that of the mean where all rows have the same size."""
    value = bits.sum() / size.sum()
    if len(bits) < 2:
        return value.item(), float("nan")
    spread = ((bits - value * size) ** 2).sum() * len(bits) / (len(bits) - 1)
    return value.item(), (spread.sqrt() / size.sum()).item()
