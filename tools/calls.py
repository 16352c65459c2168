"""Which chain is best for a budget of network calls: samples of a language model by many schedules, for the judge.

    python tools/calls.py --model novels --out OUT [--number 64]
    python tools/language.py judge --data DATA --test TEST.txt --out OUT --train TRAIN.txt --judge MODEL

The first goes on after an interruption, and so does the second, whose table it then is.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from language import keep_samples, low_precision

from glauber import Counted, Model, Process, Schedule, load, run_chain
from glauber.conditional import Denoiser

PARTS = (16, 8, 4, 2, 1, 0.5)  # budgets: L over these
SWEEPS = (1, 2, 4)
ORDERS = ("strided", "onward", "random")


class Way(NamedTuple):
    """A chain for a budget."""

    name: str
    schedule: Schedule
    options: dict[str, Any]


def ways(L: int) -> Iterator[Way]:
    """One to four sweeps in blocks that keep to the budget, in three orders, noise labelled or not, with both kernels."""
    for part in PARTS:
        calls = int(L / part)
        for sweeps in SWEEPS:
            if sweeps * L % calls or sweeps * L < calls:
                continue
            block = sweeps * L // calls
            for order in ORDERS if block > 1 else ("right", "random"):
                generator = torch.Generator().manual_seed(0)
                schedule = Schedule.round_robin(L, sweeps * L, "linear", order, block, generator=generator)
                # With one sweep noise is told apart anyway, and no token is kept.
                for options in ({}, {"labels": True}, {"kernel": "reversal"})[: 1 if sweeps == 1 else 3]:
                    how = " ".join(["labelled" if "labels" in options else "", str(options.get("kernel", ""))]).strip()
                    yield Way(f"calls {calls}, {sweeps} sweeps, {order}, block {block} {how}".strip(), schedule, options)


def draw(model: Model, way: Way, out: Path, number: int) -> None:
    """The samples of a way, unless they are there."""
    folder = out / "samples"
    if (folder / way.name.replace(" ", "_") / "00000.json").is_file():
        return
    began, counted = time.perf_counter(), Counted(Denoiser(model.network))
    process = Process(way.schedule, model.process.noise).to(model.device)
    with low_precision(model):
        x = run_chain(counted, process, number, generator=torch.Generator().manual_seed(0), **way.options)
    keep_samples(folder, way.name, 0, x, counted.rows / number, began)


def main() -> None:
    """Read the arguments; sample every way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="novels")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--number", type=int, default=64)
    args = parser.parse_args()
    model = load(args.model, "cuda" if torch.cuda.is_available() else "cpu")
    for way in ways(model.process.length):
        draw(model, way, args.out, args.number)


if __name__ == "__main__":
    main()
