"""The work of `prepare`: encoding and packing, with a journal from which it goes on after any interruption."""

import json
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from glauber.codec import Codec, is_image_codec
from glauber.data import plan as planning
from glauber.data.packing import Packer, close
from glauber.data.plan import Plan, read_pieces
from glauber.data.prefetch import prefetch
from glauber.data.shards import SPLITS, read_codec, write_codec
from glauber.data.sources import Piece, Position
from glauber.runtime.files import parse_json, replacing, unpacked_size
from glauber.runtime.memory import require_memory

BATCH = 2**21
"""Characters, tokens or bytes of pixels that are encoded at once."""
SAVE_EVERY = 20.0
"""Seconds of work that an interruption may cost."""
JOURNAL = "journal.npz"
Arrays = Sequence[np.ndarray] | np.ndarray


class Job:
    """The state of the work: after each batch it is a function of the position and what was read before it."""

    def __init__(self, plan: Plan, folder: Path, codec: Codec | None, said: dict[str, Any] | None):
        self.plan, self.folder, self.said = plan, folder, said
        self.vocab = codec.vocab if codec is not None else plan.sources.vocab or 0
        self.encode, self.end = _encoder(codec)
        size = plan.shard_rows, plan.width, self.vocab, len(plan.classes)
        self.packers = {split: Packer(folder, split, *size) for split in SPLITS}
        self.position = Position()
        self.side, self.section = SPLITS[0], 0  # where the current section goes, and its size so far
        self.sizes = dict.fromkeys(SPLITS, 0)
        self.totals = dict.fromkeys(("documents", "characters", "bytes", "tokens"), 0)

    @classmethod
    def begin(cls, plan: Plan, folder: Path, progress: bool, force: bool) -> "Job":
        """From the journal where there is one; from the start otherwise."""
        journal = read_journal(folder)
        if journal is not None and journal[0]["settings"] != plan.settings() and not force:
            changed = [name for name, value in plan.settings().items() if journal[0]["settings"].get(name) != value]
            raise ValueError(
                f"{folder} holds unfinished work with another choice of {', '.join(changed)}; "
                "repeat that choice to go on, or start anew with --force"
            )
        if journal is not None and journal[0]["settings"] == plan.settings():
            return cls._restored(plan, folder, *journal)
        _clear(folder)
        codec = plan.codec(progress)
        if progress and codec is not None and not getattr(codec, "lossless", True):
            print(f"the tokenizer {plan.tokenizer} is lossy: decoding does not give back the same text", file=sys.stderr)
        job = cls(plan, folder, codec, write_codec(folder, codec))
        job.save()
        return job

    def run(self, progress: bool) -> None:
        """Encode and pack all that is left; while one batch is packed and another read, the one between is encoded."""
        saved = time.monotonic()
        read = batches(read_pieces(self.plan.sources, self.position, "prepare", progress))
        for batch, tokens in prefetch(lambda batch: self.encode([piece.data for piece in batch]), read, 1, 1):
            before = sum(len(packer.shards) for packer in self.packers.values())
            self.take(batch, tokens)
            after = sum(len(packer.shards) for packer in self.packers.values())
            if after > before or time.monotonic() > saved + SAVE_EVERY:
                self.save()
                saved = time.monotonic()

    def take(self, batch: list[Piece], encoded: Arrays) -> None:
        """Pack the tokens of a batch."""
        parts: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
        for piece, tokens in zip(batch, encoded, strict=True):
            self._choose(piece, parts)
            parts[self.side] += [tokens, self._after(piece)] if piece.ends else [tokens]
            self._count(piece, len(tokens))
        for split, found in parts.items():
            self.packers[split].add(np.concatenate([self.end[:0], *found]))
        self.position = batch[-1].after

    def _after(self, piece: Piece) -> np.ndarray:
        """What follows the tokens of a document: the end-of-text token, its class, or nothing."""
        return np.array([self.plan.classes.index(piece.folder)], np.uint32) if self.plan.classes else self.end

    def _choose(self, piece: Piece, parts: dict[str, list[np.ndarray]]) -> None:
        """The split of a new document or section; a document that changes sides ends on the one it leaves."""
        if piece.starts or self.section >= planning.SECTION:
            side = self.plan.side(piece.after.file, self.sizes, piece.starts)
            if side != self.side and not piece.starts:
                parts[self.side].append(self.end)
            self.side, self.section = side, 0

    def _count(self, piece: Piece, tokens: int) -> None:
        size = len(piece.data)
        self.section += size
        self.sizes[self.side] += size
        self.totals["documents"] += piece.ends
        self.totals["tokens"] += tokens + (len(self.end) if piece.ends else 0)
        if isinstance(piece.data, str):
            self.totals["characters"] += size
            self.totals["bytes"] += size if piece.data.isascii() else len(piece.data.encode())

    def finish(self) -> None:
        """The last shards, the counts and the header."""
        train, valid = (self.packers[split] for split in SPLITS)
        if self.plan.share and not valid.rows:
            self._keep_last_rows()
        if not train.rows or (self.plan.own_valid is not None and not valid.rows):
            which, rows = ("training", train) if not train.rows else ("validation", valid)
            raise ValueError(f"a row of {self.plan.length} is longer than all {rows.filled} {which} tokens; choose a smaller L")
        plan = self.plan
        totals, sources = self.totals, plan.sources.describe()
        close(self.folder, self.packers, plan.length, self.vocab, plan.classes, sources, totals, self.said)
        for stray in self.folder.glob("*.tmp"):
            stray.unlink()

    def _keep_last_rows(self) -> None:
        """Where no document went to validation, the last rows do, as many as its share; one row stays for training."""
        train, valid = (self.packers[split] for split in SPLITS)
        rows = min(max(1, round(self.plan.share * train.rows)), train.waiting, train.rows - 1)
        if rows > 0:
            stop = train.waiting * train.length
            valid.filled = 0
            valid.add(train.buffer[stop - rows * train.length : stop])
            train.filled = stop - rows * train.length

    def save(self) -> None:
        """The journal: whatever happens, the work goes on from here."""
        said = {
            "settings": self.plan.settings(),
            "codec": self.said,
            "position": self.position,
            "side": self.side,
            "section": self.section,
            "sizes": self.sizes,
            "totals": self.totals,
            "shards": {split: packer.shards for split, packer in self.packers.items()},
        }
        arrays = {split: packer.buffer[: packer.filled] for split, packer in self.packers.items()}
        counts = {f"{split}_counts": packer.counts for split, packer in self.packers.items()}
        with replacing(self.folder / JOURNAL) as file:
            np.savez(
                file, allow_pickle=False, said=np.frombuffer(json.dumps(said).encode(), dtype=np.uint8), **arrays, **counts
            )

    @classmethod
    def _restored(cls, plan: Plan, folder: Path, said: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Job":
        try:
            job = cls(plan, folder, read_codec(folder, said["codec"]), said["codec"])
            job.position = Position(*said["position"])
            job.side, job.section, job.sizes, job.totals = said["side"], said["section"], said["sizes"], said["totals"]
            for split, packer in job.packers.items():
                packer.shards = said["shards"][split]
                packer.add(arrays[split])
                packer.counts = arrays[f"{split}_counts"]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{folder / JOURNAL} is damaged; remove {folder} to start anew") from error
        return job


def _clear(folder: Path) -> None:
    """All that is in it goes; the folder itself stays, since its lock does."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _encoder(codec: Any) -> tuple[Callable[[list[Any]], Arrays], np.ndarray]:
    """What makes tokens of a batch, and what follows each document: the end-of-text token, or nothing."""
    nothing = np.array([], dtype=np.uint32)
    if codec is None:
        return list, nothing
    if is_image_codec(codec):
        return lambda batch: codec.encode(np.stack(batch)).numpy().astype(np.uint32), nothing
    return codec.arrays, np.array([codec.end], dtype=np.uint32)


def batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """The pieces, as many at a time as are encoded at once."""
    batch, size = [], 0
    for piece in pieces:
        batch.append(piece)
        size += (piece.data.size if isinstance(piece.data, np.ndarray) else len(piece.data)) + 64
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_journal(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """What was saved and its arrays; None where there is none."""
    if not (folder / JOURNAL).is_file():
        return None
    path, damaged = folder / JOURNAL, f"{folder / JOURNAL} is damaged; remove {folder} to start anew"
    try:
        require_memory(unpacked_size(path), f"{path}", f"remove {folder} to start anew")
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        said = parse_json(arrays.pop("said").tobytes())
        sound = isinstance(said["settings"], dict)
    except (ValueError, KeyError, TypeError, EOFError, RuntimeError, zlib.error, BadZipFile) as error:
        raise ValueError(damaged) from error
    if not sound:
        raise ValueError(damaged)
    return said, arrays
