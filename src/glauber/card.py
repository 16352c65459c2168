"""A model's card: the README.md that people read on the hub, and the front matter that the hub itself reads."""

from typing import Any, Protocol

from glauber.codec import Codec, is_image_codec, is_text_codec
from glauber.conditional import CausalConditional, Transformer
from glauber.method import Method
from glauber.process import Process


class Described(Protocol):
    """What a card tells of."""

    network: Transformer
    codec: Codec | None
    method: Method
    about: dict[str, Any]

    @property
    def process(self) -> Process: ...

    @property
    def classes(self) -> list[str]: ...


def card(model: Described, name: str) -> str:
    """The whole of it. `about` of the model may hold "license", "language" and "metrics", which the front matter names."""
    facts = "".join(f"| {what} | {value} |\n" for what, value in _facts(model).items())
    usage = f"A model of the library `glauber`.\n\n```python\n{_usage(name)}```"
    parts = front_matter(model, name), f"# {name}", usage, f"|  |  |\n|---|---|\n{facts}", default_sampling(model)
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def front_matter(model: Described, name: str) -> str:
    """YAML between two lines of dashes."""
    from huggingface_hub import EvalResult, ModelCardData

    about, task = model.about, _task(model)
    metrics = about.get("metrics")
    results = [
        EvalResult(task or "other", "held-out", "held-out rows", metric, value)
        for metric, value in (metrics.items() if isinstance(metrics, dict) else ())
    ]
    data = ModelCardData(
        library_name="glauber",
        license=about.get("license", "unknown"),
        language=about.get("language"),
        pipeline_tag=task,
        tags=["glauber", *(model.method.tags or (model.method.name,))],
        model_name=name if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---"


def default_sampling(model: Described) -> str:
    """What `sample` does unless told otherwise."""
    schedule, L = model.process.schedule, model.process.length
    plan = model.method.plan(schedule, model.network.config)
    if not plan.by_chain:
        return f"By default it samples as {model.method.name} does, in {plan.calls} network calls; `calls=` takes fewer."
    if not isinstance(model.method.conditional(model.network, model.process), CausalConditional):
        visits = f"{schedule.sweeps} sweep{'s' * (schedule.sweeps != 1)}"
        return f"By default it samples by its chain: {visits} over {L} sites, {schedule.block} at a time."
    way = "line by line" if is_image_codec(model.codec) else "from left to right"
    causal = f"By default it samples autoregressively: one sweep {way}, a network call for each of {L} tokens."
    if not model.method.can.any_schedule:
        return causal
    return f"{causal} With `sweeps=`, `order=` or `calls=`, and to fill gaps, it samples by the chain, which looks both ways."


def _task(model: Described) -> str | None:
    """The hub's name for what it does; none for tokens of an unknown kind."""
    if is_text_codec(model.codec):
        return "text-generation"
    return "unconditional-image-generation" if is_image_codec(model.codec) else None


def _usage(name: str) -> str:
    return f'import glauber\n\nmodel = glauber.load("{name}")\nprint(model.sample(4, seed=0))\n'


def _facts(model: Described) -> dict[str, Any]:
    shape, codec = model.network.config, model.codec
    known = {what: value for what, value in model.about.items() if what not in ("license", "language", "metrics", "classes")}
    classes = {"classes": ", ".join(model.classes)} if model.classes else {}
    return {
        "method": model.method.name,
        "network": f"{sum(p.numel() for p in model.network.parameters()):,} parameters: {shape.layers} layers of {shape.width}",
        "tokens": f"{shape.length} of {shape.vocab}" + (f", by the codec `{codec.kind}`" if codec is not None else ""),
        **classes,
        **known,
    }
