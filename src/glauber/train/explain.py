"""A choice in words: for people to read, and as a file of settings that can be kept and changed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

from glauber.codec import is_image_codec
from glauber.data.facts import entropy
from glauber.recipe import Recipe, TrainSpec
from glauber.runtime.files import write
from glauber.train.caution import TIMES, seen_often
from glauber.train.choose import SMALLEST_BATCH, STEPS, Choice, blocks
from glauber.train.data import Data
from glauber.train.folder import CHOSEN
from glauber.train.overrides import flat
from glauber.train.parallel import ALONE

OF_THE_DATA = {f"network.{name}" for name in ("vocab", "length", "grid", "classes")}
"""What no file of settings needs to say."""


def lines(choice: Choice, data: Data) -> Iterator[str]:
    """What was looked at, each choice with its reason, and what the run will come to."""
    found = described(data, choice.threads) | reasons(choice, data)
    wide = max(map(len, found)) + 2
    for name, why in found.items():
        yield f"{name:<{wide}}{why}"
    yield from foretold(choice)


def foretold(choice: Choice) -> Iterator[str]:
    """What the run will come to."""
    steps, seconds, times = choice.forecast
    at = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds - choice.spent))
    yield f"it will take {in_minutes(seconds)}, until {at}: {steps:,} steps, each row seen {times:.1f} times"
    if times > TIMES:
        yield seen_often(times)


def in_minutes(seconds: float) -> str:
    """As people say it."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def described(data: Data, threads: int) -> dict[str, str]:
    """What was looked at."""
    kind = "images" if is_image_codec(data.codec) else "tokens" if data.codec is None else "text"
    classes = f", {len(data.classes):,} classes" if data.classes else ""
    bits = f"{entropy(data.counts.numpy()):.2f} bits a token by their frequencies alone"
    rows = f"{len(data.train):,} rows of {data.length:,} tokens out of {data.vocab:,}"
    device = "a GPU" if ALONE.device.type == "cuda" else f"no GPU, so the CPU, {threads} thread{'s' * (threads > 1)}"
    return {"data": f"{kind}, {rows}{classes}; {bits}", "device": device}


def reasons(choice: Choice, data: Data) -> dict[str, str]:
    """Each choice with its reason, by the name of its setting."""
    plan, started, taken = choice.plan, choice.started, choice.taken
    train, network = plan.train, plan.network
    tokens = train.batch * data.length
    found = {
        "size": f"{network.layers} layers of width {network.width}, {blocks(network):,} parameters in them; {choice.size}",
        "train.batch": f"{train.batch:,} rows, {tokens:,} tokens a step; {_batch(choice, data)}",
        "train.optimizer": f"{train.optimizer}; "
        + ("the weights are good already, and move little" if started else "the recipe small was tuned with it"),
        "train.lr": f"{train.lr:g}; "
        + ("small, for the same reason" if started else "tuned at a width of 96, and lower for a wider network"),
        "train.causal_every": _shares(data, train),
        "process.noise": f"{plan.process.noise}; "
        + ("as the recipes for images have it" if plan.process.noise == "uniform" else "as often as the tokens occur"),
        "train.precision": f"{train.precision}; "
        + ("a GPU has it" if train.precision == "bf16" else "a CPU gains nothing by less"),
        "train.seconds": f"{train.seconds:g}; the rate falls by the clock, and a step takes {taken.step:.3g} s",
        "train.evaluate_every": f"{train.evaluate_every:,} steps; a look at held-out rows takes {taken.look:.1f} s",
        "train.patience": f"{train.patience} looks; the weights with the best bound are the model's",
    }
    return found | {name: f"{json.dumps(value)}; as you set it" for name, value in choice.settings.items()}


def _batch(choice: Choice, data: Data) -> str:
    """Why a step has so many rows."""
    train = choice.plan.train
    parts = f"in {train.grad_accum} parts for want of memory, " if train.grad_accum > 1 else ""
    if train.batch + 2 > len(data.train):
        return f"{parts}as many as there are, in pairs"
    if train.batch * data.length < SMALLEST_BATCH:
        return f"{parts}few, since there is time for {choice.forecast.steps:,} steps"
    return f"{parts}at least {SMALLEST_BATCH:,} tokens, and more where there is time for more than {STEPS:,} steps"


def _shares(data: Data, train: TrainSpec) -> str:
    if train.causal_every:
        named = (
            f"; {len(data.classes):,} classes are too many to be told, with {len(data.train):,} rows" if data.classes else ""
        )
        return f"{train.causal_every}; half of the rows from left to right, half in any order{named}"
    return "0; the network is told classes, which a causal one is not" if data.classes else "0; the network is not causal"


def write_choice(choice: Choice, data: Data, out: Path) -> Path:
    """All settings as RUN/chosen.toml, which `glauber train --config` takes, each choice with its reason beside it."""
    write(out / CHOSEN, as_toml(choice.plan, reasons(choice, data)).encode())
    return out / CHOSEN


def as_toml(plan: Recipe, why: dict[str, str]) -> str:
    """The settings of a recipe but for those that are the data's, as TOML with comments. What is None is left out."""
    tables: dict[str, list[str]] = {"": []}
    for name, value in flat(plan.to_dict()).items():
        if value is not None and name not in OF_THE_DATA:
            table, _, short = name.rpartition(".")
            note = why.get(name, "").partition("; ")[2]
            told = json.dumps(value, ensure_ascii=False) + (f"  # {note}" if note else "")
            tables.setdefault(table, []).append(f"{short} = {told}")
    heads = [f"[{table}]\n" if table else "" for table in tables]
    return "\n".join(head + "\n".join(said) + "\n" for head, said in zip(heads, tables.values(), strict=True) if said)
