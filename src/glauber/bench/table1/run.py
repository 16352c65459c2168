"""The paper's comparison in small: each method on one network, data, seed and time of training; sampled, bounded, evaluated.

OUT/settings.json            what the table is made of; whoever goes on with it must agree
OUT/runs/ggm                 the training run of a method, as `glauber train` leaves it
OUT/ggm.json                 its training curve, samples and bounds: all that the evaluation needs
OUT/scores, evaluated.json   the judge's scores, and the figures of each set
OUT/table1.json, table1.md   the table; calls.png and bounds.png, its pictures

What is done is not done again, and what was interrupted goes on, here or on another machine that the files were taken to.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glauber.bench.table1.evaluated import evaluate_samples, write_table
from glauber.bench.table1.folder import Folder, open_table, require_table, seconds_per_sample, sized
from glauber.bench.table1.plans import Plan, bound, compared_methods, draw, order_of, plans
from glauber.bench.table1.tiny import tiny_data, tiny_judge
from glauber.bench.timing import clear, device_name
from glauber.evaluate.pretrained import find_model
from glauber.model import Model, load
from glauber.runs import is_run
from glauber.tasks.score import characters
from glauber.train.report import read_log
from glauber.train.run import fit, run

ROWS = 64
"""Sampled at once; an interruption costs no more."""


def bench_table1(
    out: Path,
    data: Path | None = None,
    test: Path | None = None,
    methods: Sequence[str] | None = None,
    seconds: float | None = None,
    settings: dict[str, Any] | None = None,
    number: int | None = None,
    judge: str | None = None,
    tiny: bool = False,
) -> dict[str, Any]:
    """Do what is left to do, and return the table as far as it is known.

    Args:
        data: shards of text to train on. test: a held-out text; the validation rows if None.
        methods: which to train and sample; all if None. The table tells of all that are in `out`.
        seconds, settings, number: of training; changes of the recipe; samples of each row of the table. What is None is as in
            `out`, or the default.
        judge: a causal language model, to evaluate all samples that there are; none yet if None.
        tiny: with a small network, data and a judge that are made on the spot.
    """
    known = compared_methods()
    chosen = known if methods is None else list(methods)
    if wrong := [name for name in chosen if name not in known]:
        raise ValueError(f"the methods are {', '.join(known)}; there is no {wrong[0]!r}")
    if (seconds is not None and not seconds > 0) or (number is not None and number < 2):
        raise ValueError("the table needs some seconds of training and at least two samples of each row")
    require_table(out)
    sized(settings or {}, tiny)  # a slip is told before anything is made
    if judge is not None:
        find_model(judge)
    if tiny:
        if data is not None or test is not None:
            raise ValueError("the tiny table brings its own data; leave --data and --test out")
        data, test = tiny_data(out / "data")
    if data is None:
        raise ValueError("the table needs data to train on; name what `glauber prepare` made with --data, or try --tiny")
    table = open_table(out, data, test, {"seconds": seconds, "number": number, "set": settings, "tiny": tiny})
    for method in chosen:
        _make(table, method)
    if tiny and judge is None:
        judge = str(tiny_judge(out / "judge", (out / "data" / "train.txt").read_text()))
    if judge is not None:
        evaluate_samples(table, judge)
    return write_table(table)


def _make(table: Folder, method: str) -> None:
    """Train a method, draw its samples and compute its bounds, each unless it is done."""
    record, number = table.record(method), table.settings["number"]
    asked = plans(method, table.data.length)
    if record["train"] is not None and all(table.done(record["sets"].get(plan.name)) for plan in asked):
        return
    model = _trained(table, method)
    if record["train"] is None:
        record["train"] = _training(table, method, model)
        table.keep(method, record)
    for plan in asked:
        made = record["sets"].setdefault(plan.name, {"calls": plan.calls, "order": order_of(model, plan), "batches": []})
        for part in range(sum(len(batch["tokens"]) for batch in made["batches"]), number, ROWS):
            made["batches"].append(_sampled(model, plan, min(ROWS, number - part), part))
            table.keep(method, record)
        if "bound" not in made:
            made["bound"] = bound(model, plan, table.windows)
            table.keep(method, record)
        spent = seconds_per_sample(made)
        bits = "" if made["bound"] is None else f", at most {made['bound']['bits_per_char']:.3f} bits per character"
        print(f"{method}, {plan.name}: {spent:.3g} s a sample{bits}", flush=True)


def _trained(table: Folder, method: str) -> Model:
    """The model of a method, from its run."""
    folder, plan, device = table.out / "runs" / method, table.plan(method), "cuda" if torch.cuda.is_available() else "cpu"
    if not (folder / "model" / "model.safetensors").is_file():
        print(f"{method}: {table.settings['seconds']:g} s of training", flush=True)
        torch.compiler.reset()  # each method starts alike
        clear(torch.device(device))
        if not run(plan, table.data, folder, resume=is_run(folder)).finished:
            print("the same command goes on", flush=True)
            raise KeyboardInterrupt
    model, wanted = load(folder / "model", device), fit(plan, table.data)
    if (model.method.name, model.network.config, model.about.get("data")) != (wanted.method, wanted.network, table.data.hash):
        raise ValueError(f"the model in {folder} is of other settings or data than the table; move it away")
    return model


def _training(table: Folder, method: str, model: Model) -> dict[str, Any]:
    """What a run came to, and its bounds on the validation rows: (seconds, bits per character), of the chain that training
    looks at and of reading, where that is learned besides."""
    data = table.data
    rows = torch.from_numpy(data.valid[np.arange(min(table.plan(method).train.valid_rows, len(data.valid)))])
    per_token = float(characters(rows.tolist(), data.codec).double().mean()) / data.length if len(rows) else float("nan")
    log = read_log(table.out / "runs" / method / "log.jsonl")
    curves = {
        curve: [(line["seconds"], line[name] / per_token) for line in log if line.get(name) is not None]
        for curve, name in (("curve", "valid_bits_per_token"), ("read", "valid_bits_per_token_causal"))
    }
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    about = {"seconds": model.about["seconds"], "steps": model.about["steps"], "device": device_name(model.device)}
    sweeps = table.plan(method).process.sweeps if model.method.can.any_schedule else 1
    return about | {"parameters": parameters, "sweeps": sweeps, **curves}


def _sampled(model: Model, plan: Plan, rows: int, seed: int) -> dict[str, Any]:
    """A batch of samples and its time; on a GPU the network is bfloat16, as it was trained, and draws are float64."""
    began = time.perf_counter()
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
        tokens = draw(model, plan, rows, torch.Generator().manual_seed(seed)).tolist()
    return {"seconds": time.perf_counter() - began, "tokens": tokens}
