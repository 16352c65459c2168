"""Which chain is best for a budget of network calls: samples of a language model by many schedules, for the judge.

    python experiments/calls.py --model novels --out OUT [--number 64]
    python experiments/language.py judge --data DATA --test TEST.txt --out OUT --train TRAIN.txt --judge MODEL
    python experiments/calls.py --out OUT --table

The first goes on after an interruption, and so does the second. The third prints the table, keeps its figures in OUT/calls.json
and draws OUT/calls.png: quality against calls, and against seconds.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from language import keep_samples
from shared import device, low_precision

from glauber import CallCounter, Model, Process, Schedule, load, plots, run_chain
from glauber.conditional import Denoiser
from glauber.provenance import write_figures
from glauber.runtime.runners import cuda_runner

PARTS = (16, 8, 4, 2, 1, 0.5)  # budgets: L over these
SWEEPS = (1, 2, 4)
ORDERS = ("strided", "segments", "random")
OLDER = {"left-to-right": "segments", "right": "segments", "onward": "segments"}
"""Orders by the names that the figures of other days have; blocks of one site from left to right are segments of one site."""
NAMES = {"random": "random", "strided": "strided", "segments": "in parts"}
FIGURES = ("perplexity", "perplexity_paper")


class Plan(NamedTuple):
    """A chain for a budget."""

    name: str
    schedule: Schedule
    options: dict[str, Any]
    polish: int = 0
    """How many calls to draw the doubtful sites anew; none if 0."""


def plans(L: int) -> Iterator[Plan]:
    """One to four sweeps in blocks that keep to the budget, in three orders, noise marked or not, with both kernels."""
    for part in PARTS:
        calls = int(L / part)
        for sweeps in SWEEPS:
            if sweeps * L % calls or sweeps * L < calls:
                continue
            block = sweeps * L // calls
            for order in ORDERS if block > 1 else ("left-to-right", "random"):
                generator = torch.Generator().manual_seed(0)
                schedule = Schedule.round_robin(L, sweeps * L, "linear", order, block, generator=generator)
                # With one sweep noise can be recognised anyway, and no token is kept.
                for options in ({}, {"mark_noise": True}, {"kernel": "reversal"})[: 1 if sweeps == 1 else 3]:
                    how = " ".join(["marked" if "mark_noise" in options else "", str(options.get("kernel", ""))]).strip()
                    yield Plan(f"calls {calls}, {sweeps} sweeps, {order}, block {block} {how}".strip(), schedule, options)
                if sweeps == 2 and order == "segments":
                    name = f"calls {calls}, 2 sweeps, segments, block {block} first marked"
                    yield Plan(name, schedule, {"mark_noise": "first"})
        if part > 2:  # half of the budget for all sites, a quarter to draw the doubtful ones anew
            schedule = Schedule.round_robin(L, L, "linear", "segments", 2 * L // calls)
            yield Plan(f"calls {calls}, 1 sweeps, segments, block {2 * L // calls} polished", schedule, {}, calls // 4)


def run(model: Model, counted: CallCounter, plan: Plan, number: int) -> torch.Tensor:
    """The samples of a plan."""
    process = Process(plan.schedule, model.process.noise).to(model.device)
    generator, L = torch.Generator().manual_seed(0), plan.schedule.length
    if plan.options.get("mark_noise") != "first":
        x = run_chain(counted, process, number, generator=generator, **plan.options, _runner=cuda_runner)
        return x if not plan.polish else polished(model, counted, x, plan.polish, generator)
    x = run_chain(counted, process, number, generator=generator, mark_noise=True, stop=L, _runner=cuda_runner)
    noise = process.noise.sample(x.shape, generator)
    start = torch.where(x == process.noise.mask, noise, x), L
    return run_chain(counted, process, start=start, generator=generator, _runner=cuda_runner)


def polished(model: Model, counted: CallCounter, x: torch.Tensor, calls: int, generator: torch.Generator) -> torch.Tensor:
    """The rows, with the eighth of their sites whose tokens the network doubts most drawn anew, given the others."""
    L = x.shape[1]
    survival = torch.full(x.shape, 7 / 8, dtype=torch.float64, device=x.device)  # as if so many were still right
    law = model.network(x, torch.zeros_like(x[:, 0]), survival).log_softmax(-1)
    counted.calls, counted.rows = counted.calls + 1, counted.rows + len(x)
    doubtful = law.gather(-1, x[..., None]).squeeze(-1).argsort(1)[:, : L // 8]
    sure = torch.ones_like(x, dtype=torch.bool).scatter(1, doubtful, False)
    process = Process(Schedule.round_robin(L, L, 0.0, "segments", L // calls), model.process.noise).to(model.device)
    return run_chain(counted, process, len(x), clamp=(sure, x), generator=generator, _runner=cuda_runner)


def draw(model: Model, plan: Plan, out: Path, number: int) -> None:
    """Keep the samples of a plan, unless they are there."""
    folder = out / "samples"
    if (folder / plan.name.replace(" ", "_") / "00000.json").is_file():
        return
    began, counted = time.perf_counter(), CallCounter(Denoiser(model.network))
    with torch.no_grad(), low_precision(model):
        x = run(model, counted, plan, number)
    keep_samples(folder, plan.name, 0, x, counted.rows / number, began)


class Row(NamedTuple):
    """The scores of a plan."""

    budget: int
    kind: str
    calls: float
    seconds: float
    perplexity: float
    entropy: float


def collect(out: Path) -> dict[str, Any]:
    """The main scores of all plans and of real text; kept in OUT/calls.json."""

    def short(side: dict[str, Any]) -> dict[str, Any]:
        judge = {name: side["judges"][0][name] for name in FIGURES}
        return {"number": side["number"], **judge, "entropy": side["entropy"], "distinct": side["distinct"]}

    parts = [json.loads(file.read_text()) for file in (out / "samples").glob("*/00000.json")]
    seconds = {part["name"]: part["seconds"] for part in parts}
    found = json.loads((out / "language.json").read_text())["samples"]
    rows = [
        {"name": name, "calls": report["calls"], "seconds": seconds[name], **short(report["samples"])}
        for name, report in found.items()
    ]
    figures = {"real": short(next(iter(found.values()))["reference"]), "rows": rows}
    write_figures(out / "calls.json", figures)
    return figures


def scored(figures: dict[str, Any]) -> list[Row]:
    """All plans."""
    rows = []
    for row in figures["rows"]:
        budget, sweeps, order, block = row["name"].removeprefix("calls ").split(", ")
        order = OLDER.get(order, order)
        kind = f"{sweeps}, {order}, {' '.join(block.split()[2:])}".strip(", ").replace("1 sweeps", "1 sweep")
        rows.append(Row(int(budget), kind, row["calls"], row["seconds"], row["perplexity"], row["entropy"]))
    return rows


def print_table(rows: list[Row], real: float) -> None:
    """What docs/sampling.md shows: the perplexity by kind of chain and budget."""
    budgets = sorted({row.budget for row in rows})
    print(f"| | {' | '.join(map(str, budgets))} |\n|---|{'---:|' * len(budgets)}")
    for kind in sorted({row.kind for row in rows}, key=lambda kind: min(row.perplexity for row in rows if row.kind == kind)):
        cells = {row.budget: f"{row.perplexity:.0f}" for row in rows if row.kind == kind}
        print(f"| {kind} | {' | '.join(cells.get(budget, '') for budget in budgets)} |")
    print(f"entropy {min(row.entropy for row in rows):.2f} to {max(row.entropy for row in rows):.2f}; real text {real:.1f}")


def draw_table(rows: list[Row], real: float) -> bytes:
    """The same as a picture."""
    figure, (of_calls, of_seconds) = plots.panels(1, 2, size=(10, 4.2), sharey=True)
    looks = {"random": (plots.GREY, "s"), "strided": (plots.BLUE, "^"), "segments": (plots.RED, "o")}
    for order, (colour, marker) in looks.items():
        for polish in (False, True):
            chosen = [row for row in rows if order in row.kind and ("polished" in row.kind) == polish]
            name = NAMES[order] + ", polished" * polish
            look = {"color": colour, "marker": "*" if polish else marker, "s": 110 if polish else 28, "label": name}
            for axes, across in ((of_calls, "calls"), (of_seconds, "seconds")) if chosen else ():
                axes.scatter([getattr(row, across) for row in chosen], [row.perplexity for row in chosen], **look)
    for axes in (of_calls, of_seconds):
        axes.axhline(real, color=plots.INK, linewidth=1.2, linestyle=":", label="real text")
        axes.set(xscale="log", yscale="log")
    plots.plain_ticks(of_calls.xaxis, [16, 32, 64, 128, 256, 512])
    plots.plain_ticks(of_calls.yaxis, [50, 100, 200, 500, 1000])
    plots.plain_ticks(of_seconds.xaxis, [0.2, 0.5, 1, 2, 5])
    of_calls.set(xlabel="network calls of a sample", ylabel="judge's perplexity")
    of_seconds.set_xlabel("seconds of all samples of a chain")
    of_seconds.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return plots.png(figure)


def main() -> None:
    """Read the arguments; sample by every plan, or show the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="novels")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--number", type=int, default=64)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        figures = collect(args.out)
        rows, real = scored(figures), figures["real"]["perplexity"]
        print_table(rows, real)
        (args.out / "calls.png").write_bytes(draw_table(rows, real))
        return
    model = load(args.model, device())
    for plan in plans(model.process.length):
        draw(model, plan, args.out, args.number)


if __name__ == "__main__":
    main()
