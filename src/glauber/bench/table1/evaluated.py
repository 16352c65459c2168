"""The last stages of a table: the evaluation of the samples, the table itself and its pictures."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from glauber.bench.table1 import pictures
from glauber.bench.table1.folder import Folder, seconds_per_sample
from glauber.bench.table1.plans import compared_methods
from glauber.evaluate.judge import Judge
from glauber.evaluate.text import Texts, evaluate_texts
from glauber.provenance import write_figures
from glauber.runtime.files import read_object, write
from glauber.tasks.score import ratio

KEYS = (
    *("method", "calls", "order", "bits_per_char", "judge_ppl", "entropy", "mauve"),
    *("seconds_per_sample", "train_seconds"),
)
"""Of a row."""
EVALUATED = "evaluated.json"


def evaluate_samples(table: Folder, name: str) -> None:
    """The figures of every whole set of samples, and of real text, as far as they are not known of these very samples."""
    evaluated = _evaluated(table)
    if evaluated["judge"] not in (None, Path(name).name):
        raise ValueError(f"the table in {table.out} has scores by {evaluated['judge']}; take the same judge, or another folder")
    judge: Judge | None = None
    for method in compared_methods():
        for plan, made in table.record(method)["sets"].items():
            label = f"{method}, {plan}"
            if _known(evaluated, label, made) is not None or not table.whole(made):
                continue
            judge = judge or Judge(name, progress=True)
            tokens = _tokens(made)
            texts = [table.data.codec.decode(row) for row in tokens]
            there = [k for k, text in enumerate(texts) if text.strip()]
            ours = Texts(label, [texts[k] for k in there], [tokens[k] for k in there], len(texts) - len(there))
            report = evaluate_texts(
                ours, table.real, [judge], codec=table.data.codec, partial=table.out / "scores", progress=True
            )
            evaluated["judge"], evaluated["sets"][label] = Path(name).name, report["samples"] | {"digest": _digest(made)}
            if evaluated["real"] is None or evaluated["real"]["characters"] < report["reference"]["characters"]:
                evaluated["real"] = report["reference"]  # cut to the length of the samples: that of the longest counts
            write(table.out / EVALUATED, json.dumps(evaluated).encode())
            print(f"{label}: perplexity {_figures(report['samples'])['judge_ppl']:.1f}", flush=True)


def _evaluated(table: Folder) -> dict[str, Any]:
    """All figures that are known so far."""
    path = table.out / EVALUATED
    return read_object(path) if path.is_file() else {"judge": None, "sets": {}, "real": None}


def _known(evaluated: dict[str, Any], label: str, made: dict[str, Any]) -> dict[str, Any] | None:
    """The figures of these samples; those of other samples under the same name do not count."""
    side: dict[str, Any] | None = evaluated["sets"].get(label)
    return side if side is not None and side.get("digest") == _digest(made) else None


def _digest(made: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(_tokens(made)).encode()).hexdigest()


def _tokens(made: dict[str, Any]) -> list[list[int]]:
    return [row for batch in made["batches"] for row in batch["tokens"]]


def _figures(side: dict[str, Any] | None) -> dict[str, float | None]:
    """The columns of a row that come from the evaluation."""
    if side is None:
        return {"judge_ppl": None, "entropy": None, "mauve": None}
    mauve = side["mauve"]["mean"] if "mauve" in side else None
    return {"judge_ppl": side["judges"][0]["perplexity"], "entropy": side["entropy"], "mauve": mauve}


def _errors(side: dict[str, Any] | None, bound: dict[str, float] | None) -> dict[str, float | None]:
    """Standard errors: over the held-out rows and over the samples; of MAUVE, which has none, the spread over its seeds."""
    found: dict[str, float | None] = {"bits_per_char": bound["error"] if bound else None, "judge_ppl": None, "mauve": None}
    if side is not None:
        nats, tokens = (torch.tensor(side["judges"][0][name], dtype=torch.float64) for name in ("nll", "lengths"))
        mean, error = ratio(nats, tokens - 1)
        found |= {"judge_ppl": math.exp(mean) * error, "mauve": side["mauve"]["std"] if "mauve" in side else None}
    return found


def write_table(table: Folder) -> dict[str, Any]:
    """The table and its pictures, as far as all is known."""
    evaluated, rows, errors, about = _evaluated(table), [], [], {}
    curves: dict[str, Sequence[tuple[float, float]]] = {}
    for method in compared_methods():
        record = table.record(method)
        if record["train"] is None:
            continue
        about[method] = dict(record["train"])
        curve, read = about[method].pop("curve"), about[method].pop("read", [])
        sweeps = about[method]["sweeps"]  # of the chain that training looks at
        curves |= {f"{method}, {sweeps} sweeps" if sweeps > 1 else method: curve, f"{method}, reading": read}
        for plan, made in record["sets"].items():
            if table.done(made):
                bits = None if made["bound"] is None else made["bound"]["bits_per_char"]
                side = _known(evaluated, f"{method}, {plan}", made)
                row = {"method": method, "calls": made["calls"], "order": made["order"], "bits_per_char": bits}
                times = {"seconds_per_sample": seconds_per_sample(made), "train_seconds": record["train"]["seconds"]}
                rows.append(row | _figures(side) | times)
                errors.append(_errors(side, made["bound"]))
    if evaluated["real"] is not None:
        rows.append(dict.fromkeys(KEYS) | {"method": "real"} | _figures(evaluated["real"]))
        errors.append(_errors(evaluated["real"], None))
    found = {"rows": rows, "errors": errors, "settings": table.settings, "judge": evaluated["judge"], "training": about}
    found["curves"] = {name: points for name, points in curves.items() if points}
    write_figures(table.out / "table1.json", found)
    write(table.out / "table1.md", markdown(rows).encode())
    drawn = {"calls.png": pictures.calls_picture(rows), "bounds.png": pictures.bounds_picture(curves)}
    for name, content in drawn.items():
        if content is not None:
            write(table.out / name, content)
    return found


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table to be read."""
    heads = "method | calls | order | bits per character | judge's perplexity | entropy | MAUVE | s per sample | s of training"
    forms = ("", "", "", ".3f", ".1f", ".2f", ".2f", ".3g", ".0f")
    cells = [
        ["" if row[key] is None else format(row[key], form) for key, form in zip(KEYS, forms, strict=True)] for row in rows
    ]
    lines = [f"| {heads} |", "|" + "---|" * len(KEYS), *(f"| {' | '.join(line)} |" for line in cells)]
    return "\n".join(lines) + "\n"
