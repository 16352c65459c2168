"""The command line. Thin: it reads arguments, calls the library, prints."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The Glauber Generative Model: generate and fill in tokens by re-sampling one site at a time.",
)

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, or its hub id owner/name.")]
Seed = Annotated[int | None, typer.Option(help="Give one to get the same result again.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")]
Sweeps = Annotated[int | None, typer.Option(help="Visits per site; the model's own number if not given.")]
Block = Annotated[int | None, typer.Option(help="Sites re-sampled at once: faster, no longer exact.")]
Order = Annotated[str | None, typer.Option(help="Order of the sites: left, right, random or strided.")]
Kernel = Annotated[str, typer.Option(help="heat-bath, or reversal, which keeps a site's own token as evidence.")]
TopP = Annotated[float, typer.Option("--top-p", help="Draw only from the likeliest tokens that make up this probability.")]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw only from this many likeliest tokens.")]
Temperature = Annotated[str, typer.Option(help="Below 1 bolder; 1.05,1.0 means 1.05 for the first half of the chain.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures, the model and summary.json.")] = Path("demo"),
    force: Force = False,
    seed: Annotated[int, typer.Option(help="Another seed, other digits.")] = 0,
) -> None:
    """Train on embedded digits from scratch, sample, fill gaps in, and write pictures of it (about two minutes)."""
    _require_free(out, force)
    _require_demo_packages()
    from glauber.demo import run_demo

    _print_demo(run_demo(out, seed), out)


@app.command()
def sample(
    model: ModelName,
    num: Annotated[int, typer.Option("-n", "--num", help="How many samples.")] = 4,
    seed: Seed = None,
    sweeps: Sweeps = None,
    block: Block = None,
    order: Order = None,
    kernel: Kernel = "heat-bath",
    top_p: TopP = 1.0,
    top_k: TopK = None,
    temperature: Temperature = "1.0",
    out: Annotated[Path | None, typer.Option(help="Folder for the images, or for tokens.json.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw samples: images into a folder, tokens onto the screen."""
    from glauber.model import load

    if num < 1:
        raise ValueError(f"ask for at least one sample, not {num}")
    loaded = load(model)
    if loaded.codec is not None and out is None:
        raise ValueError("this model makes images; say where to put them, e.g. --out samples")
    if out is not None:
        _require_free(out, force)
    began = time.perf_counter()
    options = _chain_options(loaded.sampling, kernel, top_p, top_k, temperature)
    tokens = loaded.sample_tokens(num, seed, sweeps, block, order, progress=not as_json, **options)
    result: dict[str, Any] = {"tokens": tokens.tolist(), "seconds": time.perf_counter() - began}
    if loaded.codec is not None and out is not None:
        result["files"] = _save_images(loaded.decode(tokens), out)
    elif out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "tokens.json").write_text(json.dumps(tokens.tolist()) + "\n")
        result["files"] = [str(out / "tokens.json")]
    _print_sample(result, as_json)


