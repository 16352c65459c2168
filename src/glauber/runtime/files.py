"""Files: what is read may be anything, what is written is there whole or not at all.

Reading takes bounded memory, and what is wrong with a file is a ValueError.
"""

import errno
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

JSON_BYTES = 2**26
JSON_VALUES = 2**22
JSON_DEPTH = 100
"""A JSON text may be so long, hold about so many values, and nest so deep: more than any config or tokenizer has."""
FEW_BYTES = 2**22
"""Of a shorter text the values need not be counted."""
LINE = 2**26
"""A line of .jsonl is at most so many bytes long."""
NPY_HEADER = 2**10
"""Bytes of an .npy's header: that of an array of numbers is shorter, and numpy may take minutes to refuse a long one."""
BOM = b"\xef\xbb\xbf"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, the user's share of it, or the largest file allowed."""
DEEP = f"this JSON is nested more than {JSON_DEPTH} deep"


def require_file(path: str | os.PathLike[str]) -> Path:
    """The path, if a regular file lies there: a pipe would be waited for, and some devices never end."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no file {path}; check the name")
    if not path.is_file():
        raise ValueError(f"{path} is a {'folder' if path.is_dir() else 'pipe or a device'}; name a file")
    return path


def walk(path: str | os.PathLike[str], into: Callable[["os.DirEntry[str]"], bool]) -> Iterator["os.DirEntry[str]"]:
    """Everything below a folder that is no folder, in the order of the names; `into` says which folders to enter.

    A folder is entered once, however many links lead to it, and however deep it lies.
    """
    seen, levels = {_identity(path)}, [_entries(path)]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
        elif not entry.is_dir():
            yield entry
        elif into(entry) and (own := _identity(entry)) not in seen:
            seen.add(own)
            levels.append(_entries(entry.path))


def _entries(path: str | os.PathLike[str]) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(path) as entries:
        return iter(sorted(entries, key=lambda entry: entry.name))


def _identity(path: "str | os.PathLike[str]") -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """The content of a regular file of at most so many bytes."""
    path = require_file(path)
    if path.stat().st_size > most:
        raise ValueError(f"{path} has more than {most >> 20} MiB, which is too much for a file of its kind")
    with path.open("rb") as file:
        return file.read(most)


def read_json(path: str | os.PathLike[str], times: int = 1) -> Any:
    """The value in a JSON file; `parse_json` says what is refused."""
    return parse_json(read_bytes(path, times * JSON_BYTES), times)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that `write` left in a file."""
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON; it is damaged ({error})") from error
    return found if isinstance(found, dict) else {}


def parse_json(text: bytes | str, times: int = 1) -> Any:
    """The value of a JSON text of a sane size: a hostile one takes twenty times its own length, or nests without end.

    times: how often larger than usual it may be.
    """
    most, count = times * JSON_VALUES, text.count
    signs: Any = "[{," if isinstance(text, str) else (b"[", b"{", b",")
    if len(text) > FEW_BYTES and sum(map(count, signs)) > most:
        raise ValueError(f"this JSON holds more than {most:,} values")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(DEEP) from None
    if _is_deep(value):
        raise ValueError(DEEP)
    return value


def json_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line of a .jsonl that is not blank."""
    with require_file(path).open("rb") as file:
        number = 0
        while line := file.readline(LINE + 1):
            number += 1
            if len(line) > LINE:
                raise ValueError(f"line {number} of {path} is longer than {LINE >> 20} MiB; split it")
            if line.strip():
                try:
                    yield number, parse_json(line.removeprefix(BOM) if number == 1 else line)
                except ValueError as error:
                    raise ValueError(f"line {number} of {path} is not JSON; each line must be one object") from error


def whole_lines(path: Path) -> bytes:
    """What a file that grows line by line holds, without a last line that a kill cut off; nothing if there is no file."""
    content = require_file(path).read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def _is_deep(value: Any) -> bool:
    """Whether lists and tables are nested deeper than is allowed."""
    level = [value]
    for _ in range(JSON_DEPTH + 1):
        level = [each for each in level if isinstance(each, list | dict)]
        if not level:
            return False
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return True


def read_array(path: str | os.PathLike[str]) -> "np.ndarray":
    """The array of numbers in an .npy, mapped: it takes memory where it is looked at, whatever its header says."""
    from tokenize import TokenError  # of a header that numpy reads as Python

    import numpy as np

    path = require_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of sides whose product is too large to count
            array: np.ndarray = np.lib.format.open_memmap(path, mode="r", max_header_size=NPY_HEADER)
    except (
        OSError,
        ValueError,
        EOFError,
        OverflowError,
        TypeError,
        SyntaxError,
        TokenError,
        MemoryError,
        RecursionError,
    ) as error:
        raise ValueError(f"{path} is damaged, or not an array of numbers that numpy saved") from error
    return array


def read_tensors(path: str | os.PathLike[str]) -> "dict[str, Tensor]":
    """The tensors of a .safetensors, mapped."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = require_file(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError, RuntimeError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} is cut short or not a safetensors file; get it again") from error


def unpacked_size(path: str | os.PathLike[str]) -> int:
    """Bytes that the members of a zip archive say they unpack to; no more are ever read of them."""
    try:
        with zipfile.ZipFile(require_file(path)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged or cut short; get it again") from error


def write(path: Path, content: bytes | memoryview) -> None:
    """A file of this content, whole or not at all."""
    write_all({path: content})


def write_all(contents: Mapping[Path, bytes | memoryview]) -> None:
    """Several files: all lie on the disk under temporary names before the first gets its own."""
    temporary = {path: _temporary(path) for path in contents}
    try:
        for path, content in contents.items():
            with _synced(temporary[path]) as file:
                file.write(content)
        for path, unnamed in temporary.items():
            unnamed.replace(path)
    except BaseException:
        for unnamed in temporary.values():
            unnamed.unlink(missing_ok=True)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to be written piece by piece, whole or not at all."""
    try:
        with _synced(_temporary(path)) as file:
            yield file
        _temporary(path).replace(path)
    except BaseException:
        _temporary(path).unlink(missing_ok=True)
        raise


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


@contextmanager
def _synced(path: Path) -> Iterator[BinaryIO]:
    """A file that is on the disk at the end."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """So that the names in it, too, survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DiskFullError(OSError):
    """Said in a sentence already."""


@contextmanager
def disk_full_said(folder: Path, then: str) -> Iterator[None]:
    """A full disk, behind whatever error, is one sentence that ends in what to do when there is space."""
    try:
        yield
    except DiskFullError:
        raise
    except OSError as error:
        cause: BaseException | None = error
        while cause is not None and getattr(cause, "errno", None) not in FULL:
            cause = cause.__cause__
        if cause is None:
            raise
        raise DiskFullError(f"the disk of {folder} is full; free some space and {then}") from error
