"""Gaps in held-out rows, filled by models of the same data, size and time: the table of docs/infilling.md.

    python experiments/infilling.py fill --data DATA --test TEST.txt --out OUT [--seconds 180] [--number 512]
    python experiments/infilling.py judge --out OUT --train TRAIN.txt --judge LM [--features ENCODER]

`fill` trains each model and fills; called again it goes on. `judge` scores what it left: nats above the truth, words at the
seams, MAUVE of the fills. DATA is what `glauber prepare` made of the training text. A quarter of each row is missing, in the
middle or at the end, or three sixteenths, as three gaps. Where the length is unknown, it is between a half of the true one and
three halves, or what the model makes it.
"""

import argparse
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from seams import Cut, counted, read, seams_of
from shared import low_precision, trained

from glauber import Model
from glauber.bench.table1.folder import held_out
from glauber.codec import TextCodec
from glauber.evaluate.encoder import Encoder
from glauber.evaluate.infill import evaluate_fills, read_fills
from glauber.evaluate.judge import Judge
from glauber.evaluate.mauve import mauve
from glauber.evaluate.text import read_texts
from glauber.method import Run
from glauber.method.sampling import Record
from glauber.objective.middle import ADDED
from glauber.process.draws import new_generator
from glauber.provenance import write_figures
from glauber.runtime.files import write
from glauber.tasks.constraints import Choice, Constraints, Filling
from glauber.tasks.lengths import choosing
from glauber.tasks.middle import fill_middle
from glauber.tasks.steps import run_alone
from glauber.tasks.template import Pattern
from glauber.tasks.windows import fill
from glauber.train.data import shards_data

PART = 64
"""Rows at a time."""
TASKS = {"middle": [(6, 10)], "end": [(12, 16)], "three": [(3, 4), (8, 9), (12, 13)]}
"""Where each gap begins and ends, in sixteenths of a row."""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "ggm": ("ggm", {}),
    "ar": ("ar", {}),
    "ar-fim": ("ar", {"train.fim": 0.5}),
    "mdlm": ("mdlm", {}),
    "mlm": ("mlm", {}),
}
"""The method, and its settings."""


class Fills(NamedTuple):
    """Of some rows, the tokens in each gap, and the network calls of a row."""

    gaps: list[list[list[int]]]
    calls: float


@dataclass(frozen=True)
class Question:
    """Rows with gaps: `gaps` are the slices of a row that are missing."""

    rows: torch.Tensor
    gaps: list[slice]
    codec: TextCodec
    generator: torch.Generator | None

    @property
    def given(self) -> torch.Tensor:
        """(L,) bool."""
        given = torch.ones(self.rows.shape[1], dtype=torch.bool)
        for gap in self.gaps:
            given[gap] = False
        return given


def by_chain(model: Model, question: Question) -> Fills:
    """All gaps of a row in one chain, their lengths known."""
    given, record = question.given, Record()
    steps = fill(model.sampler(gaps=True), given, question.rows, ~given, len(given), Run(question.generator, record=record))
    x = run_alone(steps)
    return Fills([[row[gap].tolist() for gap in question.gaps] for row in x], record.calls or 0.0)


