"""What a minute on one GPU comes to on text8, by optimiser, batch and shares of the rows: bits per character of held-out rows.

    python experiments/text8_minute.py --data text8 --out FILE.json [--seconds 75] [--runs NAME,NAME] [--seeds 0,1]

--data is the folder that text8.py beside it made, or one with its texts behind .xz. Every run has the same network (8 layers of
288, 9 M parameters) and the same time; RUNS below names them. Called again it goes on. Columns: causal, the exact likelihood
from left to right; one sweep in random order with 256 and 16 calls; 16 calls in equal parts from left to right; four sweeps.
"""

import argparse
import json
import lzma
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import advance, device

from glauber.bench.table1.plans import Plan, bound
from glauber.bench.timing import clear
from glauber.conditional import TransformerConfig
from glauber.model import Model
from glauber.provenance import write_figures
from glauber.recipe import ProcessSpec, Recipe
from glauber.runtime.cuda_graph import CudaGraph
from glauber.tasks.score import Windows, score_windows
from glauber.train import TrainSpec
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings
from glauber.train.parallel import ALONE
from glauber.train.recipes import MIXED
from glauber.train.run import fit, new_trainer

LENGTH = 256
RECIPE = Recipe(
    name="text8",
    about="9 M parameters, 27 letters",
    tokens="letters",
    network=TransformerConfig(vocab=27, length=LENGTH, width=288, layers=8, heads=6, cond_dim=64, causal=True),
    process=ProcessSpec(keep="linear", noise="unigram"),
    train=TrainSpec(
        10**9, 256, optimizer="muon", lr=4e-3, warmup=200, precision="bf16", ema_decay=0.99, **MIXED | {"causal_every": 4}
    ),
)
RUNS: dict[str, dict[str, Any]] = {
    "ggm": {},
    "ggm adamw": {"train.optimizer": "adamw", "train.lr": 2e-3},
    "ggm batch 128": {"train.batch": 128},
    "ggm marked 0.6": {"train.marked_fraction": 0.6},
    "ggm marked 0.9": {"train.marked_fraction": 0.9},
    "ggm every 2nd": {"train.causal_every": 2},
    "ggm 2nd then 8th": {"train.causal_every": [[0.0, 2], [0.5, 8]]},
    "ggm 8th then 2nd": {"train.causal_every": [[0.0, 8], [0.5, 2]]},
    "ggm rate 8e-3": {"train.lr": 8e-3},
    "ggm batch 128 marked 0.6": {"train.batch": 128, "train.marked_fraction": 0.6},
    "ggm batch 128 marked 0.9": {"train.batch": 128, "train.marked_fraction": 0.9},
    "ggm every 2nd batch 128 marked 0.9": {"train.batch": 128, "train.marked_fraction": 0.9, "train.causal_every": 2},
    "ggm clean 0.25": {"train.clean_fraction": 0.25},
    "mdlm": {"method": "mdlm"},
    "mdlm batch 128": {"method": "mdlm", "train.batch": 128},
    "ar": {"method": "ar"},
    "ar batch 128": {"method": "ar", "train.batch": 128},
}
"""Settings beyond RECIPE. A list of [share of the run, value] changes a setting during the run."""


class Letters(InMemory):
    """Held as bytes."""

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return super().__getitem__(index).astype(np.int64)


def read_data(folder: Path) -> Data:
    """Rows of letters, 0 for a blank; the training text from its beginning, the held-out rows spread over theirs."""

    def rows(split: str) -> torch.Tensor:
        path = folder / f"{split}.txt"
        content = path.read_bytes() if path.is_file() else lzma.decompress(path.with_suffix(".txt.xz").read_bytes())
        tokens = np.frombuffer(content, np.uint8)
        tokens = np.where(tokens == ord(" "), 0, tokens - ord("a") + 1).astype(np.uint8)
        return torch.from_numpy(tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH))

    train, valid = rows("train"), rows("valid")
    counts = torch.from_numpy(np.bincount(train.numpy().ravel(), minlength=27))
    return Data(Letters(train), Letters(valid), 27, LENGTH, counts, None, "text8")


