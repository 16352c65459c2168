"""The language table: the bundled recipe, its AR baseline, Gibbs sampling with a masked language model, real text.

    python experiments/language.py card --data DATA --test TEST.txt --out OUT [--seconds 240]
    python experiments/language.py judge --data DATA --test TEST.txt --out OUT --train TRAIN.txt --judge LM [--features ENCODER]

`card` trains each method for the same time and samples from it, on a GPU if there is one; `judge` scores what it left.
Either may be interrupted: called again it goes on from where it was. DATA is what `glauber prepare` made of the training text.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import low_precision, trained

from glauber import Model, Process, Schedule, plots
from glauber.bench.table1.folder import held_out
from glauber.chain import CallCounter, run_chain
from glauber.conditional import CausalConditional, Denoiser
from glauber.data import open_shards
from glauber.evaluate.infill import evaluate_fills, read_fills
from glauber.evaluate.judge import Judge
from glauber.evaluate.text import Texts, evaluate_texts, passages, read_texts
from glauber.method import gibbs_process
from glauber.method.ggm import causal_process
from glauber.provenance import write_figures
from glauber.runtime.files import write
from glauber.runtime.runners import cuda_runner
from glauber.tasks.score import Windows, characters, score_windows
from glauber.train.data import shards_data

PASSAGE = 825  # characters of real text, about 256 tokens
ROWS = 256  # sampled at once; an interruption costs no more
SWEEPS = {1: 256, 2: 256, 4: 64, 8: 64, 16: 32, 32: 32, 64: 32, 128: 32}  # and how many samples of each


Draw = Callable[[int, torch.Generator], tuple[torch.Tensor, float]]
"""(rows, generator) → tokens and network calls of a sample."""


def chain(model: Model, process: Process, causal: bool = False, **options: Any) -> Draw:
    """Samples by a chain of this process; with `causal`, by the causal conditional."""

    def draw(rows: int, generator: torch.Generator) -> tuple[torch.Tensor, float]:
        counted = CallCounter(CausalConditional(model.network) if causal else Denoiser(model.network))
        x = run_chain(counted, process.to(model.device), rows, generator=generator, **options, _runner=cuda_runner)
        return x, counted.rows / rows

    return draw


def ar_chains(model: Model) -> dict[str, Draw]:
    """Of the AR baseline."""
    return {
        "ar": chain(model, model.process, causal=True),
        "ar top-p 0.9": chain(model, model.process, causal=True, top_p=0.9),
    }


def ggm_chains(model: Model) -> dict[str, Draw]:
    """One causal sweep, the paper's chain, and chains of many sweeps."""
    noise, L = model.process.noise, model.process.length
    causal = causal_process(model.process)
    made = {
        "novels": chain(model, causal, causal=True),
        "novels top-p 0.9": chain(model, causal, causal=True, top_p=0.9),
        "paper's chain": chain(model, Process(Schedule.round_robin(L, 4 * L, 0.5), noise)),
    }
    for k in SWEEPS:
        made[f"chain {k}"] = chain(model, Process(Schedule.round_robin(L, k * L, "linear", "left-to-right"), noise))
    return made


def is_curve(name: str) -> bool:
    """Whether it is one of many sets with few samples."""
    return name.startswith(("chain ", "gibbs ", "calls "))


def keep_samples(folder: Path, name: str, part: int, tokens: torch.Tensor, calls: float, began: float) -> None:
    """A file of samples."""
    seconds = time.perf_counter() - began
    path = folder / name.replace(" ", "_") / f"{part:05d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"name": name, "calls": calls, "seconds": seconds, "tokens": tokens.tolist()}).encode())
    print(f"{name}: {part + len(tokens)}, {calls:.0f} calls each, {seconds:.1f} s", flush=True)


def sample(draws: dict[str, Draw], model: Model, folder: Path, number: int) -> None:
    """`number` samples by each chain, in files of ROWS rows; fewer of many sweeps."""
    for name, draw in draws.items():
        wanted = min(number, SWEEPS[int(name.split()[1])]) if is_curve(name) else number
        for part in range(0, wanted, ROWS):
            if (folder / name.replace(" ", "_") / f"{part:05d}.json").is_file():
                continue
            began = time.perf_counter()
            with low_precision(model):
                tokens, calls = draw(min(ROWS, wanted - part), torch.Generator().manual_seed(part))
            keep_samples(folder, name, part, tokens, calls, began)


