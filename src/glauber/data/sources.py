"""Documents from files, folders and the hub, a piece at a time, from any position on. A document may be an image."""

import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

from glauber.data.images import SUFFIXES, THREADS, Found, Frame, find_images, frame_shape, is_image, read_image, summary
from glauber.data.prefetch import prefetch
from glauber.runtime.files import BOM, LINE, parse_json, read_array, walk
from glauber.runtime.hub import hub_answers

PIECE = 2**14
"""A document longer than so many bytes (or tokens) comes in pieces of at most that."""
LARGEST_VOCAB = 2**24
"""Of tokens in an .npy: a count is kept of each."""
ROOM = 2**28
"""Bytes of images that are read ahead."""
TEXT, LINES, TOKENS, HUB, IMAGES = ".txt", ".jsonl", ".npy", "hub:", "images"
PACKED = (".gz", ".xz", ".zst")
FEED = b"\f"


class Position(NamedTuple):
    """Where reading goes on: the file, the byte (row, image) there, and how far into its document that is (0: at its start)."""

    file: int = 0
    offset: int = 0
    within: int = 0


class Piece(NamedTuple):
    """A document or a part of one."""

    data: str | np.ndarray
    starts: bool  # whether it is the first of its document
    ends: bool  # whether it is the last of its document
    after: Position
    read: int  # bytes of its file that have been read so far, as it lies on the disk
    folder: str = ""  # of an image, the sub-folder that it lies in


class Source(NamedTuple):
    """One file, one data set of the hub, or one folder of images."""

    path: Path
    name: str  # relative to what the user named, so that it does not depend on where the data lies
    kind: str  # TEXT, LINES, TOKENS, HUB or IMAGES
    size: int
    changed: int


