"""Documents → token shards: streamed, packed into rows, and able to go on after any interruption."""

import errno
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from glauber.codec import TextCodec, text_codec, text_codec_from_dict
from glauber.data.packing import Packer, replacing, write
from glauber.data.shards import COUNTS, FORMAT, HEADER, SPLITS, Shards, content_hash, open_shards, row_dtype, sha256
from glauber.data.sources import Piece, Position, Sources

BATCH = 2**21
"""Characters (or tokens) that are encoded at once."""
SECTION = 2**14
"""A document longer than so many characters (or tokens) may be split between training and validation."""
TRAINING_TEXT = 2**26
"""A BPE is trained on at most about so many characters, from the start of every file in equal shares."""
SAVE_EVERY = 20.0
"""Seconds of work that an interruption may cost."""
JOURNAL, UNFINISHED, REPLACED = "journal.npz", ".unfinished", ".replaced"


def prepare(
    sources: Sequence[str | Path],
    out: str | Path,
    tokenizer: str | Path = "char",
    length: int | None = None,
    valid: float | Sequence[str | Path] = 0.01,
    field: str = "text",
    vocab: int | None = None,
    shard_tokens: int = 2**24,
    progress: bool = True,
    force: bool = False,
) -> Shards:
    """Pack all documents into rows of L tokens, each document followed by the end-of-text token.

    The work is done in the folder `out`.unfinished, which becomes `out` when it is whole. Called again after an interruption
    with the same settings, it goes on from where it was. The same input gives the same bytes either way.

    Args:
        sources: what to read, see `Sources`.
        out: the folder to make.
        tokenizer: of texts, see `text_codec`.
        length: L; 256 if None, or the length of the rows of an .npy.
        valid: the share kept for validation; a document (of a long one, a section) goes there whenever validation has less than
            its share so far, and where nothing went there, the last rows do. Or the sources to validate on.
        field: of a .jsonl line or hub row, where its text is.
        vocab: V of .npy tokens; these get no end-of-text token.
        shard_tokens: how many tokens a file holds, at most.
        progress: show a bar, and say it when the tokenizer is lossy.
        force: replace finished data in `out`, and start anew where other settings were used before.
    """
    plan = _Plan.make(sources, tokenizer, length, valid, field, vocab, shard_tokens)
    out = Path(out)
    work = out.with_name(out.name + UNFINISHED)
    if _just_finished(out, plan):
        return open_shards(out)
    _require_free(out, force)
    with _disk_full_said(work):
        job = _Job.begin(plan, work, progress, force)
        try:
            job.run(progress)
            job.finish()
        except ValueError:
            if not job.packers["train"].shards:
                shutil.rmtree(work)
            raise
        _move(work, out)
    return open_shards(out)


