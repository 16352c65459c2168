"""What a recipe or a model is made of, as plain facts."""

from typing import Any

import torch

from glauber.conditional import Transformer, TransformerConfig
from glauber.model import load
from glauber.process import Schedule
from glauber.train import recipe


def recipe_info(name: str) -> dict[str, Any]:
    """The settings of a recipe, for `glauber info --recipe`."""
    plan = recipe(name)
    train, process = plan.train, plan.process
    decay = train.decay or train.steps
    rate = f"0 to {train.rate:g} over {train.warmup} steps, cosine to {train.final_rate:g} at step {decay}"
    if decay < train.steps:
        rate += f", then constant to step {train.steps}"
    return {
        "recipe": plan.name,
        "about": plan.about,
        "parameters": count_parameters(plan.network),
        **_network_facts(plan.network),
        "tokens": f"{plan.network.vocab} ({plan.tokens})",
        "steps_T": process.steps,
        "keep": process.keep if process.last_keep is None else f"{process.keep}, {process.last_keep} in the last sweep",
        "order": process.order,
        "noise_law": process.noise,
        "objective": plan.objective,
        "optimizer": f"AdamW {train.betas[0]}/{train.betas[1]}, eps {train.eps:g}",
        "weight_decay": train.weight_decay or "none",
        "dropout": "none",
        "clipping": train.clip or "none",
        "learning_rate": rate,
        "train_steps": train.steps,
        "batch": f"{train.batch} × {train.timesteps} timesteps" if train.timesteps > 1 else train.batch,
        "ema": train.ema,
        "precision": train.precision,
        "sampling": plan.sampling,
    }


def model_info(name: str) -> dict[str, Any]:
    """The facts of a saved model, for `glauber info MODEL`."""
    model = load(name)
    schedule: Schedule = model.process.schedule
    own = schedule.to_dict()
    return {
        "parameters": sum(p.numel() for p in model.network.parameters()),
        **_network_facts(model.network.config),
        "tokens": model.process.vocab,
        "steps_T": schedule.steps,
        "keep": own["keep"],
        "order": own["order"],
        "block": schedule.block,
        "calls_per_sample": round(schedule.signal.sum().item() / schedule.block, 1),
        "objective": model.objective,
        "codec": model.codec.to_dict() if model.codec is not None else None,
        "sampling": model.sampling,
        "about": model.about,
    }


def count_parameters(config: TransformerConfig) -> int:
    """Without allocating them."""
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


def _network_facts(config: TransformerConfig) -> dict[str, Any]:
    return {
        "layers": config.layers,
        "heads": config.heads,
        "width": config.width,
        "conditioning": config.conditioning,
        "length_L": config.length,
        "grid": f"{config.grid[0]}×{config.grid[1]}" if config.grid else "none, a sequence",
    }
