"""Checkpoints: a folder each, written under another name, synced, and only then given its own.

step-00000100/weights.safetensors, average.safetensors, optimizer.safetensors, state.json (numbers and sha256 of each file)
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from glauber.storage import write_synced

STATE = "state.json"
Tensors = dict[str, dict[str, Tensor]]


def write_checkpoint(folder: Path, tensors: Tensors, numbers: dict[str, Any], keep: int) -> Path:
    """Write `step-…` into `folder`, then remove all but the newest `keep`. A failure leaves the older ones as they were."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{numbers['step']:08d}"
    unfinished = folder / f"{final.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir()
        hashes = {}
        for part, named in tensors.items():
            content = save({name: tensor.detach().contiguous().cpu() for name, tensor in named.items()})
            hashes[part] = hashlib.sha256(content).hexdigest()
            write_synced(unfinished / f"{part}.safetensors", content)
        write_synced(unfinished / STATE, json.dumps({**numbers, "sha256": hashes}, indent=2).encode())
        _sync(unfinished)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(f"the checkpoint of step {numbers['step']} could not be written: {error.strerror or error}") from error
    shutil.rmtree(final, ignore_errors=True)
    unfinished.replace(final)
    _sync(folder)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.suffix != ".unfinished")


def read_newest(folder: Path) -> tuple[Tensors, dict[str, Any], list[str]] | None:
    """The newest checkpoint that is whole, and a sentence for each newer one that is not. None if there are none at all."""
    complaints: list[str] = []
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            return *read_checkpoint(path), complaints
        except ValueError as error:
            complaints.append(str(error))
    if found:
        raise ValueError(f"no checkpoint in {folder} is whole: {complaints[0]}")
    return None


def read_checkpoint(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and numbers of one checkpoint; a damaged one is named."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        numbers = json.loads((path / STATE).read_text())
        tensors: Tensors = {}
        for part, digest in numbers.pop("sha256").items():
            content = (path / f"{part}.safetensors").read_bytes()
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError(f"{part}.safetensors is not what was written")
            tensors[part] = load(content)
    except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
        raise ValueError(f"the checkpoint {path.name} is damaged ({error})") from error
    return tensors, numbers


def _sync(folder: Path) -> None:
    """So that names, too, survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
