"""What a run, data or a model is made of: facts for programs, as `glauber info --json` prints them."""

from pathlib import Path
from typing import Any

import numpy as np

from glauber import runs
from glauber.codec import Codec, is_text_codec
from glauber.conditional import Layout, TransformerConfig
from glauber.data import open_shards, open_tokens
from glauber.data.facts import doubles, entropy
from glauber.data.shards import HEADER, SPLITS
from glauber.model import Model, load
from glauber.runs import CONFIG, STATE, checkpoints, step_of
from glauber.runtime.files import read_object
from glauber.storage import is_bundled
from glauber.train.folder import read_config
from glauber.train.report import read_log

SEEN = 2**24
"""Tokens of an .npy that are looked at together."""


def is_run(name: str) -> bool:
    """Whether it is a training run's folder."""
    return not is_bundled(name) and runs.is_run(Path(name))


def run_facts(name: str) -> dict[str, Any]:
    """How far a training run is, for programs; with the facts of its model, once it has one."""
    folder = Path(name)
    log = read_log(folder / "log.jsonl") if (folder / "log.jsonl").is_file() else []
    kept = checkpoints(folder / "checkpoints")
    last = max([*log[-1:], *(_state(path) for path in kept[-1:])], key=lambda known: known["step"], default={})
    bounds = [record for record in log if record.get("valid_bits_per_token") is not None]  # null where it was not finite
    model = _run_model(name)
    about = {} if model is None else model["about"]
    return {
        **read_object(folder / CONFIG),
        "recipe": read_config(folder).recipe.to_dict(),
        "folder": name,
        "step": last.get("step", 0),
        "seconds": last.get("seconds") or 0.0,
        "last": log[-1] if log else None,
        "validation": bounds[-1] if bounds else None,
        "checkpoints": [path.name for path in kept],
        "samples": [str(path.relative_to(folder)) for path in sorted(folder.glob("samples/step-*.*"))],
        "finished": "checkpoint" not in about and about.get("steps") == last.get("step", 0),
        "model": model,
    }


def _state(checkpoint: Path) -> dict[str, Any]:
    """The step that a checkpoint is of, and the seconds until then; of one that is damaged no more than its name says."""
    try:
        return {"step": step_of(checkpoint), "seconds": float(read_object(checkpoint / STATE)["seconds"])}
    except (ValueError, KeyError, TypeError, OverflowError):
        return {"step": step_of(checkpoint)}


def _run_model(name: str) -> dict[str, Any] | None:
    """The facts of the model that `load` would take, if there is one."""
    try:
        return model_facts(name)
    except ValueError:
        if (Path(name) / "model" / CONFIG).is_file():  # and is damaged
            raise
        return None


def is_data(name: str) -> bool:
    """Whether it is tokens: a folder of shards, or an .npy."""
    return (Path(name) / HEADER).is_file() or (Path(name).suffix == ".npy" and Path(name).is_file())


def data_facts(name: str) -> dict[str, Any]:
    """What is in prepared data, or in an .npy, for programs."""
    if Path(name).suffix == ".npy":
        tokens = open_tokens(name)
        rows = max(1, SEEN // max(1, tokens[:1].size))
        found = np.unique(np.concatenate([np.unique(tokens[at : at + rows]) for at in range(0, len(tokens), rows)]))
        span = {"least": int(found[0]), "largest": int(found[-1])}
        return {"shape": list(tokens.shape), "type": str(tokens.dtype), "different": len(found), **span}
    shards = open_shards(name)
    same = doubles(shards.rows("train"), shards.rows("valid"))
    return {
        "vocab": shards.vocab,
        "length": shards.length,
        "rows": {split: len(shards.rows(split)) for split in SPLITS},
        "codec": _codec(shards.codec),
        "classes": list(shards.classes),
        "sources": shards.header["sources"],
        "totals": shards.header["totals"],
        "hash": shards.hash,
        "entropy_bits_per_token": entropy(shards.counts),
        "doubles": {"looked_at": same.looked, "in_train": same.train, "valid_rows_in_train": same.shared},
    }


def model_facts(name: str) -> dict[str, Any]:
    """The facts of a saved model, for programs: its config, and of a tokenizer its size only."""
    model = load(name)
    return {
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "calls_per_sample": _calls_per_sample(model),
        **model.config(),
        "codec": _codec(model.codec),
    }


def _calls_per_sample(model: Model) -> float:
    """Network calls per sample in the mean: one a block, unless noise falls on all of it; always one without a skip."""
    plan = model.sampler().plan
    schedule, options = plan.schedule, {"truncate": "clean", "kernel": "heat-bath", **plan.options}
    if not plan.by_chain:
        return float(plan.calls)
    if options["truncate"] == "mixture" or options["kernel"] != "heat-bath":
        return float(len(schedule.times))
    return float((1 - (1 - schedule.signal.view(-1, schedule.block)).prod(1)).sum())


def count_parameters(config: TransformerConfig) -> int:
    """Without allocating them."""
    return Layout.of(config).parameters


def _codec(codec: Codec | None) -> dict[str, Any] | None:
    """What a codec is, without the tokenizer or the alphabet in it."""
    if codec is None:
        return None
    short = {name: value for name, value in codec.to_dict().items() if name not in ("tokenizer", "alphabet", "end")}
    return short | {"vocab": codec.vocab} | ({"lossless": getattr(codec, "lossless", True)} if is_text_codec(codec) else {})