def by_weights(model: Model, question: Question) -> Fills:
    """By the chain, their lengths drawn from the model; given tokens that leave no room are dropped at the beginning."""
    sizes = [gap.stop - gap.start for gap in question.gaps]
    dropped = sum(size // 2 for size in sizes)
    edges = [0, *(edge for gap in question.gaps for edge in (gap.start, gap.stop)), question.rows.shape[1]]
    job = Filling(model.sampler(gaps=True), question.codec, Constraints(seams="raw"), question.generator)
    ranges, made, calls = [range(max(1, size // 2), size + size // 2 + 1) for size in sizes], [], 0.0
    for row in question.rows.tolist():
        bodies = [row[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
        bodies[0] = bodies[0][dropped:]
        pieces = [question.codec.decode(body) for body in bodies]
        pattern = Pattern(pieces, bodies, [False] * len(sizes), ranges, len(row) - sum(map(len, bodies)))
        (chosen,) = run_alone(choosing(job, pattern, 1, Choice.draws))
        made.append([chosen.row[gap].tolist() for gap in chosen.template.gaps])
        calls += chosen.calls or 0.0
    return Fills(made, calls / len(made))


def from_before(model: Model, question: Question) -> Fills:
    """From left to right: of a gap only what stands before it is seen."""
    x, calls, site = question.rows.clone(), 0.0, torch.arange(question.rows.shape[1])
    for gap in question.gaps:
        record, wanted = Record(), (site >= gap.start) & (site < gap.stop)
        run = Run(question.generator, record=record)
        filled = run_alone(fill(model.sampler(), site < gap.start, x, wanted, len(site), run))
        x[:, gap], calls = filled[:, gap], calls + (record.calls or 0.0)
    return Fills([[row[gap].tolist() for gap in question.gaps] for row in x], calls)


def by_middle(length_known: bool) -> Callable[[Model, Question], Fills]:
    """The middle last, gap after gap: what stands before, and what stands behind as far as the next gap."""

    def filled(model: Model, question: Question) -> Fills:
        made: list[list[list[int]]] = [[] for _ in question.rows]
        ends = [gap.start for gap in question.gaps[1:]] + [question.rows.shape[1]]
        calls = 0.0
        for gap, until in zip(question.gaps, ends, strict=True):
            size = gap.stop - gap.start
            dropped = ADDED + (0 if length_known else size // 2)
            before, behind = question.rows[:, dropped : gap.start], question.rows[:, gap.stop : until]
            found = fill_middle(
                model.sampler(), before, behind, question.codec.end, size if length_known else None, question.generator
            )
            calls += sum(map(len, found)) / len(found)
            for row, tokens in zip(made, found, strict=True):
                row.append(tokens)
        return Fills(made, calls)

    return filled


FILLERS: dict[str, tuple[str, Callable[[Model, Question], Fills]]] = {
    "ggm": ("ggm", by_chain),
    "mdlm": ("mdlm", by_chain),
    "mlm": ("mlm", by_chain),
    "ar-fim": ("ar-fim", by_middle(length_known=True)),
    "ar": ("ar", from_before),
    "ggm, length unknown": ("ggm", by_weights),
    "ar-fim, length unknown": ("ar-fim", by_middle(length_known=False)),
}
"""The model of each, and how it fills."""


def line(row: list[int], gaps: list[slice], filled: list[list[int]], codec: TextCodec) -> dict[str, Any]:
    """A row as `glauber evaluate` reads it, and its parts: given and filled in turn."""
    parts, last = [], 0
    for gap, tokens in zip(gaps, filled, strict=True):
        parts += [row[last : gap.start], tokens]
        last = gap.stop
    texts = [codec.decode(ids) for ids in [*parts, row[last:]]]
    first, stop = gaps[0].start, gaps[-1].stop
    made = [token for part in parts[1:] for token in part]
    ends = {"prefix": texts[0], "fill": "".join(texts[1:-1]), "truth": codec.decode(row[first:stop]), "suffix": texts[-1]}
    true = [codec.decode(row[gap]) for gap in gaps]
    return ends | {"fill_tokens": made, "truth_tokens": row[first:stop], "parts": texts, "true": true}


def fill_all(model: Model, name: str, rows: torch.Tensor, out: Path) -> None:
    """A file for each task, unless it is there."""
    L, codec = rows.shape[1], model.require_text_codec()
    for task, places in TASKS.items():
        path = out / "fills" / f"{name.replace(', ', '_').replace(' ', '_')}-{task}.jsonl"
        if path.is_file():
            continue
        gaps, lines, calls, began = [slice(L * a // 16, L * b // 16) for a, b in places], [], 0.0, time.perf_counter()
        for number, part in enumerate(rows.split(PART)):  # type: ignore[no-untyped-call]
            with low_precision(model):
                found = FILLERS[name][1](model, Question(part, gaps, codec, new_generator(number)))
            calls += found.calls * len(part)
            lines += [line(row, gaps, filled, codec) for row, filled in zip(part.tolist(), found.gaps, strict=True)]
        about = {"name": name, "task": task, "calls": calls / len(rows), "seconds": time.perf_counter() - began}
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path.with_suffix(".json"), json.dumps(about).encode())
        write(path, "".join(f"{json.dumps(each)}\n" for each in lines).encode())
        print(about, flush=True)


def seam_errors(lines: list[dict[str, Any]], known: set[str], key: str | None = None) -> float:
    """The share of gaps with a half word at a seam, of the fills or, by the key "true", of what stood there."""
    found = []
    for each in lines:
        parts = each["parts"]
        for k in range(1, len(parts), 2):
            filled = parts[k] if key is None else each[key][k // 2]
            found.append(seams_of(Cut(parts[k - 1], "", parts[k + 1], 0), filled, known))
    return counted(found)["half word"]


def judge(args: argparse.Namespace) -> None:
    """Score each file of fills; the figures are in OUT/infilling.json, and the table is printed."""
    known = set(re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", read(args.train).lower()))
    judges, rows = [Judge(name, progress=True) for name in args.judge], []
    encoder = None if args.features is None else Encoder(args.features)
    for path in sorted((args.out / "fills").glob("*.jsonl")):
        lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        row = json.loads(path.with_suffix(".json").read_text())
        report = evaluate_fills(read_fills(path), judges, args.out / "scores", progress=True)
        row |= {"number": len(lines), "recovery": report["recovery"], "judges": report["judges"]}
        row |= {"half_words": seam_errors(lines, known), "half_words_true": seam_errors(lines, known, "true")}
        if encoder is not None:
            fills, truths = (encoder.features([each[kind] for each in lines]) for kind in ("fill", "truth"))
            row["mauve"] = mauve(fills, truths)._asdict()
        rows.append(row)
        write_figures(args.out / "infilling.json", {"rows": rows})
    print("| filled by | gaps | calls | nats above the truth | half words | MAUVE |\n|---|---|---:|---:|---:|---:|")
    for row in rows:
        nats = f"{row['judges'][0]['difference']:.1f}" if row["judges"] else ""
        area = f"{row['mauve']['mean']:.3f}" if "mauve" in row else ""
        print(f"| {row['name']} | {row['task']} | {row['calls']:.0f} | {nats} | {row['half_words']:.3f} | {area} |")


def main() -> None:
    """Read the arguments; do the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("fill", "judge"))
    parser.add_argument("--out", type=Path, required=True)
    for name in ("data", "test", "train"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--recipe", default="novels")
    parser.add_argument("--seconds", type=float, default=180.0, help="of training, for each model")
    parser.add_argument("--number", type=int, default=512, help="of rows")
    for name in ("set", "judge"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--features", help="a sentence encoder")
    args = parser.parse_args()
    if args.stage == "judge":
        judge(args)
        return
    rows = held_out(shards_data(args.data), read_texts(args.test), args.number)
    for name, (method, settings) in MODELS.items():
        changes = [*args.set, *(f"{key}={value}" for key, value in settings.items())]
        model = trained(args.recipe, method, args.data, args.out / name, args.seconds, changes)
        for filler, (own, _) in FILLERS.items():
            if own == name:
                fill_all(model, filler, rows, args.out)


if __name__ == "__main__":
    main()
