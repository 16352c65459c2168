"""Sudoku filled in by every method: trained on solved grids, given the givens.

    python experiments/sudoku_puzzles.py --out sudoku
    python experiments/sudoku.py train sudoku runs [--seconds 600] [--set train.batch=64]
    python experiments/sudoku.py evaluate sudoku runs --out sudoku.json [--number 1000]
    python experiments/sudoku.py film sudoku runs --out sudoku.gif

All methods have the same network and time. AR has rows of twice the length: a puzzle, with a token of its own for a free cell,
and then the grid. Its training puzzles are the training grids with random cells set free, as many givens as in all classes. GGM
and MDLM clamp the givens exactly; UDLM gets them back after each step.

Columns: the share of puzzles that are solved exactly, the share of free cells that are right, and the mean network calls.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import PATH, TRAINED, device, low_precision, run_command
from sudoku_picture import draw
from sudoku_puzzles import CLASSES
from sudoku_samplers import Filled, certain_first, udlm_with_givens
from torch import Tensor

from glauber.codec import NamedCodec, use_codec
from glauber.conditional import TransformerConfig
from glauber.method import Run, find_method
from glauber.model import Model, load
from glauber.pictures import save_gif
from glauber.process.draws import new_generator
from glauber.provenance import write_figures
from glauber.recipe import ProcessSpec, Recipe
from glauber.runs import is_run
from glauber.runtime.progress import watched
from glauber.sampler import evaluating
from glauber.train import TrainSpec
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings, parse_settings
from glauber.train.run import run

METHODS = ("ggm", "mdlm", "udlm", "ar")
SWEEPS = (1, 2, 4, 8, 16, 32, 64)
RECIPE = Recipe(
    name="sudoku",
    about="solved grids, a token a cell",
    tokens="digits",
    network=TransformerConfig(9, 81, width=256, layers=8, heads=8, grid=(9, 9), learned_positions=True, cond_dim=64),
    process=ProcessSpec(keep="linear"),
    train=TrainSpec(
        10**7, 512, lr=2e-3, warmup=500, grad_clip=1.0, clean_fraction=0.5, marked_fraction=0.3, precision="bf16", samples=0
    ),
)


def train(data: Path, out: Path, seconds: float, settings: list[str]) -> None:
    """A model of each method."""
    for method in METHODS:
        changes = {"method": method, "train.seconds": seconds, **parse_settings(settings)}
        folder = out / method
        if not (folder / "model").is_dir():
            run(apply_settings(RECIPE, changes), rows_of(data, method), folder, resume=is_run(folder))


def codec_of(data: Path) -> NamedCodec:
    """That of the grids in these files."""
    side = round(len((data / "valid.txt").read_text().split()[0]) ** 0.5)
    return use_codec(f"sudoku_codec:Grid{side}")


def rows_of(data: Path, method: str) -> Data:
    """Solved grids as tokens from 0; for a causal method behind a puzzle."""
    codec = codec_of(data)
    train, valid = (codec.encode(data / f"{split}.txt")[""] for split in ("train", "valid"))
    said = f"sudoku {method} {len(train)} {int((train * torch.arange(train.shape[1])).sum())}"
    causal = find_method(method).resolve(RECIPE).network.causal  # it sees no given that stands behind a cell
    if causal:
        train, valid = (behind_puzzle(rows, codec.vocab, seed) for seed, rows in enumerate((train, valid)))
    V = codec.vocab + causal
    counts = train.flatten().bincount(minlength=V)
    return Data(InMemory(train), InMemory(valid), V, train.shape[1], counts, None if causal else codec, said)


def digits(lines: list[str]) -> np.ndarray:
    """(N, L) of lines of digits."""
    return np.array([[int(digit) for digit in line] for line in lines])


def behind_puzzle(rows: Tensor, side: int, seed: int) -> Tensor:
    """(N, 2L): each grid with random cells set free, and then the grid itself."""
    generator = torch.Generator().manual_seed(seed)
    least, most = min(low for low, _ in CLASSES[_box(side)].values()), max(high for _, high in CLASSES[_box(side)].values())
    givens = torch.randint(least, most + 1, (len(rows), 1), generator=generator)
    kept = torch.rand(rows.shape, generator=generator).argsort(1).argsort(1) < givens
    return torch.cat([torch.where(kept, rows, side), rows], 1)


def _box(side: int) -> int:
    return math.isqrt(side)


def read_puzzles(file: Path, number: int) -> tuple[Tensor, Tensor]:
    """Which cells are given, (N, L) bool, and the solutions."""
    pairs = [line.split() for line in file.read_text().splitlines()[:number]]
    free, whole = (torch.from_numpy(digits(list(part))) for part in zip(*pairs, strict=True))
    return free > 0, whole - 1


Fill = Callable[[Tensor, Tensor], Filled]


def plans(models: dict[str, Model], sweeps: tuple[int, ...] = SWEEPS) -> Iterator[tuple[dict[str, Any], Fill]]:
    """Everything that fills a puzzle in, and what to say of it."""
    L = models["ggm"].process.length
    yield {"method": "ar", "order": "raster"}, lambda given, tokens: after_puzzle(models["ar"], given, tokens)
    yield {"method": "mdlm", "order": "random"}, by_chain(models["mdlm"], {"gaps": True})
    yield {"method": "mdlm", "order": "certain"}, by_certainty(models["mdlm"], 1, 1)
    yield {"method": "udlm"}, lambda given, tokens: udlm_with_givens(models["udlm"], given, tokens, L, new_generator(0))
    for number in sweeps:
        for kernel, marked in (("heat-bath", False), ("reversal", False), ("heat-bath", True)):
            said = {"sweeps": number, "kernel": kernel, "mark_noise": marked}
            chain = by_chain(models["ggm"], {"order": "random", "gaps": True, **said})
            yield {"method": "ggm", "order": "random", **said}, chain
        yield {"method": "ggm", "order": "certain", "sweeps": number}, by_certainty(models["ggm"], number, 1)


def by_chain(model: Model, options: dict[str, Any]) -> Fill:
    """The library's own chain, with the givens clamped."""

    def fill(given: Tensor, tokens: Tensor) -> Filled:
        found = model.sampler(**options).draw(len(given), Run(new_generator(0), clamp=(given, tokens)))
        return Filled(found.tokens, found.calls)

    return fill


