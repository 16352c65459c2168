"""What a model is and can do, for /v1/models."""

from typing import Any

from glauber.codec import is_image_codec
from glauber.model import Model


def about(name: str, model: Model | None, created: int) -> dict[str, Any]:
    """In the form of OpenAI's, and more."""
    told = {"id": name, "object": "model", "created": created, "owned_by": "glauber"}
    return told | ({"ready": False} if model is None else {"ready": True, **facts(model)})


def facts(model: Model) -> dict[str, Any]:
    """Sizes, capabilities, and how it samples unless told otherwise."""
    sampler, can = model.sampler(), model.method.can
    schedule = sampler.schedule
    return {
        "kind": "image" if is_image_codec(model.codec) else "text" if model.text_codec is not None else "tokens",
        "method": model.method.name,
        "length": model.process.length,
        "vocab": model.process.vocab,
        "classes": list(model.classes),
        "shape": list(model.codec.shape) if is_image_codec(model.codec) else None,
        "grid": list(model.codec.grid) if is_image_codec(model.codec) else None,
        "can": {
            "any_schedule": can.any_schedule and model.network.config.conditioning != "time",
            "fill_gaps": can.fill_gaps,
            "orders": can.orders,
            "samplers": list(can.samplers),
            "left_to_right": schedule.causal,
        },
        "sampling": {
            "sweeps": schedule.sweeps,
            "block": schedule.block,
            "order": order if isinstance(order := schedule.to_dict()["order"], str) else "own",
            "calls": sampler.calls,
            **sampler.plan.options,
        },
    }
