"""How likely a model finds given tokens: both bounds of `evaluate.bounds`, per token and per character.

A text is cut into windows of L tokens that do not overlap, and its last window may be shorter: the rest of that row is noise
from the first step to the last, so nothing is dropped and nothing is made up.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from glauber.chain.bounds import row_bounds
from glauber.codec import TextCodec
from glauber.conditional import CausalConditional
from glauber.method import DIFFUSIONS
from glauber.process import Process
from glauber.tasks.infill import new_generator

if TYPE_CHECKING:
    from glauber.model import Model


class Windows(NamedTuple):
    """Rows to score."""

    tokens: Tensor  # (N, L) int64
    known: Tensor | None = None  # (N, L) bool, the sites that hold a token; all of them if None
    characters: Tensor | None = None  # (N,) how many characters each row decodes to


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
    model: "Model",
    windows: Windows,
    kernels: Sequence[str],
    draws: int = 8,
    seed: int | None = 0,
    sweeps: int | None = None,
    block: int | None = None,
    order: str | None = None,
    progress: bool = False,
) -> dict[str, dict[str, Any]]:
    """For each kernel, the upper bound in bits per token and per character, with standard errors, and what it cost.

    The kernels share their network calls.
    """
    if draws < 1:
        raise ValueError(f"a bound needs at least one draw per row, not {draws}")
    if model.objective == "masked":
        raise ValueError(
            "Gibbs sampling never becomes noise, so a masked language model has no bound; judge its samples instead"
        )
    if model.objective in DIFFUSIONS:
        if any(option is not None for option in (sweeps, block, order)):
            raise ValueError(f"the bound of the method {model.objective} has no sweeps, block or order; leave them out")
        return {model.objective: _diffused(model, windows, draws, seed)}
    process = Process(model.schedule(sweeps, block, order), model.process.noise)
    x0, known = windows.tokens.to(model.device), windows.known
    known = None if known is None else known.to(model.device)
    conditional = model.conditional_for(process)
    draws = 1 if isinstance(conditional, CausalConditional) else draws  # it needs no more
    with model.evaluating():
        rows = row_bounds(conditional, process, x0, kernels, draws, new_generator(seed), known, progress)
    size = torch.full((len(x0),), x0.shape[1]) if known is None else known.sum(1).cpu()
    found = {}
    for name, nats in zip(kernels, rows, strict=True):
        figures = _figures(name, nats.cpu(), size, windows.characters, draws)
        found[name] = figures | {"exact": isinstance(conditional, CausalConditional)}
    return found


def _diffused(model: "Model", windows: Windows, draws: int, seed: int | None) -> dict[str, Any]:
    """By the bound of a method that is no chain, which is of whole windows."""
    x0 = windows.tokens.to(model.device)
    if windows.known is not None and not bool(windows.known.all()):
        raise ValueError(
            f"the method {model.objective} scores whole windows of {x0.shape[1]} tokens; take as many as there are with --rows"
        )
    with model.evaluating():
        nats = DIFFUSIONS[model.objective].bound(model.network, model.process, x0, draws, new_generator(seed))
    size, calls = torch.full((len(x0),), x0.shape[1]), DIFFUSIONS[model.objective].bound_calls(draws)
    return _figures(model.objective, nats.cpu(), size, windows.characters, calls) | {"exact": False}


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
