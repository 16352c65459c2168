"""The folder of a table: what it is made of, and what is known of each method so far."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from glauber.bench.table1.plans import compared_methods, plans
from glauber.codec import is_text_codec
from glauber.evaluate.text import Texts, passages, read_texts
from glauber.recipe import Recipe
from glauber.runtime.files import read_object, write
from glauber.tasks.score import Windows, characters
from glauber.train.data import Data, shards_data
from glauber.train.overrides import apply_settings
from glauber.train.recipes import recipe
from glauber.train.run import check_plan, fit

RUN = {
    "train.steps": 10**7,
    "train.samples": 0,
    "train.evaluate_every": 200,
    "train.checkpoint_every": 1000,
    "train.keep_checkpoints": 1,
}
SIZE = {"network.width": 288, "network.layers": 8, "network.heads": 6, "network.cond_dim": 64}
"""11.3 M parameters with 4096 tokens."""
TINY = {
    "network.width": 32,
    "network.layers": 2,
    "network.heads": 2,
    "network.cond_dim": 16,
    "train.batch": 32,
    "train.warmup": 20,
    "train.ema_decay": 0.98,
    "train.precision": "fp32",
    "train.evaluate_every": 50,
    "train.checkpoint_every": 50,
}
DEFAULTS = {"seconds": 180.0, "number": 256}
TINY_DEFAULTS = {"seconds": 1.5, "number": 24}
VALIDATION = "the validation rows"


@dataclass(frozen=True)
class Folder:
    """What all stages share."""

    out: Path
    data: Data
    real: Texts
    """Held-out text, in passages of about the length of a row."""
    windows: Windows
    """Held-out rows for the bounds."""
    settings: dict[str, Any]

    def plan(self, method: str) -> Recipe:
        """How a method is trained; what differs between two is their `method` alone."""
        clock = {"method": method, "train.seconds": self.settings["seconds"]}
        return sized(self.settings["set"] | clock, self.settings["tiny"])

    def record(self, method: str) -> dict[str, Any]:
        """What is known of a method so far."""
        path = self.out / f"{method}.json"
        return read_object(path) if path.is_file() else {"train": None, "sets": {}}

    def keep(self, method: str, record: dict[str, Any]) -> None:
        write(self.out / f"{method}.json", json.dumps(record).encode())

    def done(self, made: dict[str, Any] | None) -> bool:
        """Whether a set has all its samples and its bound."""
        return made is not None and self.whole(made) and "bound" in made

    def whole(self, made: dict[str, Any]) -> bool:
        """Whether a set has all its samples."""
        return sum(len(batch["tokens"]) for batch in made["batches"]) >= int(self.settings["number"])


def sized(settings: dict[str, Any], tiny: bool) -> Recipe:
    """The recipe with the network of the table, and these settings."""
    return apply_settings(recipe("novels"), RUN | (TINY if tiny else SIZE) | settings)


def seconds_per_sample(made: dict[str, Any]) -> float:
    """Of a set, the median over its batches; the first one warms up."""
    return float(median(batch["seconds"] / len(batch["tokens"]) for batch in made["batches"]))


def open_table(out: Path, data: Path, test: Path | None, requested: dict[str, Any]) -> Folder:
    """Make the folder ours, or check that it is the same table."""
    shards = shards_data(data)
    if not is_text_codec(shards.codec):
        raise ValueError(f"the table is about text, and {data} holds none; prepare some texts")
    real = read_texts(data if test is None else test)
    said = VALIDATION if test is None else hashlib.sha256("\f".join(real.texts).encode(errors="surrogatepass")).hexdigest()
    if taken := [name for name in ("method", "train.seconds") if name in (requested["set"] or {})]:
        raise ValueError(f"the table sets {taken[0]} itself; leave it out, and choose with --methods and --seconds")
    settings = _agreed(out, {"data": shards.hash, "test": said, **requested})
    rows = held_out(shards, None if test is None else real, settings["number"])
    windows = Windows(rows, None, characters(rows.tolist(), shards.codec))
    assert windows.characters is not None
    length = int(windows.characters.double().mean())
    table = Folder(out, shards, Texts(real.source, passages(real.texts, length)), windows, settings)
    for method in compared_methods():  # a mistake in the settings is found before anything is trained
        plans(method, shards.length)
        check_plan(fit(table.plan(method), shards), shards)
    plan = json.loads(json.dumps(table.plan("ggm").to_dict()))
    if settings.setdefault("recipe", plan) != plan:
        raise ValueError(f"the table in {out} was begun with another recipe, by another version of glauber; name another --out")
    out.mkdir(parents=True, exist_ok=True)
    write(out / "settings.json", json.dumps(settings, indent=1).encode() + b"\n")
    return table


def require_table(out: Path) -> None:
    """Refuse a folder that holds something else."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder with --out")
    strange = out.is_dir() and {path.name for path in out.iterdir()} - {"data", "data.part"}  # a tiny one begins with these
    if strange and not (out / "settings.json").is_file():
        raise ValueError(f"{out} is not empty and holds no table; name another folder with --out")


def _agreed(out: Path, requested: dict[str, Any]) -> dict[str, Any]:
    """The settings as they are in `out`, where nothing else was asked for, or else the defaults."""
    require_table(out)
    path, requested = out / "settings.json", json.loads(json.dumps(requested))
    if not path.is_file():
        defaults: dict[str, Any] = {**(TINY_DEFAULTS if requested["tiny"] else DEFAULTS), "set": {}}
        return {name: defaults[name] if value is None else value for name, value in requested.items()}
    theirs = read_object(path)
    ours = {name: theirs[name] if value is None else value for name, value in requested.items()}
    old, new = (settings | settings["set"] for settings in (theirs, ours))
    for name in {"tiny": None} | old | new:
        if name not in ("set", "recipe") and old.get(name) != new.get(name):
            raise ValueError(f"the table in {out} differs in {name}; go on with the same settings, or name another --out")
    return theirs


def held_out(data: Data, test: Texts | None, number: int) -> torch.Tensor:
    """(number, L) rows of the test text, or of the validation rows, from all parts alike; they do not overlap."""
    if test is None:
        every = torch.from_numpy(data.valid[np.arange(len(data.valid))])
    else:
        ids = [token for text in data.codec.encode_batch(test.texts) for token in [*text, data.codec.end]]
        every = torch.tensor(ids[: len(ids) // data.length * data.length], dtype=torch.int64).view(-1, data.length)
    if not len(every):
        raise ValueError(f"there is not one row of {data.length} held-out tokens; give a longer text with --test")
    return every[torch.linspace(0, len(every) - 1, min(number, len(every))).round().long()]
