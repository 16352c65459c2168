"""A model's folder: config.json and model.safetensors, the layout of huggingface_hub's PyTorchModelHubMixin."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glauber.conditional.layout import Layout, layers_of
from glauber.foreign import refuse_foreign
from glauber.hub import Download, fetch
from glauber.runs import CONFIG, is_run, newest_model
from glauber.runtime.files import read_json, read_tensors, write_all

WEIGHTS = "model.safetensors"
SCALE = ".scale"  # what is added to the name of a compact weight
BUNDLED = Path(__file__).parent / "bundled"


def write_model(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], overwrite: bool, compact: bool = False
) -> None:
    """Both files to temporary names, synced, and only then renamed: a failure leaves what was there."""
    from safetensors.torch import save

    tensors = compacted(tensors) if compact else tensors

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; choose a folder for the model")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        what = "a model already" if any((folder / name).exists() for name in (CONFIG, WEIGHTS)) else "other files"
        raise ValueError(f"{folder} holds {what}; choose another folder, or pass overwrite=True")
    contents = {
        WEIGHTS: save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, metadata={"format": "pt"}),
        CONFIG: (json.dumps(config, indent=2) + "\n").encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_all({folder / name: content for name, content in contents.items()})


def read_model(name: str | os.PathLike[str], how: Download | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config and tensors of a bundled name, a folder or a hub id, as they are in its files.

    What is no model of ours is refused by its config.
    """
    folder = find(name)
    if folder is None:
        how = how or Download()
        path = fetch(str(name), CONFIG, how)
        config = _config_of(str(name), path.parent)
        how = how._replace(revision=path.parent.name)  # the weights are of the same commit, whatever is pushed meanwhile
        return config, _read_weights(fetch(str(name), WEIGHTS, how))
    if how is not None and how.revision is not None:
        raise ValueError(f"a revision is one of a model on the hub, and {name} is here; leave the revision out")
    if is_run(folder):
        if (newest := newest_model(folder)) is not None:
            return newest
        folder = folder / "model" if (folder / "model").is_dir() else folder  # which is refused
    config = _config_of(str(folder), folder)
    return config, _read_weights(_weights_of(folder))


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
    for name in scales:
        if tensors[name].shape != (*tensors[name.removesuffix(SCALE)].shape[:1], 1):
            raise ValueError(f"{name} does not hold a scale for each row; the weights are damaged, get them again")
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


def find(name: str | os.PathLike[str]) -> Path | None:
    """The folder of a model; None if the name can only be a hub id."""
    folder = Path(name)
    if is_bundled(name):
        return BUNDLED / folder
    if folder.is_dir():
        return folder
    if folder.exists() or str(name).count("/") != 1:
        boxed = ", ".join(sorted(path.parent.name for path in BUNDLED.glob(f"*/{CONFIG}")))
        raise ValueError(
            f"no model {str(name)!r}: give one of those in the box ({boxed}), a run's folder, "
            f"one that holds {CONFIG} and {WEIGHTS}, or a hub id owner/name"
        )
    return None


def _config_of(name: str, folder: Path) -> dict[str, Any]:
    """What config.json says, if it is of a model of ours."""
    config = _read_config(folder / CONFIG) if (folder / CONFIG).is_file() else None
    refuse_foreign(name, folder, config)
    return config or {}


def _weights_of(folder: Path) -> Path:
    """Where the weights are; those that another tool left in another form are refused."""
    found = folder / WEIGHTS
    if not found.exists() and (folder / f"{WEIGHTS}.index.json").is_file():
        raise ValueError(f"{folder} has its weights in several files; join them into one {WEIGHTS}")
    if not found.exists() and (pickles := sorted(folder.glob("*.bin"))):
        raise ValueError(
            f"{folder} has its weights in {pickles[0].name}, a pickle that could run any code; save them as {WEIGHTS}"
        )
    return found


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON; the model is damaged, get it again ({error})") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a model's config")
    return config


def _read_weights(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        raise ValueError(f"{path} is missing; get it again")
    return read_tensors(path)


def pick(tensors: dict[str, Tensor], name: str) -> Tensor:
    """One of the tensors, which must be there."""
    if name not in tensors:
        raise ValueError(f"the weights lack {name!r}")
    return tensors[name]


def codec_part(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The codec's own tensors, by the names that it knows."""
    return {name.removeprefix("codec_"): tensor for name, tensor in tensors.items() if name.startswith("codec_")}


def require_layout(tensors: dict[str, Tensor], layout: Layout) -> None:
    """Refuse weights that are not of this network, before there is one: what a config says may be of any size."""
    start = "network."
    found = {name.removeprefix(start): tensor.shape for name, tensor in tensors.items() if name.startswith(start)}
    found = {name: shape for name, shape in found.items() if name.removesuffix(SCALE) not in found or not name.endswith(SCALE)}
    if (layers := layers_of(found)) < layout.layers:
        raise ValueError(f"the config says {layout.layers:,} layers, the weights have {layers:,}; get the model again")
    shapes = layout.shapes()
    require_names("the weights file", (start + name for name in found), (start + name for name in shapes))
    for name, shape in shapes.items():
        if shape != found[name]:
            both = f"{tuple(found[name])} in the weights, {tuple(shape)} by the config"
            raise ValueError(f"{start}{name} has shape {both}; get the model again")


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