class Sources:
    """All documents of the named files, folders (sorted, with their sub-folders) and hub data sets, one after the other.

    .txt holds documents with form feeds between; .jsonl one document a line, in `field`; both may be packed (.gz, .xz, .zst).
    .npy holds tokens 0..vocab-1: (N,) is one document, (N, L) has one in each row. With a `frame`, it is images that are read,
    and nothing else.
    """

    def __init__(self, names: Sequence[str | Path], field: str = "text", vocab: int | None = None, frame: Frame | None = None):
        if isinstance(names, (str, Path)):
            names = [names]
        self.files = [source for name in names for source in (_find(name) if frame is None else _find_pictures(name))]
        self.field, self.vocab, self.frame = field, vocab, frame
        if not self.files:
            raise ValueError("there is nothing to read; name at least one file, folder or hub data set")
        self.tokens = self.files[0].kind == TOKENS
        if any((source.kind == TOKENS) != self.tokens for source in self.files):
            raise ValueError("some of the sources are texts and some are .npy of tokens; prepare them apart")
        if self.tokens and (vocab is None or not 2 <= vocab <= LARGEST_VOCAB):
            few = f"a whole number above 1 and at most {LARGEST_VOCAB:,}"
            raise ValueError(f"tokens in {self.files[0].path} need their vocabulary size, {few}, as vocab")
        if not self.tokens and vocab is not None:
            raise ValueError("a vocabulary size is only for .npy of tokens; for texts and images it comes with the tokenizer")
        self.shape: tuple[int, ...] = () if frame is None else frame_shape(next(find_images(self.files[0].path)).path, frame)

    @property
    def size(self) -> int:
        """Bytes on the disk, in all."""
        return sum(source.size for source in self.files)

    def describe(self) -> list[dict[str, Any]]:
        """The name and size of each file."""
        return [{"name": source.name, "bytes": source.size} for source in self.files]

    def fingerprint(self) -> list[list[Any]]:
        """What changes when a file does."""
        return [[source.name, source.size, source.changed] for source in self.files]

    def pieces(self, position: Position | None = None) -> Iterator[Piece]:
        """Every piece from the position on; the same ones, wherever reading began."""
        first = position or Position()
        for file in range(first.file, len(self.files)):
            yield from self._read(first if file == first.file else Position(file))

    def _read(self, start: Position) -> Iterator[Piece]:
        """What is left of one file."""
        source = self.files[start.file]
        if self.frame is not None:
            return self._images(source, start)
        if source.kind == TOKENS:
            return _tokens(source, start, self.vocab or 0)
        return _text(source, start) if source.kind == TEXT else _records(source, start, self.field)

    def _images(self, source: Source, start: Position) -> Iterator[Piece]:
        """A document per image."""
        found = find_images(source.path)
        read = sum(image.size for image in islice(found, start.offset))
        for place, (image, pixels) in enumerate(prefetch(self._pixels, found, THREADS, self._most), start.offset + 1):
            read += image.size
            yield Piece(pixels, True, True, Position(start.file, place), read, sub_folder(image.path, source.path))

    @property
    def _most(self) -> int:
        """Images that are read ahead."""
        return max(1, min(2 * THREADS, ROOM // int(np.prod(self.shape))))

    def _pixels(self, image: Found) -> np.ndarray:
        return read_image(image.path, self.frame or Frame(), self.shape)

    def sub_folders(self) -> tuple[str, ...]:
        """Those that directly hold the images, of all folders together; each image must lie in one."""
        found = {image.path: sub_folder(image.path, source.path) for source in self.files for image in find_images(source.path)}
        stray = next((path for path, name in found.items() if not name), None)
        if stray is not None:
            raise ValueError(f"{stray} lies in no sub-folder, whose name would be its class; put it into one")
        return tuple(sorted(set(found.values())))

    def pictures(self, most: int, files: int | None = None) -> Iterator[np.ndarray]:
        """Images of at most about `most` bytes in all, evenly spaced over the first `files` files."""
        found = [source.path for source in self.files[:files]]
        count = sum(1 for path in found for _ in find_images(path))
        step = max(1, -(-count * int(np.prod(self.shape)) // most))  # every how manieth image
        every = islice((image for path in found for image in find_images(path)), 0, None, step)
        return (pixels for _, pixels in prefetch(self._pixels, every, THREADS, self._most))

    def texts(self, most: int, files: int | None = None) -> Iterator[str]:
        """About `most` characters, from the start of each of the first `files` files in equal shares."""
        files = files or len(self.files)
        for file in range(files):
            share = max(1, most // (files - file))
            for piece in self._read(Position(file)):
                share, most = share - len(piece.data), most - len(piece.data)
                yield str(piece.data)
                if share <= 0:
                    break

    def row_length(self) -> int | None:
        """L where the tokens come in rows (N, L)."""
        shapes = {open_tokens(source.path).shape[1:] for source in self.files} if self.tokens else {()}
        if len(shapes) > 1:
            raise ValueError("the .npy files have rows of different lengths; prepare them apart")
        shape = shapes.pop()
        return shape[0] if shape else None


def sub_folder(image: Path, source: Path) -> str:
    """The first folder below the source that leads to the image; empty if there is none."""
    parts = image.relative_to(source).parts
    return parts[0] if len(parts) > 1 else ""


def _find(name: str | Path) -> list[Source]:
    if isinstance(name, str) and name.startswith(HUB):
        return [Source(Path(name), name, HUB, 0, 0)]
    path = Path(name)
    if path.is_dir():
        files = (Path(entry.path) for entry in walk(path, lambda folder: not folder.is_symlink()))
        paths = [file for file in files if file.is_file() and _kind(file)]
        if not paths and next(find_images(path), None) is not None:
            raise ValueError(f"{path} holds images; name a tokenizer of images, such as patches:512 or pixels:16")
        if not paths:
            raise ValueError(f"{path} holds no .txt, .jsonl (as they are, or packed as .gz, .xz, .zst) or .npy")
        return [_source(p, p.relative_to(path).as_posix()) for p in paths]
    if not path.is_file():
        local = path.suffix or path.is_absolute()  # and so no name of the hub
        hint = "check the name" if local else f"for a data set of the hub write hub:{name}"
        raise ValueError(f"there is no file or folder {path}; {hint}")
    if is_image(path):
        raise ValueError(f"{path} is an image; name a tokenizer of images, such as patches:512 or pixels:16")
    if not _kind(path):
        raise ValueError(f"{path} is not a .txt, .jsonl (as it is, or packed as .gz, .xz, .zst) or .npy; rename or convert it")
    return [_source(path, path.name)]


def _find_pictures(name: str | Path) -> list[Source]:
    path = Path(name)
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"there is no file or folder {path}; name an image or a folder of images")
    count, size, changed = summary(path)
    if not count or (path.is_file() and not is_image(path)):
        raise ValueError(f"{path} {'holds no images' if path.is_dir() else 'is no image'} (those end in {', '.join(SUFFIXES)})")
    return [Source(path, path.resolve().name, IMAGES, size, changed)]


def _kind(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix in PACKED else path
    known = (TEXT, LINES) if path.suffix in PACKED else (TEXT, LINES, TOKENS)
    hidden = path.name.startswith(".")
    return plain.suffix if plain.suffix in known and not hidden else ""


def _source(path: Path, name: str) -> Source:
    stat = path.stat()
    return Source(path, name, _kind(path), stat.st_size, stat.st_mtime_ns)


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise ImportError("reading .zst needs zstandard: pip install 'glauber[text]'") from error


class _Frames(io.RawIOBase):
    """The frames of a .zst, unpacked; a frame cut short is an EOFError, which zstandard's own reader passes over."""

    def __init__(self, raw: IO[bytes]):
        self.raw, self.packed, self.ready = raw, b"", b""
        self.frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self.ready:
            self.packed = self.packed or self.raw.read(2**13)
            if not self.packed and self.frame is not None:
                raise EOFError
            if not self.packed:
                return 0
            self.frame = self.frame or _zstandard().ZstdDecompressor().decompressobj()
            self.ready, self.packed = self.frame.decompress(self.packed), b""
            if self.frame.eof:
                self.packed, self.frame = self.frame.unused_data, None
        size = min(len(target), len(self.ready))
        target[:size], self.ready = self.ready[:size], self.ready[size:]
        return size


def _unpacked(raw: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if suffix == ".xz":
        return lzma.LZMAFile(raw)
    if suffix == ".zst":
        return io.BufferedReader(_Frames(raw), 2**20)
    return raw


@contextmanager
def _stream(source: Source, offset: int) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The bytes of a file, unpacked, from the offset on; and the file itself, which tells how much of it was needed."""
    damaged: tuple[type[Exception], ...] = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
    if source.path.suffix == ".zst":
        damaged = (*damaged, _zstandard().ZstdError)
    try:
        with source.path.open("rb") as raw:
            stream = _unpacked(raw, source.path.suffix)
            if stream is raw:
                raw.seek(offset)
            while stream is not raw and offset > 0:
                offset -= len(stream.read(min(offset, 2**20))) or offset
            yield stream, raw
    except damaged as error:
        raise ValueError(f"{source.path} is damaged or cut short and cannot be unpacked; fetch it again") from error


def _text(source: Source, start: Position) -> Iterator[Piece]:
    """Documents with form feeds between. A piece depends on the next PIECE bytes, whether more follow, and nothing else."""
    file, offset, within = start
    buffer, at, more = b"", 0, True
    with _stream(source, offset) as (stream, raw):
        while True:
            if len(buffer) - at <= PIECE and more:
                fresh = stream.read(64 * PIECE)
                buffer, at, more = buffer[at:] + fresh, 0, bool(fresh)
                continue
            if at == len(buffer):
                return
            size, ends = _cut(buffer, at, FEED)
            text = _decode(buffer[at : at + size], source, offset)
            step = size + buffer.startswith(FEED, at + size) if ends else size
            starts, at, offset, within = within == 0, at + step, offset + step, 0 if ends else within + size
            if text.strip() or not (starts and ends):
                yield Piece(text, starts, ends, Position(file, offset, within), raw.tell())


def _records(source: Source, start: Position, field: str) -> Iterator[Piece]:
    """Documents that are a field of a record: a line of .jsonl, or a row of a data set of the hub."""
    records = _rows(source, start.offset) if source.kind == HUB else _lines(source, start.offset)
    for record, here, after, read in records:
        where = f"the record at {'row' if source.kind == HUB else 'byte'} {here} of {source.name}"
        data = _field(record, field, where)
        at = start.within if here == start.offset else 0
        while data.strip() and at < len(data):
            size, ends = _cut(data, at)
            position = Position(start.file, after) if ends else Position(start.file, here, at + size)
            yield Piece(data[at : at + size].decode(), at == 0, ends, position, read)
            at += size


def _lines(source: Source, offset: int) -> Iterator[tuple[Any, int, int, int]]:
    """Each line's JSON, where it begins, where the next one does, and how much of the file was read."""
    with _stream(source, offset) as (stream, raw):
        while line := stream.readline(LINE + 1):
            if len(line) > LINE:
                raise ValueError(f"the line at byte {offset} of {source.path} is longer than {LINE >> 20} MiB; split it")
            after = offset + len(line)
            if line.strip():
                yield _json(line, source, offset), offset, after, raw.tell()
            offset = after


def _json(line: bytes, source: Source, offset: int) -> Any:
    try:
        return parse_json(line.removeprefix(BOM) if offset == 0 else line)
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"the line at byte {offset} of {source.path} is not JSON; each line must be one object") from error


def _rows(source: Source, offset: int) -> Iterator[tuple[Any, int, int, int]]:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise ImportError("data sets of the hub need datasets: pip install 'glauber[text]'") from error
    name, _, config = source.name.removeprefix(HUB).partition(":")
    if not hub_answers():
        raise ValueError(f"the hub does not answer, so the data set {name!r} cannot be read; check the network")
    try:
        rows = datasets.load_dataset(name, config or None, split="train", streaming=True)
    except Exception as error:  # the hub client has many kinds of failure, all of them the same to the user
        raise ValueError(f"the hub did not give the data set {name!r}; check the name and the network") from error
    for row, record in enumerate(rows.skip(offset) if offset else rows, offset):
        yield record, row, row + 1, 0


def _field(record: Any, field: str, where: str) -> bytes:
    """The document in UTF-8."""
    if not isinstance(record, dict) or not isinstance(record.get(field), str):
        has = [name for name, value in record.items() if isinstance(value, str)] if isinstance(record, dict) else []
        raise ValueError(f"{where} has no text in the field {field!r}; there is text in: {', '.join(has) or 'none'}")
    text: str = record[field]
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} holds half a character, {text[error.start]!r}, which is no Unicode text; mend it") from error


def _cut(data: bytes, at: int, stop: bytes = b"") -> tuple[int, bool]:
    """The size of the piece that begins at `at`, and whether it is the last of its document.

    A cut lies before white space that follows something else, where every usual tokenizer begins a new token anyway.
    """
    found = data.find(stop, at, at + PIECE) if stop else -1
    if found >= 0:
        return found - at, True
    if len(data) - at <= PIECE:
        return len(data) - at, True
    window = data[at : at + PIECE]
    last = max(window.rfind(space) for space in (b" ", b"\n", b"\t", b"\r"))
    return len(window[: max(last, 0)].rstrip(b" \n\t\r")) or _whole(window), False


def _whole(window: bytes) -> int:
    """How much of the window to take so that no character is cut in two."""
    size = len(window) - 1
    while size > len(window) - 4 and window[size] & 0xC0 == 0x80:
        size -= 1
    return size


def _decode(data: bytes, source: Source, offset: int) -> str:
    try:
        return (data.removeprefix(BOM) if offset == 0 else data).decode()
    except UnicodeDecodeError as error:
        place = offset + error.start
        raise ValueError(f"{source.path} is not UTF-8 at byte {place}; convert it, for example with iconv -t UTF-8") from error


def open_tokens(path: str | Path) -> np.ndarray:
    """(N,) or (N, L) of whole numbers, mapped and not read."""
    tokens = read_array(path)
    if tokens.dtype.kind not in "iu" or tokens.ndim not in (1, 2) or not tokens.size:
        raise ValueError(f"{path} must hold whole numbers of shape (N,) or (N, L), not {tokens.dtype} {tokens.shape}")
    return tokens


def _tokens(source: Source, start: Position, vocab: int) -> Iterator[Piece]:
    """A document per row, or the only one in pieces."""
    tokens = open_tokens(source.path)
    step = PIECE if tokens.ndim == 1 else max(1, PIECE // tokens.shape[1])
    for offset in range(start.offset, len(tokens), step):
        block = np.array(tokens[offset : offset + step])
        if block.min() < 0 or block.max() >= vocab:
            span = f"{block.min()}..{block.max()}"
            raise ValueError(
                f"{source.path} holds tokens of {span}, which do not fit a vocabulary of {vocab}; name a larger one, or theirs"
            )
        after = offset + len(block)
        read = min(after * tokens[:1].nbytes, source.size)
        if tokens.ndim == 1:
            yield Piece(block, offset == 0, after == len(tokens), Position(start.file, after, after), read)
        for row, data in enumerate(block if tokens.ndim == 2 else (), offset + 1):
            yield Piece(data, True, True, Position(start.file, row), read)