@app.command()
def infill(
    model: ModelName,
    image: Annotated[Path, typer.Option(help="The image, of the size that the model was trained on.")],
    mask: Annotated[Path, typer.Option(help="An image of the same size: white is filled in, black stays.")],
    num: Annotated[int, typer.Option("-n", "--num", help="How many different fills.")] = 1,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for the filled images.")] = Path("filled"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fill the white part of a mask in. The rest of the image comes back as it was."""
    from glauber.model import load

    if num < 1:
        raise ValueError(f"ask for at least one fill, not {num}")
    _require_free(out, force)
    loaded = load(model)
    picture, hole = _open_image(image), _open_image(mask).convert("L")
    if loaded.codec is not None and len(loaded.codec.shape) == 2:
        picture = picture.convert("L")
    began = time.perf_counter()
    images = loaded.inpaint(picture, hole, num, seed, progress=not as_json)
    _print_sample({"seconds": time.perf_counter() - began, "files": _save_images(images, out)}, as_json)


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="A model's folder, or its hub id.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Tell about a recipe instead, e.g. paper-owt.")] = None,
    as_json: Json = False,
) -> None:
    """What a model or a recipe is made of: parameters, schedule, data, provenance."""
    from glauber.info import count_parameters, model_facts, model_words, recipe_facts
    from glauber.train import recipe as find_recipe

    if (model is None) == (recipe is None):
        raise ValueError("say what to tell about: a model's folder, or --recipe NAME")
    if recipe is not None:
        plan = find_recipe(recipe)
        facts: dict[str, Any] = {"parameters": count_parameters(plan.network), **plan.to_dict()}
        words = recipe_facts(plan)
    else:
        facts = model_facts(str(model))
        words = model_words(facts)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    wide = max(map(len, words))
    for name, text in words.items():
        print(f"{name:<{wide}}  {text}")


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2."""
    try:
        app()
    except (ValueError, ImportError, OSError) as error:
        print(f"glauber: {error}", file=sys.stderr)
        sys.exit(2)


def _require_free(folder: Path, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder with --out")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ValueError(f"{folder} is not empty; name another folder with --out, or add --force to write into it")


def _require_demo_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("sklearn", "PIL", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ImportError(f"the demo needs {', '.join(missing)}: pip install 'glauber[demo]'")


def _chain_options(own: dict[str, Any], kernel: str, top_p: float, top_k: int | None, temperature: str) -> dict[str, Any]:
    """What the user set apart from the defaults; the rest stays as the model has it."""
    try:
        parts = [float(part) for part in temperature.split(",")]
    except ValueError:
        raise ValueError(f"temperature is a number, or several with commas between, not {temperature!r}") from None
    asked = {"kernel": (kernel, "heat-bath"), "top_p": (top_p, 1.0), "top_k": (top_k, None), "temperature": (parts, [1.0])}
    return {name: value for name, (value, default) in asked.items() if value != default or name not in own}


def _open_image(path: Path) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("images need pillow: pip install 'glauber[image]'") from error
    try:
        return Image.open(path)
    except (OSError, UnidentifiedImageError):
        raise ValueError(f"{path} is missing, or not an image that can be read") from None


def _save_images(images: list[Any], out: Path) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{k:04d}.png" for k in range(len(images))]
    for image, file in zip(images, files, strict=True):
        image.save(file)
    return [str(file) for file in files]


def _print_sample(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
    elif "files" in result:
        files = result["files"]
        print(f"{len(files)} file{'s' * (len(files) > 1)} in {Path(files[0]).parent} ({result['seconds']:.1f} s)")
    else:
        for row in result["tokens"]:
            print(*row)


def _command() -> str:
    """How this program is called here: `make` keeps it out of the PATH."""
    return "glauber" if shutil.which("glauber") else os.path.relpath(sys.argv[0])


def _print_demo(summary: dict[str, Any], out: Path) -> None:
    lines = [
        ("loss, before → after", f"{summary['loss_before']:.2f} → {summary['loss_after']:.2f} nats per site"),
        ("held-out digits", f"at most {summary['held_out_bits_per_token']:.2f} bits per token (of 6)"),
        ("network calls per digit", f"{summary['calls']:.1f} for {summary['steps']} chain steps"),
        ("classifier's confidence", f"{summary['confidence_samples']:.2f} on samples"),
        ("", f"{summary['confidence_real']:.2f} on real held-out digits"),
        ("", f"{summary['confidence_codec']:.2f} on those after the codec"),
        ("", f"{summary['confidence_noise']:.2f} on noise"),
        ("classes among samples", f"{summary['classes']} of 10"),
        ("time", f"{summary['seconds']:.0f} s"),
        ("pictures", ", ".join(("samples.png", "chain.gif", "infill.png", "loss.png"))),
        ("", f"in {out}; figures in {out / 'summary.json'}"),
        ("try next", f"{_command()} sample {out / 'model'} -n 8 --out more"),
    ]
    print()
    for name, text in lines:
        print(f"{name:<24} {text}")
