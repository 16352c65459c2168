"""Files that are there whole or not at all, and disks that are full."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from glauber.runtime import files

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, the user's share of it, or the largest file allowed."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name, synced and then renamed: it is there whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes | memoryview) -> None:
    """A file of this content, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


def whole_lines(path: Path) -> bytes:
    """What a file that grows line by line holds, without a last line that a kill cut off; nothing if there is no file."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


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


def read_json(path: Path) -> dict[str, Any]:
    """An object, as `write` left it."""
    try:
        found = files.read_json(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON; it is damaged ({error})") from error
    return found if isinstance(found, dict) else {}
