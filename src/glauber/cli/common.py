"""What the commands share: their common options, and what they do with files and pictures."""

import io
import os
import shutil
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

LARGEST = 50 * 10**6
"""Pixels of an image that a user gives."""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The Glauber Generative Model: generate and fill in tokens by re-sampling one site at a time.",
)

ClassName = Annotated[
    str | None, typer.Option("--class", help="Of this class, by name or number, for a model trained on classes.")
]
Guidance = Annotated[
    float | None, typer.Option(help="How far beyond the class's own law to go, e.g. 2; 0 if not given, else twice the calls.")
]
ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="novels, a run's or a model's folder, or a hub id owner/name.")]
Seed = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Give one to get the same result again.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty, or replace a file.")]
Sweeps = Annotated[int | None, typer.Option(help="Visits per site; the model's own number if not given.")]
Block = Annotated[int | None, typer.Option(help="Sites re-sampled at once: faster, no longer exact.")]
Order = Annotated[str | None, typer.Option(help="Order of the sites: left, right, random, strided or onward.")]
Kernel = Annotated[str | None, typer.Option(help="heat-bath, or reversal, which keeps a site's own token as evidence.")]
TopP = Annotated[
    float | None, typer.Option("--top-p", help="Draw only from the likeliest tokens that make up this probability.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw only from this many likeliest tokens.")]
Temperature = Annotated[
    str | None, typer.Option(help="Below 1 safer, above 1 more varied; 1.05,1.0 is 1.05 for the first half of the chain.")
]


def calm_threads() -> None:
    """Half the cores, unless the user chose: threads that wait for each other are at the mercy of whatever else runs."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


def require_free(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless forced."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder with --out")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ValueError(f"{folder} is not empty; name another folder with --out, or add --force to write into it")


def require_new(file: Path, force: bool, option: str = "--out") -> None:
    """Refuse a file that is there, unless forced, or that cannot be written; before anything that takes time."""
    if file.is_dir():
        raise ValueError(f"{file} is a folder; name a file with {option}")
    if file.exists() and not force:
        raise ValueError(f"{file} exists; name another file with {option}, or add --force to replace it")
    if not file.parent.is_dir():
        raise ValueError(
            f"there is no folder {file.parent} to write {file.name} into; make it, or name another file with {option}"
        )


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


def open_image(path: Path, paper: str = "white") -> Any:
    """A PIL image, read whole, upright and flat, on paper of that colour where it can be seen through.

    One that is far too large is refused before it is read.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("images need pillow: pip install 'glauber[image]'") from error
    from glauber.data.images import flat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we look for ourselves
            image = Image.open(path)
        with image:
            if image.width * image.height <= LARGEST:
                return flat(ImageOps.exif_transpose(image), paper)
    except Image.DecompressionBombError:
        pass
    except (OSError, ValueError, SyntaxError, EOFError, UnidentifiedImageError):
        raise ValueError(f"{path} is missing, cut short, or not an image") from None
    raise ValueError(f"{path} has more than {LARGEST // 10**6} million pixels; make it smaller")


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
    return "glauber" if shutil.which("glauber") else os.path.relpath(sys.argv[0])
