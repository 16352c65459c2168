"""What is no model of ours: what it is, and what to do with it, in one sentence."""

from pathlib import Path
from typing import Any

from glauber.runs import STATE, going_on

OURS = {"format", "network", "schedule", "method"}
"""Keys of our config.json; it is ours, if perhaps damaged, where two of them are there."""


def refuse_foreign(name: str, folder: Path, config: dict[str, Any] | None) -> None:
    """Refuse what another library wrote, and what of ours is no model.

    Args:
        name: as the user gave it.
        folder: it, or what of it is here; the weights are not looked at.
        config: what config.json says; None where there is none.
    """
    files = {path.name for path in folder.iterdir()}
    if config is None:
        raise ValueError(f"{name} {_without_config(name, folder, files)}")
    if len(OURS & config.keys()) < 2:
        raise ValueError(f"{name} {_with_config(name, folder, files, config)}")


def _with_config(name: str, folder: Path, files: set[str], config: dict[str, Any]) -> str:
    kind = config.get("_class_name", "VQModel" if "diffusion_pytorch_model.safetensors" in files else None)
    if kind == "VQModel":
        return f"is a codec of images, not a model; use it as glauber prepare --tokenizer vq:{name}"
    if kind is not None or "_diffusers_version" in config:
        return f"holds {kind or 'a part'} of diffusers, not a model of glauber; load it with diffusers"
    if config.keys() & {"model_type", "architectures", "transformers_version"}:
        return _of_transformers(name, config)
    if "recipe" in config:
        return f"is a training run that has no model yet; go on with it by {going_on(name)}"
    if _is_mixin(folder):
        return _MIXIN
    theirs, wanted = ", ".join(sorted(map(str, config))[:4]) or "nothing", ", ".join(sorted(OURS))
    return f"is not a model of glauber: its config.json has {theirs} instead of {wanted}; load it with what wrote it"


_MIXIN = "was saved by another class with huggingface_hub's PyTorchModelHubMixin; load it with that class"


def _of_transformers(name: str, config: dict[str, Any]) -> str:
    kinds = config.get("architectures") or [config.get("model_type")]
    kind = str(kinds[0] if isinstance(kinds, list) else kinds)
    held = f"holds {kind} of transformers, not a model of glauber"
    if kind.endswith(("ForCausalLM", "LMHeadModel")):
        return f"{held}; to judge texts by it, glauber evaluate --judge {name}, else load it with transformers"
    if kind.endswith("ForMaskedLM"):
        return f"{held}; to sample by Gibbs steps, glauber.method.MaskedLM({name!r}), else load it with transformers"
    return f"{held}; load it with transformers"


def _without_config(name: str, folder: Path, files: set[str]) -> str:
    if "model_index.json" in files:
        return f"holds {_pipeline(folder)} of diffusers, not a model of glauber; load it with diffusers"
    if "header.json" in files:
        return f"is prepared data, not a model; train on it by glauber train --data {name}"
    if STATE in files and files & {"weights", "weights.safetensors"}:
        return "is a checkpoint of a training run, not a model; name the run's folder, and its newest one is taken"
    if _is_mixin(folder):
        return _MIXIN
    weights = any(file.endswith((".bin", ".safetensors", ".pt", ".pth", ".gguf")) for file in files)
    if "tokenizer.json" in files and not weights:
        return f"is a tokenizer, not a model; use it as glauber prepare --tokenizer {Path(name) / 'tokenizer.json'}"
    if weights:
        return "holds weights but no config.json, without which they mean nothing; get the whole folder"
    return "is not a model: it has no config.json"


def _pipeline(folder: Path) -> str:
    from glauber.runtime.files import read_object

    return str(read_object(folder / "model_index.json").get("_class_name", "a pipeline"))


def _is_mixin(folder: Path) -> bool:
    """The hub's mixin says so on the card that it writes."""
    card = folder / "README.md"
    if not card.is_file():
        return False
    with card.open("rb") as file:
        return b"model_hub_mixin" in file.read(4096)
