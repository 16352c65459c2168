"""What a recipe or a model is made of, as plain facts."""

from typing import Any

import torch

from glauber.conditional import Transformer, TransformerConfig
from glauber.model import load
from glauber.process import Schedule
from glauber.train import Recipe, TrainSpec


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
        "noise law": process.noise,
        "objective": plan.objective,
        "optimizer": f"AdamW {train.betas[0]}/{train.betas[1]}, eps {_power(train.eps)}",
        "weight decay": _text(train.weight_decay or None),
        "dropout": "none",
        "clipping": _text(train.clip),
        "learning rate": _rate(train),
        "train steps": _text(train.steps),
        "batch": f"{train.batch}×{train.timesteps} (examples × timesteps)" if train.timesteps > 1 else _text(train.batch),
        "EMA": _text(train.ema),
        "precision": train.precision,
        "sampling": _sampling(plan.sampling),
    }


def model_facts(name: str) -> dict[str, Any]:
    """The facts of a saved model, for programs."""
    model = load(name)
    schedule: Schedule = model.process.schedule
    return {
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "calls_per_sample": schedule.signal.sum().item() / schedule.block,
        **model.config(),
    }


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
        "calls per sample": f"{facts['calls_per_sample']:.1f} with the skip, in the mean",
        "objective": facts["objective"],
        "codec": _text(facts["codec"]),
        "sampling": _sampling(facts["sampling"]),
        "about": _text(facts["about"]),
    }


def count_parameters(config: TransformerConfig) -> int:
    """Without allocating them."""
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


def _network_facts(config: TransformerConfig) -> dict[str, str]:
    grid = f" ({config.grid[0]}×{config.grid[1]})" if config.grid else ""
    return {
        "layers": _text(config.layers),
        "heads": _text(config.heads),
        "width": _text(config.width),
        "told": "the time t" if config.conditioning == "time" else "each site's survival",
        "length L": f"{config.length}{grid}",
    }


def _rate(train: TrainSpec) -> str:
    decay = train.decay or train.steps
    text = f"warm-up {train.warmup} steps, peak {_power(train.rate)}, cosine to {_power(train.final_rate)} over {decay} steps"
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
        words.append(f"banned: token {_text(options['ban'])}" + (" (end-of-text)" if options["ban"] == [1] else ""))
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
    if isinstance(value, float):
        return f"{value:.4g}" if value < 0.999 else f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value)
