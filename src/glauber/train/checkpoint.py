"""Checkpoints: a folder each, written under another name, synced, and only then given its own.

step-00000100/weights.safetensors, average.safetensors, optimizer.safetensors, state.json (numbers and sha256 of each file).
Where weights are spread over processes, each of the three is a folder of pieces (`sharded`); the tensors are the same.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glauber.storage import write_synced
from glauber.train.parallel import ALONE, World
from glauber.train.sharded import Empty, read_part, write_part

STATE = "state.json"
Tensors = dict[str, dict[str, Tensor]]


def write_checkpoint(
    folder: Path, tensors: Tensors, numbers: dict[str, Any], keep: int, world: World = ALONE, sharded: bool = False
) -> None:
    """Write `step-…` into `folder`, then remove all but the newest `keep`. A failure leaves the older ones as they were.

    All processes call it. The first one writes everything or, if `sharded`, each one what it holds. A whole one of the same
    step stays: a run that is resumed at its end has nothing new to say, and replacing it would be a moment without any.
    """
    final = folder / f"step-{numbers['step']:08d}"
    if any(world.gather(world.first and _is_whole(final))):
        return
    unfinished = folder / f"{final.name}.unfinished"
    try:
        world.together(lambda: _begin(unfinished, list(tensors) if sharded else []) if world.first else None)
        if sharded:
            hashes = world.together(lambda: _write_pieces(unfinished, tensors, world))
        else:
            hashes = world.together(lambda: _write_whole(unfinished, tensors) if world.first else {})
        everyones = {name: digest for part in world.gather(hashes) for name, digest in part.items()}
        world.together(lambda: _finish(unfinished, final, {**numbers, "sha256": everyones}, keep) if world.first else None)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(f"the checkpoint of step {numbers['step']} could not be written: {error.strerror or error}") from error


def _begin(unfinished: Path, parts: list[str]) -> None:
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder in (unfinished, *(unfinished / part for part in parts)):
        folder.mkdir(parents=True)


def _write_whole(unfinished: Path, tensors: Tensors) -> dict[str, str]:
    """A file per part; their hashes."""
    from safetensors.torch import save

    hashes = {}
    for part, named in tensors.items():
        content = save({name: tensor.detach().contiguous().cpu() for name, tensor in named.items()})
        hashes[part] = hashlib.sha256(content).hexdigest()
        write_synced(unfinished / f"{part}.safetensors", content)
    return hashes


def _write_pieces(unfinished: Path, tensors: Tensors, world: World) -> dict[str, str]:
    """Our file of each part; their hashes."""
    files = [file for part, named in tensors.items() for file in write_part(unfinished / part, named, world.rank)]
    return {f"{file.parent.name}/{file.stem}": _digest(file) for file in files}


def _finish(unfinished: Path, final: Path, state: dict[str, Any], keep: int) -> None:
    """All is written: note the hashes, sync, rename, and remove what is too old."""
    write_synced(unfinished / STATE, json.dumps(state, indent=2).encode())
    for folder in (*filter(Path.is_dir, unfinished.iterdir()), unfinished):
        _sync(folder)
    shutil.rmtree(final, ignore_errors=True)
    unfinished.replace(final)
    _sync(final.parent)
    for old in checkpoints(final.parent)[:-keep]:
        shutil.rmtree(old)


def _is_whole(path: Path) -> bool:
    """Whether every file is there as it was written."""
    try:
        hashes = json.loads((path / STATE).read_text())["sha256"]
        return all(_digest(path / f"{name}.safetensors") == digest for name, digest in hashes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.suffix != ".unfinished")


def _whole(name: str, shape: torch.Size) -> Tensor:
    return torch.zeros(shape)


def read_newest(folder: Path, world: World = ALONE, empty: Empty = _whole) -> tuple[Tensors, dict[str, Any], list[str]] | None:
    """The newest checkpoint that is whole, and a sentence for each newer one that is not. None if there are none at all.

    All processes call it, and find the same. Pieces are read into what `empty` gives.
    """
    complaints: list[str] = []
    found = checkpoints(folder)
    for path in reversed(found):
        complaint = None
        try:
            read = read_checkpoint(path, world, empty)
        except ValueError as error:
            complaint = str(error)
        if not (bad := [words for words in world.gather(complaint) if words is not None]):
            return *read, complaints
        complaints.append(bad[0])
    if found:
        raise ValueError(f"no checkpoint in {folder} is whole: {complaints[0]}")
    return None


def read_checkpoint(path: Path, world: World = ALONE, empty: Empty = _whole) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and numbers of one checkpoint; a damaged one is named."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        numbers = json.loads((path / STATE).read_text())
        hashes = numbers.pop("sha256")
        pieces = sorted(name for name in hashes if "/" in name)
        for name in pieces[world.rank :: world.size]:  # each process looks at some
            if _digest(path / f"{name}.safetensors") != hashes[name]:
                raise ValueError(f"{name}.safetensors is not what was written")
        tensors = {part.name: read_part(part, empty) for part in path.iterdir() if part.is_dir()}
        for part in hashes.keys() - pieces:
            content = (path / f"{part}.safetensors").read_bytes()
            if hashlib.sha256(content).hexdigest() != hashes[part]:
                raise ValueError(f"{part}.safetensors is not what was written")
            tensors[part] = load(content)
    except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
        raise ValueError(f"the checkpoint {path.name} is damaged ({error})") from error
    return tensors, numbers


def _digest(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    """So that names, too, survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