def trained(plan: Recipe, phases: list[list[Any]], data: Data, seed: int) -> tuple[Model, dict[str, Any]]:
    """A model, and how its training went; with phases, [share, causal_every] from that share of the run on."""
    torch.compiler.reset()
    plan = fit(apply_settings(plan, {"train.seed": seed}), data)
    trainer, process = new_trainer(plan, data, None, lambda words: None, ALONE)
    waiting, losses = list(phases), []
    while not trainer.done:
        if waiting and trainer.progress >= waiting[0][0]:
            trainer.spec = replace(trainer.spec, causal_every=waiting.pop(0)[1])
            if trainer.graphed:
                trainer.change = CudaGraph(trainer._change, trainer.device)
        losses.append(advance(trainer))
    model = Model(trainer.average.network.eval(), process, None, plan.method)
    about = {"steps": trainer.step, "seconds": round(trainer.seconds, 2), "loss": float(np.mean(losses[-20:]))}
    return model, about | {"tokens_per_second": round(trainer.step * plan.train.batch * LENGTH / trainer.seconds)}


PLANS = {
    "causal": Plan(LENGTH, "best"),
    "random 256": Plan(LENGTH, "random"),
    "random 16": Plan(16, "random"),
    "parts 16": Plan(16, "best"),
}
"""Columns of the table, and how a method samples there."""
BOUNDED = {"ggm": tuple(PLANS), "mdlm": tuple(PLANS)[1:], "ar": ("causal",)}
"""Which of them each method has."""


def figures(model: Model, method: str, rows: torch.Tensor) -> dict[str, float]:
    """Bits per character, by the plan of sampling."""
    windows, found = Windows(rows, None, torch.full((len(rows),), LENGTH)), {}
    for name in BOUNDED[method]:
        bits = bound(model, PLANS[name], windows)
        assert bits is not None
        found[name] = round(bits["bits_per_char"], 4)
    if model.method.can.any_schedule:
        (four,) = score_windows(model.sampler(), windows, ("reversal",), 64).values()
        found["four sweeps"] = round(four["bits_per_character"], 4)
    return found


def line(name: str, run: dict[str, Any]) -> str:
    """Of the table."""
    columns = ("causal", "random 256", "random 16", "parts 16", "four sweeps")
    cells = " | ".join(f"{run['bits'][c]:.3f}" if c in run["bits"] else "" for c in columns)
    return f"| {name} | {run['seed']} | {cells} | {run['steps']:,} | {run['tokens_per_second'] / 1e6:.2f} M |"


def main() -> None:
    """Read the arguments; train what is not there yet; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--limit", type=float, default=math.inf, help="begin no run after so many seconds")
    parser.add_argument("--set", action="append", default=[], help="another setting of all runs, e.g. network.width=64")
    args = parser.parse_args()
    began, data = time.perf_counter(), read_data(args.data)
    common = {"train.seconds": args.seconds} | {k: json.loads(v) for k, v in (word.split("=") for word in args.set)}
    spread = np.linspace(0, len(data.valid) - 1, args.rows).astype(int)
    rows = torch.from_numpy(data.valid[spread])
    made: dict[str, Any] = json.loads(args.out.read_text()) if args.out.is_file() else {"runs": {}}
    for seed in map(int, args.seeds.split(",")):
        for name in args.runs.split(","):
            key = f"{name}, seed {seed}"
            if key in made["runs"] or time.perf_counter() - began > args.limit:
                continue
            settings = RUNS[name] | common
            every = settings.get("train.causal_every")
            phases = every if isinstance(every, list) else []
            plan = apply_settings(RECIPE, settings | ({"train.causal_every": phases[0][1]} if phases else {}))
            clear(device())
            model, about = trained(plan, phases, data, seed)
            bits = figures(model, settings.get("method", "ggm"), rows)
            made["runs"][key] = {"settings": RUNS[name], "seed": seed, **about, "bits": bits}
            write_figures(args.out, made)
            print(line(name, made["runs"][key]), f"{time.perf_counter() - began:.0f} s", flush=True)
    print("| run | seed | causal | random, 256 calls | random, 16 | parts, 16 | four sweeps | steps | tokens/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for key, run in made["runs"].items():
        print(line(key.rpartition(",")[0], run))


if __name__ == "__main__":
    main()
