"""What a recipe, a run or a model is made of, as plain facts."""

from pathlib import Path
from typing import Any

import numpy as np

from glauber import runs
from glauber.codec import ImageCodec, TextCodec, is_image_codec
from glauber.conditional import Layout, TransformerConfig
from glauber.data import open_shards, open_tokens
from glauber.data.shards import HEADER, SPLITS
from glauber.runtime.files import read_json
from glauber.method import find_method
from glauber.model import Model, load
from glauber.runs import CONFIG, STATE, checkpoints, going_on, step_of
from glauber.storage import is_bundled
from glauber.train import Recipe, TrainSpec
from glauber.train.folder import read_config
from glauber.train.report import read_log

SEEN = 2**24
"""Tokens of an .npy that are looked at together."""
FEW = 8
"""Values of a list that are shown."""


def recipe_facts(plan: Recipe) -> dict[str, str]:
    """The settings of a recipe, in words."""
    train, process = plan.train, plan.process
    keep = (
        _text(process.keep) if process.last_keep is None else f"{_text(process.keep)}, {process.last_keep:g} in the last sweep"
    )
    return {
        "recipe": plan.name,
        "about": plan.about,
        "parameters": f"{count_parameters(plan.network):,}",
        **_network_facts(plan.network),
        "tokens": f"{plan.network.vocab}: {plan.tokens}",
        "chain steps T": _text(process.sweeps * plan.network.length),
        "keep": keep,
        "order": process.order,
        "noise law": f"unigram, {process.smoothing:g} added to each count" if process.noise == "unigram" else process.noise,
        "method": plan.method,
        "optimizer": f"AdamW {train.betas[0]}/{train.betas[1]}, eps {_power(train.eps)}",
        "weight decay": _text(train.weight_decay or None),
        "dropout": "none",
        "clipping": _text(train.grad_clip),
        "learning rate": _rate(train),
        "train steps": _text(train.steps),
        "batch": _batch(train),
        "EMA": _text(train.ema_decay) + ", warmed up" * train.ema_warmup,
        "precision": train.precision,
        "sampling": _sampling(plan.sampling) + ", in fp32" * find_method(plan.method).fp32,
    }


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
        **read_json(folder / CONFIG),
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


