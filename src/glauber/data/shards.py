"""Token shards: rows of L tokens in plain files, read through memory maps."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from glauber.codec import Codec, codec_from_dict
from glauber.runtime.files import read_array, read_json, read_tensors, require_file, write

FORMAT = "glauber-shards-1"
HEADER, COUNTS, CODEC = "header.json", "counts.npy", "codec.safetensors"
SPLITS = ("train", "valid")
KEYS = ("format", "hash", "codec", "vocab", "length", "dtype", "splits", "counts", "sources", "totals")


class Rows:
    """The rows of one split: `len(rows)`, and `rows[indices]` as int64 (..., L) for indices of any shape (...) or a slice.

    Where rows have classes, each is followed by its own in the file, and `rows.classes(indices)` gives them, (...).
    """

    def __init__(self, files: list[Path], sizes: list[int], length: int, dtype: str, has_classes: bool = False):
        self.files, self.length, self.dtype, self.has_classes = files, length, np.dtype(dtype).newbyteorder("<"), has_classes
        self._ends = np.cumsum([0, *sizes])
        self._maps: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, indices: Any) -> np.ndarray:
        return self._read(indices)[..., : self.length]

    def classes(self, indices: Any) -> np.ndarray:
        if not self.has_classes:
            raise ValueError("these rows have no classes; prepare folders of images with classes")
        return self._read(indices)[..., self.length]

    def _read(self, indices: Any) -> np.ndarray:
        wanted = np.arange(len(self))[indices] if isinstance(indices, slice) else np.asarray(indices)
        if wanted.size and (wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"rows are numbered 0..{len(self) - 1} by whole numbers; these indices are not")
        flat = wanted.reshape(-1).astype(np.int64)
        shards = np.searchsorted(self._ends, flat, side="right") - 1
        rows = np.empty((len(flat), self.length + self.has_classes), dtype=np.int64)
        for shard in np.unique(shards):
            here = shards == shard
            rows[here] = self._map(int(shard))[flat[here] - self._ends[shard]]
        return rows.reshape(*wanted.shape, rows.shape[1])

    def _map(self, shard: int) -> np.ndarray:
        if shard not in self._maps:
            shape = (int(self._ends[shard + 1] - self._ends[shard]), self.length + self.has_classes)
            self._maps[shard] = np.memmap(self.files[shard], dtype=self.dtype, mode="r", shape=shape)
        return self._maps[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": {}}  # a pickled map would be a copy of the data


class Shards:
    """A folder of prepared tokens.

    Attributes:
        codec: of the texts or images, or None for tokens that came without one.
        vocab, length: V and L.
        classes: the names of the rows' classes; empty where they have none.
        counts: int64 (V,), how often each token occurs in the training rows.
        hash: of all that the rows, the counts and the codec say; the same wherever the folder lies.
        header: everything else, as in header.json.
    """

    def __init__(self, folder: Path, header: dict[str, Any]):
        self.folder, self.header = folder, header
        self.vocab: int = header["vocab"]
        self.length: int = header["length"]
        self.hash: str = header["hash"]
        self.classes: tuple[str, ...] = tuple(header.get("classes", ()))
        self.codec = read_codec(folder, header["codec"])
        if self.codec is not None and self.codec.vocab != self.vocab:
            raise ValueError(f"{folder / HEADER} says V = {self.vocab}, its codec {self.codec.vocab}; prepare the data again")
        self.counts = _read_counts(folder, self.vocab)

    def rows(self, split: str) -> Rows:
        """The rows of "train" or "valid"."""
        if split not in self.header["splits"]:
            raise ValueError(f"there is no split {split!r}; choose one of {', '.join(self.header['splits'])}")
        shards = self.header["splits"][split]
        files, sizes = [self.folder / shard["file"] for shard in shards], [shard["rows"] for shard in shards]
        return Rows(files, sizes, self.length, self.header["dtype"], bool(self.classes))

    def verify(self) -> None:
        """Read every byte and compare the hashes."""
        for shard in _listed(self.header):
            path = self.folder / shard["file"]
            if sha256(path) != shard["sha256"]:
                raise ValueError(f"the contents of {path} are not what was prepared (its hash differs); prepare the data again")


def open_shards(folder: str | Path) -> Shards:
    """The shards of a folder; every file must be there in its full size. `Shards.verify` also checks what is in them."""
    folder = Path(folder)
    header = _read_header(folder)
    row = (header["length"] + bool(header.get("classes"))) * np.dtype(header["dtype"]).itemsize
    for shard in _listed(header):
        path = folder / shard["file"]
        if not path.is_file():
            raise ValueError(f"the file {path} is missing; copy it there, or prepare the data again")
        if "rows" in shard and path.stat().st_size != shard["rows"] * row:
            wanted = shard["rows"] * row
            raise ValueError(f"{path} has {path.stat().st_size} bytes instead of {wanted}; copy or prepare the data again")
    return Shards(folder, header)


def write_codec(folder: Path, codec: Codec | None) -> dict[str, Any] | None:
    """What the header says of a codec; its tensors, if it has any, go into a file beside it."""
    if codec is None or not codec.tensors():
        return None if codec is None else codec.to_dict()
    from safetensors.torch import save

    content = save(codec.tensors())
    write(folder / CODEC, content)
    return {**codec.to_dict(), "tensors": {"file": CODEC, "sha256": hashlib.sha256(content).hexdigest()}}


def read_codec(folder: Path, said: dict[str, Any] | None) -> Any:
    """The inverse of `write_codec`."""
    if said is None or "tensors" not in said:
        return None if said is None else codec_from_dict(said, {})
    path = require_file(folder / said["tensors"]["file"])
    if sha256(path) != said["tensors"]["sha256"]:
        raise ValueError(f"the contents of {path} are not what was prepared (its hash differs); prepare the data again")
    return codec_from_dict({name: value for name, value in said.items() if name != "tensors"}, read_tensors(path))


def row_dtype(vocab: int) -> str:
    """The type that holds 0..V-1; on the disk it is little-endian."""
    return "uint16" if vocab <= 2**16 else "uint32"


def content_hash(header: dict[str, Any]) -> str:
    """One sha256 of the codec, the shape, the classes if there are any, and the contents of all files."""
    names = ("format", "codec", "vocab", "length", "dtype", "splits", "counts", *(["classes"] if "classes" in header else []))
    said = {name: header[name] for name in names}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listed(header: dict[str, Any]) -> Iterable[dict[str, Any]]:
    tensors = (header["codec"] or {}).get("tensors")
    shards = [shard for shards in header["splits"].values() for shard in shards]
    return [*shards, header["counts"], *([] if tensors is None else [tensors])]


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    if not path.is_file():
        raise ValueError(f"{folder} holds no prepared data: there is no {HEADER}; make it with glauber prepare")
    try:
        header: dict[str, Any] = read_json(path, times=16)  # the names of a million sources may stand in it
        same = header["format"] == FORMAT and all(key in header for key in KEYS) and content_hash(header) == header["hash"]
    except (ValueError, KeyError, TypeError):
        same = False
    if not same or not _is_sound(header):
        raise ValueError(f"{path} is damaged, or of another version of glauber; prepare the data again")
    return header


def _is_sound(header: dict[str, Any]) -> bool:
    """Whether everything is of its kind, and every file lies in the folder; a hash says only who wrote it last."""
    try:
        files = [*_listed(header)]
        rows = [shard["rows"] for shards in header["splits"].values() for shard in shards]
        whole = [header["vocab"], header["length"], *rows]
        names = [*header.get("classes", ())]
        return (
            all(type(number) is int for number in whole)
            and min(whole[:2]) >= 1
            and min(rows, default=0) >= 0
            and header["dtype"] in ("uint16", "uint32")
            and all(file["file"] not in ("", "..") and Path(file["file"]).name == file["file"] for file in files)
            and all(isinstance(name, str) for name in names)
            and isinstance(header["codec"], dict | None)
            and all(isinstance(source["name"], str) for source in header["sources"])
            and all(type(count) is int for count in header["totals"].values())
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _read_counts(folder: Path, vocab: int) -> np.ndarray:
    try:
        counts = read_array(folder / COUNTS)
    except ValueError as error:
        raise ValueError(f"{folder / COUNTS} is damaged; prepare the data again") from error
    if counts.shape != (vocab,) or counts.dtype != np.int64:
        raise ValueError(f"{folder / COUNTS} does not hold one count per token; prepare the data again")
    return np.array(counts)
