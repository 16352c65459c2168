"""A model's folder: config.json and model.safetensors, the layout of huggingface_hub's PyTorchModelHubMixin."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SCALE = ".scale"  # what is added to the name of a compact weight
BUNDLED = Path(__file__).parent / "bundled"


def write_model(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], overwrite: bool, compact: bool = False
) -> None:
    """Both files to temporary names, synced, and only then renamed: a failure leaves what was there."""
    from safetensors.torch import save

    tensors = compacted(tensors) if compact else tensors

    if not overwrite and any((folder / name).exists() for name in (CONFIG, WEIGHTS)):
        raise ValueError(f"{folder} holds a model already; choose another folder, or pass overwrite=True")
    contents = {
        WEIGHTS: save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, metadata={"format": "pt"}),
        CONFIG: (json.dumps(config, indent=2) + "\n").encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, content in contents.items():
            write_synced(folder / f"{name}.tmp", content)
        for name in contents:
            (folder / f"{name}.tmp").replace(folder / name)
    finally:
        for name in contents:
            (folder / f"{name}.tmp").unlink(missing_ok=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_model(name: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config and tensors of a bundled name, a folder or a hub id."""
    folder = find(name)
    return _read_config(folder / CONFIG), expanded(_read_weights(folder / WEIGHTS))


def compacted(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The network's matrices in int8, with a scale for each row: a quarter of the size, and off by half a step at most."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not name.startswith("network.") or tensor.dim() != 2:
            made[name] = tensor
            continue
        scale = (tensor.float().abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
        made[name], made[name + SCALE] = (tensor / scale).round().to(torch.int8), scale
    return made


def expanded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `compacted`, up to its rounding; other tensors stay as they are."""
    scales = {name + SCALE for name, tensor in tensors.items() if tensor.dtype == torch.int8} & tensors.keys()
    return {
        name: tensor * tensors[name + SCALE] if name + SCALE in scales else tensor
        for name, tensor in tensors.items()
        if name not in scales
    }


def is_bundled(name: str | os.PathLike[str]) -> bool:
    """Whether a bare word names a model in the box; a model or run of that name here must be asked for as ./word."""
    folder = Path(name)
    if str(name) != folder.name or not (BUNDLED / folder / CONFIG).is_file():
        return False
    if (folder / CONFIG).is_file():
        raise ValueError(f"{name} is a model in the box and a folder here; write ./{name} for the folder, or go to another one")
    return True


def find(name: str | os.PathLike[str]) -> Path:
    """The folder of a model, fetched from the hub if need be."""
    folder = Path(name)
    if is_bundled(name):
        return BUNDLED / folder
    if (folder / "diffusion_pytorch_model.safetensors").is_file():
        raise ValueError(f"{name} is a codec of images, not a model; use it as glauber prepare --tokenizer vq:{name}")
    if (folder / "log.jsonl").is_file():  # a training run
        folder /= "model"
        if not folder.is_dir():
            raise ValueError(f"the run in {name} has no model yet; go on with it by glauber train --resume")
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise ValueError(f"{folder} is not a model: it has no {CONFIG}")
        return folder
    if folder.exists() or str(name).count("/") != 1:
        boxed = ", ".join(sorted(path.parent.name for path in BUNDLED.glob(f"*/{CONFIG}")))
        raise ValueError(
            f"no model {str(name)!r}: give one of those in the box ({boxed}), a run's folder, "
            f"one that holds {CONFIG} and {WEIGHTS}, or a hub id owner/name"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name), allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # the hub client has many kinds of failure, all of them the same to the user
        raise ValueError(f"no folder {str(name)!r} here, and the hub did not give a model of that id") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON; the model is damaged, get it again") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a model's config")
    return config


def _read_weights(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} is missing, cut short or not a safetensors file; get it again") from error


def pick(tensors: dict[str, Tensor], name: str) -> Tensor:
    """One of the tensors, which must be there."""
    if name not in tensors:
        raise ValueError(f"the weights lack {name!r}")
    return tensors[name]


def codec_part(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The codec's own tensors, by the names that it knows."""
    return {name.removeprefix("codec_"): tensor for name, tensor in tensors.items() if name.startswith("codec_")}


def load_strictly(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Every tensor must be there, a float of its shape, and no other: nothing stays at its random start."""
    own = model.state_dict()
    require_names("the weights file", tensors, own)
    for name, tensor in own.items():
        if tensor.shape != tensors[name].shape:
            raise ValueError(
                f"{name} has shape {tuple(tensors[name].shape)} in the weights, {tuple(tensor.shape)} by the config"
            )
        if not tensors[name].is_floating_point() or not bool(tensors[name].isfinite().all()):
            raise ValueError(f"{name} does not hold finite floating-point numbers; the weights are damaged, get them again")
    model.load_state_dict(tensors)


def require_names(what: str, found: Iterable[str], wanted: Iterable[str]) -> None:
    """Refuse more names than are wanted, or fewer."""
    missing, unknown = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or unknown:
        raise ValueError(f"{what} does not fit: missing {_few(missing)}; unknown {_few(unknown)}")


def _few(names: Sequence[str]) -> str:
    return "none" if not names else ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
