"""Files → token shards by a user's own codec. Rows are as the codec makes them: one after the other, none packed."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from glauber.codec import NamedCodec
from glauber.data.job import JOURNAL
from glauber.data.packing import Packer, close
from glauber.data.prepare import UNFINISHED, move, require_free
from glauber.data.shards import SPLITS, Shards, open_shards
from glauber.runtime.files import disk_full_said
from glauber.runtime.progress import watched

SHARD = 2**24
"""Tokens of a file, at most."""


def prepare_named(
    codec: NamedCodec,
    sources: Sequence[str | Path],
    out: str | Path,
    valid: float | Sequence[str | Path] = 0.01,
    progress: bool = True,
    force: bool = False,
) -> Shards:
    """Encode all files into the folder `out`, which is there when it is whole.

    Args:
        sources: files, and folders of them, in the order of their names.
        valid: files to validate on, or the share of the files that is; of a single file, of its rows. Where the codec splits a
            file itself, its "train" and "valid" are taken, and other splits are left out.
    """
    out = Path(out)
    require_free(out, force)
    work = out.with_name(out.name + UNFINISHED)
    if (work / JOURNAL).is_file() and not force:
        raise ValueError(f"{work} holds unfinished work of another kind; finish it, or start anew with --force")
    with disk_full_said(work, "repeat the command"):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            parts = _splits(codec, sources, valid, progress)
            _write(codec, parts, work, [*_files(sources), *([] if isinstance(valid, (int, float)) else _files(valid))])
        except ValueError:
            shutil.rmtree(work)
            raise
        move(work, out)
    return open_shards(out)


def _splits(
    codec: NamedCodec, sources: Sequence[str | Path], valid: float | Sequence[str | Path], progress: bool
) -> dict[str, Tensor]:
    """The rows (N, L) of each split."""
    read = [codec.encode(file) for file in watched(_files(sources), progress, None, "encode", "file")]
    named = {split: [part[split] for part in read if split in part] for split in {name for part in read for name in part}}
    whole = named.pop("", [])
    if named and (whole or not isinstance(valid, (int, float))):
        raise ValueError(f"the codec {codec.name} splits its files itself; prepare these alone, and leave --valid out")
    if named:
        found = {split: named.get(split, []) for split in SPLITS}
    elif isinstance(valid, (int, float)):
        found = dict(zip(SPLITS, _shared(whole, valid), strict=True))
    else:
        found = dict(zip(SPLITS, (whole, [_whole(codec, file) for file in _files(valid)]), strict=True))
    nothing = torch.zeros(0, codec.length, dtype=torch.int64)
    return {split: torch.cat([nothing, *rows]) for split, rows in found.items()}


def _whole(codec: NamedCodec, file: Path) -> Tensor:
    """The rows of a file that is not split."""
    rows = codec.encode(file)
    if "" not in rows:
        raise ValueError(f"the codec {codec.name} splits {file} itself; leave --valid out")
    return rows[""]


def _shared(files: list[Tensor], share: float) -> tuple[list[Tensor], list[Tensor]]:
    """Whole files for training and for validation; of a single file its first rows and its last."""
    if not 0 <= share < 1:
        raise ValueError(f"the share for validation must be at least 0 and below 1, not {share}")
    if len(files) == 1:
        rows = files[0]
        kept = len(rows) - (min(len(rows) - 1, max(1, round(share * len(rows)))) if share else 0)
        return [rows[:kept]], [rows[kept:]]
    number = min(len(files) - 1, max(1, round(share * len(files)))) if share else 0
    chosen = {(2 * k + 1) * len(files) // (2 * number) for k in range(number)}  # evenly spaced
    return [rows for k, rows in enumerate(files) if k not in chosen], [rows for k, rows in enumerate(files) if k in chosen]


def _write(codec: NamedCodec, parts: dict[str, Tensor], work: Path, files: Iterable[Path]) -> None:
    if not len(parts["train"]):
        raise ValueError(f"the codec {codec.name} makes no rows to train on of these files; name others")
    packers = {split: Packer(work, split, max(1, SHARD // codec.length), codec.length, codec.vocab) for split in SPLITS}
    for split, rows in parts.items():
        packers[split].add(rows.numpy().ravel())
    sources = [{"name": file.name, "bytes": file.stat().st_size} for file in files]
    number = sum(len(rows) for rows in parts.values())
    totals = {"documents": number, "characters": 0, "bytes": 0, "tokens": number * codec.length}
    close(work, packers, codec.length, codec.vocab, (), sources, totals, codec.to_dict())


def _files(names: Sequence[str | Path]) -> list[Path]:
    """Those named, and those in the folders that are."""
    found = []
    for path in map(Path, [names] if isinstance(names, (str, Path)) else names):
        if not path.exists():
            raise ValueError(f"there is no {path}; name a file or a folder of files")
        found += sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    if not found:
        raise ValueError("there is nothing to read; name at least one file")
    return found
