"""The paper's loss, its marginal and the dense one: the same network, data and time; the bound against the time.

    python experiments/losses.py --data DATA --out FILE.json [--seconds 60] [--rates 1e-3,3e-3] [--conditionings time,survival]

Every loss is trained at every rate in every conditioning, on the paper's schedule (four sweeps, keep ½). Prints the best run of
each loss, and how much sooner the dense loss was where that run ended. FILE.png shows the curves. Called again it goes on.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import advance, device

from glauber import plots
from glauber.conditional import Transformer, TransformerConfig
from glauber.data import open_shards
from glauber.process import NoiseLaw, Process, Schedule
from glauber.provenance import write_figures
from glauber.train import Trainer, TrainSpec

LEARNED = 0.02  # bits below its beginning, for a run to count
LOSSES = {"binary": "ggm-binary", "marginal": "ggm-marginal", "dense": "ggm"}
"""The method of each, by the names that the figures in docs/results have."""


def curve(args: argparse.Namespace, loss: str, conditioning: str, lr: float) -> dict[str, Any]:
    """One run: the bound in bits per token on held-out rows, at times that grow from one mark to the next."""
    shards, where = open_shards(args.data), device()
    shape = {"width": args.width, "layers": args.layers, "heads": args.heads, "conditioning": conditioning}
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(shards.vocab, shards.length, **shape)).to(where)
    noise = NoiseLaw.unigram(torch.from_numpy(np.array(shards.counts)))
    process = Process(Schedule.round_robin(shards.length, 4 * shards.length, 0.5), noise)
    precision = "bf16" if where.type == "cuda" else "fp32"
    spec = TrainSpec(10**9, args.batch, lr=lr, min_lr=lr / 10, seconds=args.seconds, grad_clip=1.0, precision=precision)
    trainer = Trainer(network, process, shards.rows("train"), spec, LOSSES[loss], compiled=args.compile)
    valid = shards.rows("valid")
    rows = torch.from_numpy(valid[np.arange(min(args.rows, len(valid)))]).to(where)
    points = []
    for mark in args.seconds * np.geomspace(1 / 256, 1, args.marks):
        while trainer.seconds < mark:
            advance(trainer)
        generator = torch.Generator().manual_seed(0)
        nats = trainer.method.bound(trainer.average.network.eval(), trainer.process, rows, 16, generator)
        bits = nats.mean().item() / (math.log(2) * shards.length)
        points.append({"seconds": trainer.seconds, "step": trainer.step, "bits_per_token": bits})
    return {"objective": loss, "conditioning": conditioning, "rate": lr, "curve": points}


def sooner(dense: dict[str, Any], other: dict[str, Any], clock: str = "seconds") -> float:
    """How many times sooner the dense loss was where the other one ended, by seconds or by "step"; nan if it never was."""
    goal, end = other["curve"][-1]["bits_per_token"], other["curve"][-1][clock]
    before = None
    for point in dense["curve"]:
        if point["bits_per_token"] <= goal:
            if before is None:
                return float(end / point[clock])
            a, b = (math.log(p[clock]) for p in (before, point))
            share = (before["bits_per_token"] - goal) / (before["bits_per_token"] - point["bits_per_token"])
            return float(end / math.exp(a + share * (b - a)))
        before = point
    return float("nan")


def best_runs(runs: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Of each loss, conditioned on the time or the survival, the run at its best rate."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        key = run["objective"], run["conditioning"]
        if key not in best or run["curve"][-1]["bits_per_token"] < best[key]["curve"][-1]["bits_per_token"]:
            best[key] = run
    return best


def print_table(runs: list[dict[str, Any]]) -> None:
    """The best run of each loss, and the factors."""
    best = best_runs(runs)
    print("| loss | conditioning | best rate | bits per token | steps | the dense loss was there | in steps |")
    print("|---|---|---|---|---|---|---|")
    for (objective, conditioning), run in sorted(best.items()):
        words, end = ["", ""], run["curve"][-1]
        if objective != "dense" and ("dense", conditioning) in best:
            factors = [sooner(best["dense", conditioning], run, clock) for clock in ("seconds", "step")]
            words = ["never" if math.isnan(factor) else f"{factor:.1f} × sooner" for factor in factors]
        if end["bits_per_token"] > run["curve"][0]["bits_per_token"] - LEARNED:
            words = ["it learned nothing", ""]  # a classifier begins with the law of the noise
        figures = f"{run['rate']:g} | {end['bits_per_token']:.3f} | {end['step']}"
        print(f"| {objective} | {conditioning} | {figures} | {' | '.join(words)} |")


def draw(runs: list[dict[str, Any]]) -> bytes:
    """The curves, in full colour those at the best rates."""
    figure, axes = plots.panels(size=(8.5, 5))
    colours = dict(zip(LOSSES, (plots.RED, plots.ORANGE, plots.BLUE), strict=True))
    best = best_runs(runs)
    for run in sorted(runs, key=lambda run: (list(LOSSES).index(run["objective"]), run["conditioning"])):
        chosen = run is best[run["objective"], run["conditioning"]]
        seconds, bits = zip(*((p["seconds"], p["bits_per_token"]) for p in run["curve"]), strict=True)
        style = "-" if run["conditioning"] == "survival" else "--"
        label = f"{run['objective']}, {run['conditioning']}, rate {run['rate']:g}" if chosen else None
        width, alpha = (2.4, 1.0) if chosen else (1.0, 0.25)
        axes.plot(seconds, bits, style, color=colours[run["objective"]], label=label, linewidth=width, alpha=alpha)
    axes.set(xscale="log", xlabel="seconds of training", ylabel="bound, bits per token")
    axes.legend(title="loss, conditioned on", loc="lower left")
    return plots.png(figure)


def main() -> None:
    """Read the arguments; train what is not there yet; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rates", default="1e-3,3e-3")
    parser.add_argument("--conditionings", default="time,survival")
    parser.add_argument("--losses", default=",".join(LOSSES))
    for name, value in {"width": 128, "layers": 4, "heads": 4, "batch": 256, "rows": 256, "marks": 24}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--compile", action="store_true", help="which pays for a network that is not tiny")
    args = parser.parse_args()
    varied = ("rates", "conditionings", "losses")
    numbers = {name: value for name, value in vars(args).items() if not isinstance(value, Path) and name not in varied}
    shards = open_shards(args.data)
    numbers |= {"data": shards.hash, "length": shards.length}
    before: dict[str, Any] = json.loads(args.out.read_text()) if args.out.is_file() else {"settings": numbers, "runs": []}
    if before["settings"] != numbers:
        raise SystemExit(f"{args.out} holds runs with other settings or data; name another file")
    runs: list[dict[str, Any]] = before["runs"]
    done = {(run["objective"], run["conditioning"], run["rate"]) for run in runs}
    for conditioning in args.conditionings.split(","):
        for objective in args.losses.split(","):
            for rate in map(float, args.rates.split(",")):
                if (objective, conditioning, rate) not in done:
                    runs.append(curve(args, objective, conditioning, rate))
                    write_figures(args.out, {"settings": numbers, "runs": runs})
                    print(objective, conditioning, rate, runs[-1]["curve"][-1], flush=True)
    print_table(runs)
    args.out.with_suffix(".png").write_bytes(draw(runs))


if __name__ == "__main__":
    main()
