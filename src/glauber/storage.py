"""A model's folder: config.json and model.safetensors, the layout of huggingface_hub's PyTorchModelHubMixin."""

import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor

CONFIG, WEIGHTS = "config.json", "model.safetensors"
BUNDLED = Path(__file__).parent / "bundled"


def write_model(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], overwrite: bool) -> None:
    """Both files to temporary names, synced, and only then renamed: a failure leaves what was there."""
    from safetensors.torch import save

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


def write_file(path: Path, content: bytes) -> None:
    """All or nothing: to a temporary name, synced, renamed."""
    temporary = path.with_name(f"{path.name}.tmp")
    write_synced(temporary, content)
    temporary.replace(path)


def write_synced(path: Path, content: bytes) -> None:
    """Write and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_model(name: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config and tensors of a bundled name, a folder or a hub id."""
    folder = find(name)
    return _read_config(folder / CONFIG), _read_weights(folder / WEIGHTS)


def find(name: str | os.PathLike[str]) -> Path:
    """The folder of a model, fetched from the hub if need be."""
    if isinstance(name, str) and (BUNDLED / name / CONFIG).is_file():
        return BUNDLED / name
    folder = Path(name)
    if (folder / "log.jsonl").is_file():  # a training run
        folder /= "model"
        if not folder.is_dir():
            raise ValueError(f"the run in {name} has no model yet; go on with it by glauber train --resume")
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise ValueError(f"{folder} is not a model: it has no {CONFIG}")
        return folder
    if folder.exists() or str(name).count("/") != 1:
        raise ValueError(
            f"no model {str(name)!r}: give a run's folder, one that holds {CONFIG} and {WEIGHTS}, or a hub id owner/name"
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
