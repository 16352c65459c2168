"""What the commands do with files: whether a result can be written is tried before any work; images are saved."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any


def is_full(error: BaseException) -> bool:
    """Whether it is the disk that has no room."""
    if not isinstance(error, OSError):
        return False
    from glauber.runtime.files import FULL

    return error.errno in FULL


def require_free(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless forced, or that cannot be written; before anything that takes time."""
    require_writable(folder)
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ValueError(f"{folder} is not empty; name another folder with --out, or add --force to write into it")


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made, or written into."""
    made: list[Path] = []
    with _tried(folder, "folder", "--out"):
        try:
            for part in (*reversed(folder.parents), folder):
                if os.path.exists(part) and not os.path.isdir(part):
                    raise ValueError(f"{part} is a file; name another folder with --out")
                if not part.is_dir():
                    part.mkdir()
                    made.append(part)
            _write_and_remove(folder)
        finally:
            for part in reversed(made):
                with suppress(OSError):
                    part.rmdir()


def require_new(file: Path, force: bool, option: str = "--out") -> None:
    """Refuse a file that is there, unless forced, or that cannot be written; before anything that takes time."""
    if os.path.isdir(file):
        raise ValueError(f"{file} is a folder; name a file with {option}")
    if os.path.exists(file) and not os.path.isfile(file):
        raise ValueError(f"{file} is a device; name a file with {option}")
    if os.path.exists(file) and not force:
        raise ValueError(f"{file} exists; name another file with {option}, or add --force to replace it")
    if not os.path.isdir(file.parent):
        raise ValueError(
            f"there is no folder {file.parent} to write {file.name} into; make it, or name another file with {option}"
        )
    with _tried(file, "file", option):
        _write_and_remove(file.parent, file.name)


def require_names(files: dict[str, Path | None], force: bool) -> None:
    """Refuse files, by the options that name them, that have another ending than the option's name, or cannot be written."""
    endings = {"--strip": ".png", "--gif": ".gif", "--html": ".html"}
    for option, file in files.items():
        if file is not None:
            if file.suffix.lower() != endings[option]:
                raise ValueError(f"{option} writes a {endings[option]}; name it so, not {file.name}")
            require_new(file, force, option)


@contextmanager
def _tried(path: Path, kind: str, option: str) -> Iterator[None]:
    """What the system says against it, in a sentence."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise
        why = (error.strerror or str(error)).lower()
        raise ValueError(f"{path} cannot be written ({why}); name another {kind} with {option}") from error


def _write_and_remove(folder: Path, name: str = "glauber") -> None:
    """A file that is on the disk for a moment."""
    with NamedTemporaryFile(dir=folder, prefix=f"{name}.", suffix=".tmp", buffering=0) as file:
        file.write(b"tried")
        os.fsync(file.fileno())


def save_images(images: list[Any], out: Path) -> list[str]:
    """One file each, and a sheet of all where there are several; the files' names."""
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{k:04d}.png" for k in range(len(images))]
    for image, file in zip(images, files, strict=True):
        save_image(image, file)
    if len(images) > 1:  # all at a glance, large enough to see
        import numpy as np

        from glauber.pictures import grid

        scale = max(1, 64 // images[0].height)
        files.append(out / "sheet.png")
        sheet = grid(np.stack([np.asarray(image.convert("RGB")) for image in images]), min(10, len(images)), scale)
        save_image(sheet, files[-1])
    return [str(file) for file in files]


def save_image(image: Any, file: Path) -> None:
    """As PNG, all or nothing."""
    from glauber.runtime.files import write

    content = io.BytesIO()
    image.save(content, "png")
    write(file, content.getvalue())
