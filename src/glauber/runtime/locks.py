"""Locks: one process at a time works in a folder, or on a file that grows."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock(path: Path, busy: str) -> int:
    """Of a folder, or of a file that is made if there is none: a descriptor, which holds it until it is closed.

    It is gone with this process, however that ends. Where another process holds it, or has just moved it away, the sentence
    `busy` says so.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = _is_there(descriptor, path)
    except BlockingIOError:
        free = False
    except OSError:  # a file system without locks
        free = True
    if not free:
        os.close(descriptor)
        raise ValueError(busy)
    return descriptor


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """The same, for a block."""
    descriptor = lock(path, busy)
    try:
        yield
    finally:
        os.close(descriptor)


def _is_there(descriptor: int, path: Path) -> bool:
    """Whether what was opened still lies at the path."""
    return path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())
