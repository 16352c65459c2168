"""What a recipe, a run, data or a model is made of: names and texts for people, as `glauber info` prints them."""

from typing import Any

from glauber.cli.info_facts import count_parameters
from glauber.conditional import TransformerConfig
from glauber.method import find_method
from glauber.runs import going_on
from glauber.train import Recipe, TrainSpec

SHOWN = 8
"""Values of a list that are shown."""


def recipe_words(plan: Recipe) -> dict[str, str]:
    """The settings of a recipe, in words."""
    train, process = plan.train, plan.process
    keep = (
        _text(process.keep) if process.last_keep is None else f"{_text(process.keep)}, {process.last_keep:g} in the last sweep"
    )
    return {
        "recipe": plan.name,
        "about": plan.about,
        "parameters": f"{count_parameters(plan.network):,}",
        **_network_words(plan.network),
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


def run_words(facts: dict[str, Any]) -> dict[str, str]:
    """As words, the facts of a run."""
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


def _validation(record: dict[str, Any]) -> str:
    found, causal = record["valid_bits_per_token"], record.get("valid_bits_per_token_causal")
    return f"{found:.4f} bits per token{f', causal {causal:.4f}' if causal else ''}, at step {record['step']:,}"


def data_words(facts: dict[str, Any]) -> dict[str, str]:
    """As words, the facts of data."""
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
        "entropy": f"{facts['entropy_bits_per_token']:.2f} bits a token by their frequencies alone",
        "doubles": _doubles(facts["doubles"]),
    }


def _doubles(found: dict[str, int]) -> str:
    shared = f"{found['valid_rows_in_train']:,} to validate on are among those to train on"
    return f"{found['in_train']:,} of {found['looked_at']:,} rows to train on; {shared}"


def model_words(facts: dict[str, Any]) -> dict[str, str]:
    """As words, the facts of a model."""
    schedule = facts["schedule"]
    return {
        "parameters": f"{facts['parameters']:,}",
        **_network_words(TransformerConfig(**facts["network"])),
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


def _network_words(config: TransformerConfig) -> dict[str, str]:
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
        few = ", ".join(map(_text, value[:SHOWN]))
        return few if len(value) <= SHOWN else f"{few}, … ({len(value)} in all)"
    return str(value)