def by_certainty(model: Model, sweeps: int, block: int) -> Fill:
    """`certain_first`, in the model's own precision."""

    def fill(given: Tensor, tokens: Tensor) -> Filled:
        with evaluating(model.network), low_precision(model):
            return certain_first(model, given, tokens, sweeps, block, new_generator(0))

    return fill


def after_puzzle(model: Model, given: Tensor, tokens: Tensor) -> Filled:
    """AR: the puzzle is the beginning of the row."""
    L, blank = tokens.shape[1], model.process.vocab - 1
    start = torch.cat([torch.where(given, tokens, blank), tokens], 1)
    prefix = torch.arange(2 * L, device=tokens.device) < L
    found = model.sampler(gaps=True).draw(len(given), Run(new_generator(0), clamp=(prefix, start)))
    return Filled(found.tokens[:, L:], float(L))


def score(filled: Filled, given: Tensor, tokens: Tensor) -> dict[str, float]:
    """Shares of puzzles solved and of free cells right."""
    right = (filled.tokens.cpu() == tokens.cpu()) | given.cpu()
    return {
        "solved": right.all(1).double().mean().item(),
        "cells": right[~given.cpu()].double().mean().item(),
        "calls": filled.calls,
    }


def evaluate(data: Path, runs: Path, out: Path, number: int, sweeps: str) -> None:
    """Every plan on every class."""
    codec_of(data)  # which the models then find
    models = {method: load(runs / method, device()) for method in METHODS}
    chosen = tuple(int(word) for word in sweeps.split(","))
    kinds = [file.stem for file in (data / f"{kind}.txt" for kind in CLASSES[3]) if file.is_file()]
    asked = [(kind, *plan) for kind in kinds for plan in plans(models, chosen)]
    result: dict[str, Any] = {"number": number, "rows": []}
    for kind, said, fill in watched(iter(asked), True, len(asked), "evaluate", "row"):
        given, tokens = (part.to(device()) for part in read_puzzles(data / f"{kind}.txt", number))
        result["rows"].append({"class": kind, **said, **score(fill(given, tokens), given, tokens)})
        write_figures(out, result)


def film(data: Path, runs: Path, out: Path, kind: str, sweeps: int) -> None:
    """The first puzzle of a class, filled in by a chain: wrong cells turn right."""
    codec_of(data)
    model = load(runs / "ggm", device())
    given, tokens = read_puzzles(data / f"{kind}.txt", 1)
    seen: list[Tensor] = []
    sampler = model.sampler(sweeps=sweeps, order="random", gaps=True)
    sampler.draw(1, Run(new_generator(0), clamp=(given, tokens), on_step=lambda t, x: seen.append(x[0].cpu())))
    frames = [draw(state, given[0], tokens[0], model.process.vocab) for state in _thinned(seen)]
    save_gif(frames, out)


def _thinned(states: list[Tensor], most: int = 120) -> list[Tensor]:
    """Those that differ from the one before, evenly spaced, and the last one."""
    changed = [states[0], *(b for a, b in pairwise(states) if not torch.equal(a, b))]
    chosen = [changed[k * len(changed) // min(most, len(changed))] for k in range(min(most, len(changed)))]
    return [*chosen, states[-1]]


def main() -> None:
    """The command line."""
    folders: dict[str, dict[str, Any]] = {"data": PATH, "runs": PATH, "--out": PATH | {"required": True}}
    run_command(
        __doc__,
        {
            train: TRAINED,
            evaluate: folders
            | {"--number": {"type": int, "default": 1000}, "--sweeps": {"default": ",".join(map(str, SWEEPS))}},
            film: folders | {"--kind": {"default": "medium"}, "--sweeps": {"type": int, "default": 8}},
        },
    )


if __name__ == "__main__":
    main()
