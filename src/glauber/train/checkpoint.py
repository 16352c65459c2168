"""Checkpoints: a folder each, written under another name, synced, and only then given its own.

What is in one stands in `glauber.runs`, which reads them. Where weights are spread over processes, each part is a folder of
pieces (`sharded`); the tensors are the same.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from glauber.runs import STATE, Tensors, checkpoints, digest, read_checkpoint, whole_tensor
from glauber.runtime.files import read_json, sync_folder, write
from glauber.runtime.sharded import Empty, write_part
from glauber.train.parallel import ALONE, World


def write_checkpoint(
    folder: Path, tensors: Tensors, numbers: dict[str, Any], keep: int, world: World = ALONE, sharded: bool = False
) -> None:
    """Write `step-…` into `folder`, then remove all but the newest `keep`. A failure leaves the older ones as they were.

    A newer one that is there was damaged, or training would have gone on from it: it goes, and no good one goes for it.

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
        everyones = {name: sha for part in world.gather(hashes) for name, sha in part.items()}
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
        write(unfinished / f"{part}.safetensors", content)
    return hashes


def _write_pieces(unfinished: Path, tensors: Tensors, world: World) -> dict[str, str]:
    """Our file of each part; their hashes."""
    files = [file for part, named in tensors.items() for file in write_part(unfinished / part, named, world.rank)]
    return {f"{file.parent.name}/{file.stem}": digest(file) for file in files}


def _finish(unfinished: Path, final: Path, state: dict[str, Any], keep: int) -> None:
    """All is written: note the hashes, sync, rename, and remove what is too old."""
    write(unfinished / STATE, json.dumps(state, indent=2).encode())
    for folder in (*filter(Path.is_dir, unfinished.iterdir()), unfinished):
        sync_folder(folder)
    shutil.rmtree(final, ignore_errors=True)
    unfinished.replace(final)
    sync_folder(final.parent)
    found = checkpoints(final.parent)
    until = found.index(final) + 1
    for other in (*found[: max(0, until - keep)], *found[until:]):
        shutil.rmtree(other)


def _is_whole(path: Path) -> bool:
    """Whether every file is there as it was written."""
    try:
        hashes = read_json(path / STATE)["sha256"]
        return all(digest(path / f"{name}.safetensors") == sha for name, sha in hashes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_newest(
    folder: Path, world: World = ALONE, empty: Empty = whole_tensor
) -> tuple[Tensors, dict[str, Any], list[str]] | None:
    """The newest checkpoint that is whole, and a sentence for each newer one that is not. None if there are none at all.

    All processes call it, and find the same. Pieces are read into what `empty` gives.
    """
    complaints: list[str] = []
    found = checkpoints(folder)
    for path in reversed(found):
        complaint = None
        try:
            read = read_checkpoint(path, empty, rank=world.rank, size=world.size)
        except ValueError as error:
            complaint = str(error)
        if not (bad := [words for words in world.gather(complaint) if words is not None]):
            return *read, complaints
        complaints.append(bad[0])
    if found:
        raise ValueError(f"no checkpoint in {folder} is whole: {complaints[0]}; copy one back, or train anew in another folder")
    return None