def gibbs(model: Model, folder: Path, number: int) -> None:
    """Gibbs sampling knows no time, so one chain passes through the samples of every number of sweeps; its rows grow fewer."""
    if (folder / f"gibbs_{max(SWEEPS)}" / "00000.json").is_file():
        return
    V, L, began = model.process.vocab, model.process.length, time.perf_counter()
    x = gibbs_process(V, L, 1).noise.sample((number, L), torch.Generator().manual_seed(0)).to(model.device)
    done = 0
    for sweeps, wanted in SWEEPS.items():
        x, process = x[:wanted], gibbs_process(V, L, sweeps - done).to(model.device)
        with low_precision(model):
            x = run_chain(
                Denoiser(model.network),
                process,
                start=(x, process.schedule.steps),
                generator=torch.Generator().manual_seed(sweeps),
                _runner=cuda_runner,
            )
        done = sweeps
        keep_samples(folder, f"gibbs {sweeps}", 0, x, float(sweeps * L), began)


def fill(model: Model, rows: torch.Tensor, folder: Path) -> None:
    """The middle quarter of each row filled in, exactly clamped and by the paper's rule, on two schedules."""
    L = rows.shape[1]
    given = torch.ones(L, dtype=torch.bool)
    given[3 * L // 8 : 5 * L // 8] = False
    schedules = {  # the names are those of the figures in docs/results
        "four_sweeps": Schedule.round_robin(L, 4 * L, 0.5, "left-to-right", last_keep=0.0),
        "reading": Schedule.round_robin(L, L, 0.0, "left-to-right"),
    }
    plans = {f"{name}_{rule}": (schedule, rule) for name, schedule in schedules.items() for rule in ("exact", "paper")}
    for name, (schedule, rule) in plans.items():
        path = folder / f"{name}.jsonl"
        if path.is_file():
            continue
        process, filled = Process(schedule, model.process.noise).to(model.device), list[list[int]]()
        for part in torch.split(rows, ROWS):
            generator, clamp = torch.Generator().manual_seed(len(filled)), (given.expand(part.shape), part)
            with low_precision(model):
                x = run_chain(Denoiser(model.network), process, len(part), clamp=clamp, clamp_rule=rule, generator=generator)
            filled += x.tolist()
        codec, a, b = model.text_codec, 3 * L // 8, 5 * L // 8
        assert codec is not None
        lines = []
        for made, true in zip(filled, rows.tolist(), strict=True):
            parts = {"prefix": true[:a], "fill": made[a:b], "truth": true[a:b], "suffix": true[b:]}
            texts = {key: codec.decode(ids) for key, ids in parts.items()}
            lines.append(json.dumps(texts | {"fill_tokens": made[a:b], "truth_tokens": true[a:b]}))
        folder.mkdir(parents=True, exist_ok=True)
        write(path, "".join(f"{line}\n" for line in lines).encode())
        print(f"filled: {name}", flush=True)


def bounds(models: dict[str, Model], rows: torch.Tensor, path: Path) -> None:
    """Bits per character of held-out rows, of each model that has a bound, under several schedules."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    scored: list[tuple[str, str, dict[str, Any]]] = [  # the names are those of the figures in docs/results
        ("ar", "ar", {}),
        ("novels, one sweep in reading order", "ggm", {"sweeps": 1, "order": "left-to-right"}),
        ("novels, one sweep in random order", "ggm", {"sweeps": 1, "order": "random"}),
        ("novels, four sweeps in reading order", "ggm", {"sweeps": 4, "order": "left-to-right"}),
        ("novels, four sweeps in random order", "ggm", {"sweeps": 4, "order": "random"}),
    ]
    for name, method, options in scored:
        if name in found:
            continue
        model = models[method]
        assert model.text_codec is not None
        windows = Windows(rows, None, characters(rows.tolist(), model.text_codec))
        found[name] = score_windows(model.sampler(**options), windows, ("reversal", "heat-bath"), draws=16)
        write_figures(path, found)
        print(name, found[name]["reversal"], flush=True)


def judge(args: argparse.Namespace) -> None:
    """Every set of samples and of fills beside real text; the figures in OUT/language.json."""
    codec, path = open_shards(args.data).codec, args.out / "language.json"
    assert codec is not None
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"samples": {}, "infill": {}}
    judges = [Judge(name, progress=True) for name in args.judge]
    real, known = read_texts(args.test), read_texts(args.train)
    reference = Texts(real.source, passages(real.texts, PASSAGE))  # the same for all sets, so scored once
    for folder in sorted((args.out / "samples").iterdir()):
        parts = [json.loads(file.read_text()) for file in sorted(folder.iterdir())]
        name, tokens = parts[0]["name"], [row for part in parts for row in part["tokens"]]
        if name in found["samples"]:
            continue
        ours = Texts(name, [codec.decode(row) for row in tokens], tokens)
        about = None if is_curve(name) else known  # which takes half a minute each time
        report = evaluate_texts(ours, reference, judges, about, codec, args.features, args.out / "scores", progress=True)
        found["samples"][name] = report | {"calls": float(np.mean([part["calls"] for part in parts]))}
        write_figures(path, found)
    for file in sorted((args.out / "infill").glob("*.jsonl")):
        if file.stem not in found["infill"]:
            found["infill"][file.stem] = evaluate_fills(read_fills(file), judges, args.out / "scores", progress=True)
            write_figures(path, found)
    print_table(found)
    (args.out / "sweeps.png").write_bytes(draw_sweeps(found))


def draw_sweeps(found: dict[str, Any]) -> bytes:
    """The paper's figure: perplexity against visits per site, of Gibbs sampling and of the chain; below it the entropy."""
    figure, (above, below) = plots.panels(2, 1, size=(8, 5.6), sharex=True, height_ratios=(2, 1))
    real = next(iter(found["samples"].values()))["reference"]
    looks = (("chain", "GGM, a schedule for each", plots.RED, "o-"), ("gibbs", "Gibbs sampling, masked LM", plots.GREY, "s--"))
    for kind, label, colour, line in looks:
        sides = {int(name.split()[1]): found["samples"][name]["samples"] for name in found["samples"] if name.startswith(kind)}
        visits = sorted(sides)
        above.plot(visits, [sides[k]["judges"][0]["perplexity"] for k in visits], line, color=colour, label=label)
        below.plot(visits, [sides[k]["entropy"] for k in visits], line, color=colour)
    for axes, value in ((above, real["judges"][0]["perplexity"]), (below, real["entropy"])):
        axes.axhline(value, color=plots.INK, linewidth=1.2, linestyle=":", label="real text")
    above.set(yscale="log", ylabel="perplexity")
    below.set(xscale="log", xlabel="visits of each site", ylabel="entropy, nats")
    plots.plain_ticks(above.yaxis, [50, 100, 200, 500, 1000, 2000])
    plots.plain_ticks(below.xaxis, list(SWEEPS))
    above.legend()
    return plots.png(figure)


def print_table(found: dict[str, Any]) -> None:
    """What docs/language.md shows."""
    print("| samples | calls | perplexity | entropy | MAUVE | known letters | known triples |\n|---|---|---|---|---|---|---|")
    rows = [(name, report["samples"], f"{report['calls']:.0f}") for name, report in found["samples"].items()]
    for name, side, calls in [*rows, ("real text", next(iter(found["samples"].values()))["reference"], "")]:
        mauve = f"{side['mauve']['mean']:.3f}" if "mauve" in side else ""
        shares = [f"{side[key]:.3f}" if key in side else "" for key in ("known_letters", "known_triples")]
        figures = [f"{side['judges'][0]['perplexity']:.1f}", f"{side['entropy']:.2f}", mauve, *shares]
        print(f"| {name} | {calls} | {' | '.join(figures)} |")
    for name, report in found["infill"].items():
        first = report["judges"][0]
        print(f"{name}: {first['fill']['nll']:.1f} nats, truth {first['truth']['nll']:.1f}; recovered {report['recovery']:.3f}")


METHODS: dict[str, Callable[[Model, Path, int], None]] = {
    "ggm": lambda model, folder, number: sample(ggm_chains(model), model, folder, number),
    "ar": lambda model, folder, number: sample(ar_chains(model), model, folder, number),
    "mlm": gibbs,
}
"""What is trained, and how it is sampled."""


def main() -> None:
    """Read the arguments; do the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("card", "judge"))
    for name in ("data", "test", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--number", type=int, default=256)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--train", type=Path)
    parser.add_argument("--judge", action="append", default=[])
    parser.add_argument("--features")
    args = parser.parse_args()
    if args.stage == "judge":
        judge(args)
        return
    models = {name: trained("novels", name, args.data, args.out / name, args.seconds, args.set) for name in METHODS}
    rows = held_out(shards_data(args.data), read_texts(args.test), args.number)
    fill(models["ggm"], rows, args.out / "infill")
    for method, model in models.items():
        METHODS[method](model, args.out / "samples", args.number)
    bounds(models, rows, args.out / "bounds.json")


if __name__ == "__main__":
    main()
