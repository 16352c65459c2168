"""What a training run leaves on the disk, as others read it: its checkpoints, and the model in the newest of them.

RUN/checkpoints/step-00000100/    weights.safetensors, average.safetensors, optimizer.safetensors, and state.json: numbers and
                                  the sha256 of each file; of weights spread over processes each of the three is a folder
RUN/checkpoints/frame.json        all of the model but its weights, so that a run that was stopped has a model, too
RUN/checkpoints/frame.safetensors
"""

import hashlib
import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glauber.runtime.files import read_json, read_tensors, require_file, write
from glauber.runtime.sharded import Empty, read_part

CONFIG, STATE, FRAME = "config.json", "state.json", "frame"
PARTS = ("weights", "average", "optimizer")
Tensors = dict[str, dict[str, Tensor]]


def is_run(folder: Path) -> bool:
    """Whether it is a training run's folder."""
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "recipe" in config


def going_on(run: str | Path) -> str:
    """The command that goes on with it."""
    return f"glauber train --out {shlex.quote(str(run))} --resume"


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.name[5:].isdecimal())


def step_of(checkpoint: Path) -> int:
    """The step that it was written after."""
    return int(checkpoint.name[5:])


def whole_tensor(name: str, shape: torch.Size) -> Tensor:
    """Room for all of one."""
    return torch.zeros(shape)


def read_checkpoint(
    path: Path, empty: Empty = whole_tensor, parts: Collection[str] = PARTS, rank: int = 0, size: int = 1
) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and numbers of one checkpoint; a damaged one is named.

    Args:
        empty: what pieces are read into.
        parts: those that are read, and looked at.
        rank, size: of several processes each looks at some of the pieces.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        numbers = read_json(path / STATE)
        hashes = {name: sha for name, sha in numbers.pop("sha256").items() if name.partition("/")[0] in parts}
        if not all(isinstance(value, int | float) for value in numbers.values()):
            raise ValueError(f"{STATE} is not what was written")
        pieces = sorted(name for name in hashes if "/" in name)
        for name in pieces[rank::size]:
            if digest(path / f"{name}.safetensors") != hashes[name]:
                raise ValueError(f"{name}.safetensors is not what was written")
        tensors = {part.name: read_part(part, empty) for part in path.iterdir() if part.is_dir() and part.name in parts}
        for part in hashes.keys() - pieces:
            read_tensors(path / f"{part}.safetensors")  # mapped: one that is longer than it says is not read at all
            content = (path / f"{part}.safetensors").read_bytes()
            if hashlib.sha256(content).hexdigest() != hashes[part]:
                raise ValueError(f"{part}.safetensors is not what was written")
            tensors[part] = load(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ValueError(f"the checkpoint {path.name} is damaged ({error})") from error
    return tensors, numbers


def digest(file: Path) -> str:
    """The sha256 of its content."""
    with open(require_file(file), "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_frame(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """All of a model but its network's weights, beside the checkpoints of these."""
    from safetensors.torch import save

    folder.mkdir(exist_ok=True)
    contents = {
        f"{FRAME}.safetensors": save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}),
        f"{FRAME}.json": (json.dumps(config) + "\n").encode(),
    }
    for name, content in contents.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:  # going on needs no room for it
            write(folder / name, content)


def newest_model(run: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Config and tensors of the averaged network in the newest whole checkpoint, if that is newer than the run's own model.

    What it is stands in the config's "about": the step, and the checkpoint's name.
    """
    folder, finished, tried = run / "checkpoints", _steps(run / "model" / CONFIG), set[Path]()
    if not (folder / f"{FRAME}.json").is_file():
        return None
    while left := [path for path in checkpoints(folder) if step_of(path) > finished and path not in tried]:
        tried.add(left[-1])
        try:
            tensors, numbers = read_checkpoint(left[-1], parts=("average",))
        except ValueError:  # damaged; or the run, which goes on, has removed it
            continue
        config, rest = _read_frame(folder)
        since = {"steps": numbers["step"], "seconds": round(numbers["seconds"], 1), "checkpoint": left[-1].name}
        network = {f"network.{name}": tensor for name, tensor in tensors["average"].items()}
        return config | {"about": config["about"] | since}, rest | network
    return None


def _read_frame(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        config, tensors = read_json(folder / f"{FRAME}.json"), read_tensors(folder / f"{FRAME}.safetensors")
        if not isinstance(config["about"], dict):
            raise ValueError("it says nothing about the model")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / FRAME}.* is damaged ({error}); make it anew by {going_on(folder.parent)}") from error
    return config, tensors


def _steps(config: Path) -> int:
    """How long a model was trained, if there is one that says so; else -1."""
    try:
        steps = read_json(config)["about"]["steps"]
    except (OSError, ValueError, KeyError, TypeError):
        return -1
    return steps if isinstance(steps, int) else -1
