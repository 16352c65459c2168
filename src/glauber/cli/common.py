"""What the commands share: their common options, and what they do with files and pictures."""

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any

import typer

from glauber import __version__

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"glauber {__version__}")
        raise typer.Exit


@app.callback()
def glauber(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The Glauber Generative Model: generate and fill in tokens by re-sampling one site at a time."""


BOXED = " or ".join(sorted(config.parent.name for config in (Path(__file__).parents[1] / "bundled").glob("*/config.json")))
MODEL = f"{BOXED}, which are in the box; the folder of a run or a model; or a hub id owner/name"
PAPERS = "paper-owt, paper-celebahq, paper-ffhq, paper-800m"
RECIPES = f"tiny, small, digits, novels, fashion or faces, or one of the paper's: {PAPERS}"


def check_seed(seed: int | None) -> int | None:
    """Refuse what no generator takes."""
    if seed is not None and not 0 <= seed < 2**63:
        raise typer.BadParameter(f"a seed is a whole number from 0 to 2^63 - 1, not {seed}")
    return seed


ClassName = Annotated[
    str | None, typer.Option("--class", help="Of one class, by its name or number, where the model was trained on classes.")
]
Guidance = Annotated[
    float | None,
    typer.Option(help="How far to go beyond the class's own law, e.g. 2; not at all if not given. It doubles the calls."),
]
ModelName = Annotated[str, typer.Argument(metavar="MODEL", help=f"{MODEL}.")]
Seed = Annotated[int | None, typer.Option(callback=check_seed, help="Give one to get the same result again.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty, or replace a file.")]
Sweeps = Annotated[int | None, typer.Option(help="Visits per site; the model's own number if not given.")]
Block = Annotated[int | None, typer.Option(help="Sites re-sampled at once: faster, no longer exact.")]
Order = Annotated[
    str | None,
    typer.Option(
        help="Of noising; what is written goes the other way: left, right (from left to right), random, strided, onward."
    ),
]
Kernel = Annotated[str | None, typer.Option(help="heat-bath, or reversal, which keeps a site's own token as evidence.")]
TopP = Annotated[
    float | None, typer.Option("--top-p", help="Draw only from the likeliest tokens that make up this probability.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw only from this many likeliest tokens.")]
Temperature = Annotated[
    str | None, typer.Option(help="Below 1 safer, above 1 more varied; 1.05,1.0 is 1.05 for the first half of the chain.")
]


def is_full(error: BaseException) -> bool:
    """Whether it is the disk that has no room."""
    if not isinstance(error, OSError):
        return False
    from glauber.data.writing import FULL

    return error.errno in FULL


def calm_threads() -> None:
    """Half the cores, unless the user chose: threads that wait for each other are at the mercy of whatever else runs."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


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


def chain_options(
    kernel: str | None,
    top_p: float | None,
    top_k: int | None,
    temperature: str | None,
    class_name: str | None = None,
    guidance: float | None = None,
) -> dict[str, Any]:
    """What the user set."""
    asked: dict[str, Any] = {"kernel": kernel, "top_p": top_p, "top_k": top_k, "class_": class_name, "guidance": guidance}
    if temperature is not None:
        try:
            asked["temperature"] = [float(part) for part in temperature.split(",")]
        except ValueError:
            raise ValueError(f"temperature is a number, or several with commas between, not {temperature!r}") from None
    return {name: value for name, value in asked.items() if value is not None}


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
    from glauber.data.writing import write

    content = io.BytesIO()
    image.save(content, "png")
    write(file, content.getvalue())


def print_table(words: dict[str, str]) -> None:
    """Names and texts in two columns; on a screen long texts are folded, in a file each stays on its line."""
    wide = max(map(len, words)) + 2
    room = max(20, shutil.get_terminal_size().columns - wide) if sys.stdout.isatty() else sys.maxsize
    for name, text in words.items():
        lines = textwrap.wrap(text, room) or [""]
        print(f"{name:<{wide}}" + f"\n{'':{wide}}".join(lines))


def command() -> str:
    """How this program is called here: `make` keeps it out of the PATH."""
    if shutil.which("glauber"):
        return "glauber"
    program = Path(sys.argv[0])
    return "python -m glauber" if program.name == "__main__.py" else os.path.relpath(program)