@dataclass(frozen=True)
class _Plan:
    """What is asked for."""

    sources: Sources
    own_valid: int | None  # the first of the files that are for validation only
    share: float
    tokenizer: str
    length: int
    shard_rows: int

    @classmethod
    def make(
        cls,
        sources: Sequence[str | Path],
        tokenizer: str | Path,
        length: int | None,
        valid: float | Sequence[str | Path],
        field: str,
        vocab: int | None,
        shard_tokens: int,
    ) -> "_Plan":
        train = [sources] if isinstance(sources, (str, Path)) else list(sources)
        files = Sources(train, field, vocab)
        share, own_valid = (valid, None) if isinstance(valid, (int, float)) else (0.0, len(files.files))
        if own_valid is not None:
            extra = [valid] if isinstance(valid, (str, Path)) else list(valid)  # type: ignore[arg-type]
            files = Sources([*train, *extra], field, vocab)
        if not 0 <= share < 1:
            raise ValueError(f"the share for validation must be at least 0 and below 1, not {share}")
        length = _length(length, files.row_length())
        return cls(files, own_valid, share, str(tokenizer), length, max(1, shard_tokens // length))

    def settings(self) -> dict[str, Any]:
        """What must be the same for unfinished work to go on."""
        path = Path(self.tokenizer)
        spec = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else self.tokenizer
        return {
            "sources": self.sources.fingerprint(),
            "field": self.sources.field,
            "vocab": self.sources.vocab,
            "tokenizer": None if self.sources.tokens else spec,
            "length": self.length,
            "valid": self.share if self.own_valid is None else [self.own_valid],
            "shard_rows": self.shard_rows,
        }

    def side(self, file: int, sizes: dict[str, int], starts: bool) -> str:
        """Which split a new document (`starts`), or a new section of one, belongs to, given how much each one has."""
        if self.own_valid is not None:
            return SPLITS[file >= self.own_valid]
        room = 0 if starts else SECTION  # a document is often shorter than a section
        return SPLITS[sizes["valid"] + room < self.share * (sum(sizes.values()) + room)]

    def codec(self, progress: bool) -> TextCodec | None:
        """Made from the data where it must be; None for tokens."""
        if self.sources.tokens:
            return None
        if self.tokenizer == "char":
            pieces = _watched(self.sources, None, "alphabet", progress)
            return text_codec(self.tokenizer, (str(piece.data) for piece in pieces))
        most = TRAINING_TEXT if self.tokenizer.startswith("bpe:") else 2**20
        return text_codec(self.tokenizer, self.sources.texts(most, self.own_valid))


class _Job:
    """The state of the work: after each batch it is a function of the position and what was read before it."""

    def __init__(self, plan: _Plan, folder: Path, codec: TextCodec | None):
        self.plan, self.folder, self.codec = plan, folder, codec
        self.vocab = codec.vocab if codec is not None else plan.sources.vocab or 0
        self.end = np.array([] if codec is None else [codec.end], dtype=np.uint32)
        self.packers = {split: Packer(folder, split, plan.shard_rows, plan.length, self.vocab) for split in SPLITS}
        self.position = Position()
        self.side, self.section = SPLITS[0], 0  # where the current section goes, and its size so far
        self.sizes = dict.fromkeys(SPLITS, 0)
        self.totals = dict.fromkeys(("documents", "characters", "bytes", "tokens"), 0)

    @classmethod
    def begin(cls, plan: _Plan, folder: Path, progress: bool, force: bool) -> "_Job":
        """From the journal where there is one; from the start otherwise."""
        journal = _read_journal(folder)
        if journal is not None and journal[0]["settings"] != plan.settings() and not force:
            changed = [name for name, value in plan.settings().items() if journal[0]["settings"].get(name) != value]
            raise ValueError(
                f"{folder} holds unfinished work with another choice of {', '.join(changed)}; "
                "repeat that choice to go on, or use force to start anew"
            )
        if journal is not None and journal[0]["settings"] == plan.settings():
            return cls._restored(plan, folder, *journal)
        shutil.rmtree(folder, ignore_errors=True)
        codec = plan.codec(progress)
        if progress and codec is not None and not codec.lossless:
            print(f"the tokenizer {plan.tokenizer} is lossy: decoding does not give back the same text", file=sys.stderr)
        folder.mkdir(parents=True)
        job = cls(plan, folder, codec)
        job.save()
        return job

    def run(self, progress: bool) -> None:
        """Encode and pack all that is left."""
        saved = time.monotonic()
        for batch in _batches(_watched(self.plan.sources, self.position, "prepare", progress)):
            before = sum(len(packer.shards) for packer in self.packers.values())
            self._take(batch)
            after = sum(len(packer.shards) for packer in self.packers.values())
            if after > before or time.monotonic() > saved + SAVE_EVERY:
                self.save()
                saved = time.monotonic()

    def _take(self, batch: list[Piece]) -> None:
        data: list[Any] = [piece.data for piece in batch]
        parts: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
        for piece, tokens in zip(batch, data if self.codec is None else self.codec.arrays(data), strict=True):
            self._choose(piece, parts)
            parts[self.side] += [tokens, self.end] if piece.ends else [tokens]
            self._count(piece, len(tokens))
        for split, found in parts.items():
            self.packers[split].add(np.concatenate([self.end[:0], *found]))
        self.position = batch[-1].after

    def _choose(self, piece: Piece, parts: dict[str, list[np.ndarray]]) -> None:
        """The split of a new document or section; a document that changes sides ends on the one it leaves."""
        if piece.starts or self.section >= SECTION:
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
        for packer in (train, valid):
            packer.write()
        with replacing(self.folder / COUNTS) as file:
            np.save(file, train.counts)
        write(self.folder / HEADER, (json.dumps(self._header(), indent=1, ensure_ascii=False) + "\n").encode())
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

    def _header(self) -> dict[str, Any]:
        header: dict[str, Any] = {
            "format": FORMAT,
            "vocab": self.vocab,
            "length": self.plan.length,
            "dtype": row_dtype(self.vocab),
            "splits": {split: packer.shards for split, packer in self.packers.items()},
            "counts": {"file": COUNTS, "sha256": sha256(self.folder / COUNTS)},
            "sources": self.plan.sources.describe(),
            "totals": self.totals,
            "codec": None if self.codec is None else self.codec.to_dict(),
        }
        return {"hash": content_hash(header), **header}

    def save(self) -> None:
        """The journal: whatever happens, the work goes on from here."""
        said = {
            "settings": self.plan.settings(),
            "codec": None if self.codec is None else self.codec.to_dict(),
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
    def _restored(cls, plan: _Plan, folder: Path, said: dict[str, Any], arrays: dict[str, np.ndarray]) -> "_Job":
        job = cls(plan, folder, None if said["codec"] is None else text_codec_from_dict(said["codec"]))
        job.position = Position(*said["position"])
        job.side, job.section, job.sizes, job.totals = said["side"], said["section"], said["sizes"], said["totals"]
        for split, packer in job.packers.items():
            packer.shards = said["shards"][split]
            packer.add(arrays[split])
            packer.counts = arrays[f"{split}_counts"]
        return job


def _length(asked: int | None, rows: int | None) -> int:
    length = asked if asked is not None else rows if rows is not None else 256
    if length < 1:
        raise ValueError(f"the length of a row must be at least 1, not {length}")
    if rows is not None and length != rows:
        raise ValueError(f"the rows of the .npy have {rows} tokens, not {length}; leave the length out, or flatten the array")
    return length


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    batch, size = [], 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.data) + 64
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _watched(sources: Sources, position: Position | None, label: str, progress: bool) -> Iterator[Piece]:
    """The pieces, with a bar of the bytes read."""
    from tqdm import tqdm

    before = np.cumsum([0, *(source.size for source in sources.files)]).tolist()
    with tqdm(total=sources.size or None, desc=label, unit="B", unit_scale=True, disable=not progress) as bar:
        done = 0
        for piece in sources.pieces(position):
            now = before[piece.after.file] + piece.read
            if now != done:
                bar.update(now - done)
                done = now
            yield piece


@contextmanager
def _disk_full_said(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(f"the disk of {folder} is full; free some space and repeat the command, which then goes on") from error


def _read_journal(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    if not (folder / JOURNAL).is_file():
        return None
    try:
        with np.load(folder / JOURNAL, allow_pickle=False) as file:
            arrays = dict(file)
        return json.loads(arrays.pop("said").tobytes()), arrays
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ValueError(f"{folder / JOURNAL} is damaged; remove {folder} to start anew") from error


def _require_free(out: Path, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder")
    ours = (out / HEADER).is_file()
    if ours and not force:
        raise ValueError(f"{out} holds prepared data already; choose another folder, or use force to replace it")
    if not ours and out.is_dir() and any(out.iterdir()):
        raise ValueError(f"{out} holds other files; choose another folder")


def _just_finished(out: Path, plan: _Plan) -> bool:
    """Whether the very last step of this same work was cut off; it is made up for."""
    if not (out / HEADER).is_file() or not (out / JOURNAL).is_file():
        return False
    journal = _read_journal(out)
    (out / JOURNAL).unlink()
    return journal is not None and journal[0]["settings"] == plan.settings()


def _move(work: Path, out: Path) -> None:
    """The finished folder takes its name; what it replaces is there until then."""
    replaced = out.with_name(out.name + REPLACED)
    shutil.rmtree(replaced, ignore_errors=True)
    if out.exists():
        out.rename(replaced)
    work.rename(out)
    (out / JOURNAL).unlink()
    shutil.rmtree(replaced, ignore_errors=True)