def run_words(facts: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    plan, train, last, valid = facts["recipe"], facts["recipe"]["train"], facts["last"], facts["validation"]
    parts = f" in {train['grad_accum']} parts" if train.get("grad_accum", 1) > 1 else ""
    how = f"batch {train['batch']}{parts}, peak rate {_power(train['lr'])}, {train['precision']}, seed {train['seed']}"
    words = {
        "recipe": f"{plan['name']}: method {plan['method']}, {how}",
        "data": facts["data"] if " " in facts["data"] else f"{facts['data'][:16]}…",
        "step": f"{facts['step']:,} of {train['steps']:,}",
        "trained for": f"{facts['seconds']:.1f} s" + (f" of {train['seconds']:g} s" if train["seconds"] else ""),
        "loss": f"{last['loss']:.4f} at step {last['step']:,}" if last and last["loss"] is not None else "none logged yet",
        "speed": f"{last['tokens_per_second']:,.0f} tokens/s" if last and last.get("tokens_per_second") else "none logged yet",
        "validation": _validation(valid) if valid else "none yet",
        "checkpoints": ", ".join(facts["checkpoints"]) or "none yet",
        "samples": facts["samples"][-1] if facts["samples"] else "none yet",
    }
    more = f"{going_on(facts['folder'])} goes on"
    if facts["model"] is None:
        return words | {"model": f"none yet; {more}"}
    since = facts["model"]["about"].get("steps")
    words["model"] = "finished" if facts["finished"] else f"not finished, as of step {since}; {more}"
    return words | {name: text for name, text in model_words(facts["model"]).items() if name != "about"}


def _state(checkpoint: Path) -> dict[str, Any]:
    """The step that a checkpoint is of, and the seconds until then; of one that is damaged no more than its name says."""
    try:
        return {"step": step_of(checkpoint), "seconds": float(read_json(checkpoint / STATE)["seconds"])}
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


def _validation(record: dict[str, Any]) -> str:
    found, read = record["valid_bits_per_token"], record.get("valid_bits_per_token_causal")
    return f"{found:.4f} bits per token{f', causal {read:.4f}' if read else ''}, at step {record['step']:,}"


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
    return {
        "vocab": shards.vocab,
        "length": shards.length,
        "rows": {split: len(shards.rows(split)) for split in SPLITS},
        "codec": _codec(shards.codec),
        "classes": list(shards.classes),
        "sources": shards.header["sources"],
        "totals": shards.header["totals"],
        "hash": shards.hash,
    }


def data_words(facts: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    if "shape" in facts:
        shape = " × ".join(f"{side:,}" for side in facts["shape"])
        span = f"{facts['different']:,} different ones, from {facts['least']:,} to {facts['largest']:,}"
        return {
            "tokens": f"{shape} of type {facts['type']}",
            "vocabulary": f"{span}; to prepare them, --vocab is at least {facts['largest'] + 1:,}",
        }
    names = [source["name"] for source in facts["sources"]]
    made = {name: count for name, count in facts["totals"].items() if count}
    return {
        "rows": f"{facts['rows']['train']:,} to train on, {facts['rows']['valid']:,} to validate on",
        "length L": f"{facts['length']:,}",
        "tokens": f"{facts['vocab']:,}",
        "codec": _text(facts["codec"]),
        **({"classes": _text(facts["classes"])} if facts["classes"] else {}),
        "made of": f"{_text(names)}: " + ", ".join(f"{count:,} {name}" for name, count in made.items()),
        "hash": facts["hash"],
    }


def model_facts(name: str) -> dict[str, Any]:
    """The facts of a saved model, for programs: its config, and of a tokenizer its size only."""
    model = load(name)
    return {
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "calls_per_sample": _calls(model),
        **model.config(),
        "codec": _codec(model.codec),
    }


def _calls(model: Model) -> float:
    """Network calls per sample in the mean: a block is asked about unless noise falls on all of it; always without a skip."""
    plan = model.sampler().plan
    schedule, options = plan.schedule, {"truncate": "clean", "kernel": "heat-bath", **plan.options}
    if not plan.by_chain:
        return float(plan.calls)
    if options["truncate"] == "mixture" or options["kernel"] != "heat-bath":
        return float(len(schedule.times))
    return float((1 - (1 - schedule.signal.view(-1, schedule.block)).prod(1)).sum())


def model_words(facts: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    schedule = facts["schedule"]
    return {
        "parameters": f"{facts['parameters']:,}",
        **_network_facts(TransformerConfig(**facts["network"])),
        "tokens": _text(facts["network"]["vocab"]),
        "chain steps T": _text(schedule["steps"]),
        "keep": _text(schedule["keep"]),
        "order": _text(schedule["order"]) if isinstance(schedule["order"], str) else "a given one",
        "block": _text(schedule["block"]),
        "calls per sample": f"{facts['calls_per_sample']:,.1f} at most, in the mean",
        "method": facts["method"],
        "codec": _text(facts["codec"]),
        "sampling": _sampling(facts["sampling"]),
        "about": _text(facts["about"]),
    }


def count_parameters(config: TransformerConfig) -> int:
    """Without allocating them."""
    return Layout.of(config).parameters


def _codec(codec: ImageCodec | TextCodec | None) -> dict[str, Any] | None:
    """What a codec is, without the tokenizer or the alphabet in it."""
    if codec is None:
        return None
    short = {name: value for name, value in codec.to_dict().items() if name not in ("tokenizer", "alphabet", "end")}
    return short | {"vocab": codec.vocab} | ({} if is_image_codec(codec) else {"lossless": getattr(codec, "lossless", True)})


def _network_facts(config: TransformerConfig) -> dict[str, str]:
    grid = f" ({config.grid[0]}×{config.grid[1]})" if config.grid else ""
    return {
        "layers": _text(config.layers),
        "heads": _text(config.heads),
        "width": _text(config.width),
        "conditioning": "the time t" if config.conditioning == "time" else "each site's survival",
        "length L": f"{config.length}{grid}",
    }


def _batch(train: TrainSpec) -> str:
    text = f"{train.batch}×{train.timesteps} (examples × timesteps)" if train.timesteps > 1 else _text(train.batch)
    return text if train.grad_accum == 1 else f"{text}, in {train.grad_accum} parts"


def _rate(train: TrainSpec) -> str:
    decay = train.decay or train.steps
    text = f"warm-up {train.warmup} steps, peak {_power(train.lr)}, cosine to {_power(train.min_lr)} over {decay} steps"
    return text if decay == train.steps else f"{text}, then constant to {train.steps}"


def _sampling(options: dict[str, Any]) -> str:
    """Options of `run_chain`, in words."""
    words = []
    if "top_p" in options:
        words.append(f"top-p {options['top_p']:g}")
    if isinstance(temperature := options.get("temperature"), list | tuple) and len(temperature) == 2:
        words.append(f"temperature {temperature[0]} for the first half, then {temperature[1]}")
    elif temperature is not None:
        words.append(f"temperature {_text(temperature)}")
    if options.get("ban"):
        words.append("banned: " + ("the codec's end of text" if options["ban"] == "end" else f"token {_text(options['ban'])}"))
    words += [f"{k} {_text(v)}" for k, v in options.items() if k not in ("top_p", "temperature", "ban", "truncate")]
    if "truncate" in options:
        words.append(f"on the {options['truncate']}")
    return ", ".join(words) or "temperature 1, no truncation"


def _power(value: float) -> str:
    """1e-4, not 0.0001 or 1e-04."""
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if value < 0.999 else f"{value:g}"
    if isinstance(value, dict):
        return "; ".join(f"{k} {_text(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        few = ", ".join(map(_text, value[:FEW]))
        return few if len(value) <= FEW else f"{few}, … ({len(value)} in all)"
    return str(value)
