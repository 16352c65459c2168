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
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The Glauber Generative Model: generate and fill in tokens by re-sampling one site at a time.",
)

UsageError: Any = typer.BadParameter.__mro__[1]  # click's, or that of typer's own copy of click

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, or its hub id owner/name.")]
Seed = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Give one to get the same result again.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")]
Sweeps = Annotated[int | None, typer.Option(help="Visits per site; the model's own number if not given.")]
Block = Annotated[int | None, typer.Option(help="Sites re-sampled at once: faster, no longer exact.")]
Order = Annotated[str | None, typer.Option(help="Order of the sites: left, right, random or strided.")]
Kernel = Annotated[str | None, typer.Option(help="heat-bath, or reversal, which keeps a site's own token as evidence.")]
TopP = Annotated[
    float | None, typer.Option("--top-p", help="Draw only from the likeliest tokens that make up this probability.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw only from this many likeliest tokens.")]
Temperature = Annotated[
    str | None, typer.Option(help="Below 1 safer, above 1 more varied; 1.05,1.0 is 1.05 for the first half of the chain.")
]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures, the model and summary.json.")] = Path("demo"),
    force: Force = False,
    seed: Annotated[int, typer.Option(help="Another seed, other digits.")] = 0,
) -> None:
    """Train on embedded digits from scratch, sample, fill gaps in, and write pictures of it (about two minutes)."""
    _require_free(out, force)
    _require_demo_packages()
    import torch

    from glauber.demo import run_demo

    torch.set_num_threads(1)  # a second thread saves a quarter on an idle machine, and triples the time on a busy one
    _print_demo(run_demo(out, seed), out)


@app.command()
def prepare(
    sources: Annotated[list[str], typer.Argument(metavar="SRC...", help="Text files, .jsonl, folders, .npy, or hub:NAME.")],
    out: Annotated[Path, typer.Option(help="Folder for the token shards.")],
    tokenizer: Annotated[str, typer.Option(help="char, bytes, bpe:8192, a tokenizer.json, or hub:NAME.")] = "char",
    length: Annotated[int | None, typer.Option(help="L, tokens per row; 256 if not given.")] = None,
    valid: Annotated[float, typer.Option(help="Share of the data kept for validation.")] = 0.01,
    field: Annotated[str, typer.Option(help="Where the text is in a line of .jsonl.")] = "text",
    vocab: Annotated[int | None, typer.Option(help="Vocabulary size of .npy tokens.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace finished data in --out.")] = False,
) -> None:
    """Turn text or tokens into shards to train on. Interrupted, it goes on from where it was."""
    from glauber.data import prepare as prepare_data

    shards = prepare_data(sources, out, tokenizer, length, valid, field, vocab, force=force)
    rows = {split: len(shards.rows(split)) for split in ("train", "valid")}
    print(f"{rows['train']:,} rows to train on and {rows['valid']:,} to validate, of {shards.length} tokens, in {out}")
    print(f"vocabulary {shards.vocab:,}; try: {_command()} train --recipe tiny --data {out} --out run")


@app.command()
def train(
    recipe: Annotated[str, typer.Option(help="Name of a recipe; `glauber info --recipe NAME` tells what is in it.")],
    out: Annotated[Path, typer.Option(help="Folder of the run: config, log, checkpoints, and the model at the end.")],
    data: Annotated[Path | None, typer.Option(help="A folder of token shards; the recipe digits brings its own.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: train.steps=100. May be repeated.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")] = False,
    init: Annotated[str | None, typer.Option(help="Start from the weights of this model.")] = None,
) -> None:
    """Train a model. Stop it when you like: --resume goes on, to the same weights bit for bit."""
    from glauber.train.parallel import processes
    from glauber.train.recipe import Recipe
    from glauber.train.recipe import recipe as find_recipe
    from glauber.train.run import Data, digits_data, run, shards_data
    from glauber.train.settings import apply_settings, parse_settings, read_settings

    def read() -> tuple[Recipe, Data]:
        plan = find_recipe(recipe)
        plan = apply_settings(plan, (read_settings(config) if config is not None else {}) | parse_settings(settings or []))
        if data is None and plan.name != "digits":
            raise ValueError(f"the recipe {plan.name} needs --data, a folder that `glauber prepare` made")
        return plan, digits_data() if data is None else shards_data(data)

    with processes() as world:
        outcome = run(*world.together(read), out, resume, init, world=world)
    if outcome.model is not None:
        print(f"done: {outcome.step} steps, the model is in {outcome.model}")


@app.command()
def sample(
    model: ModelName,
    num: Annotated[int, typer.Option("-n", "--num", help="How many samples.")] = 4,
    seed: Seed = None,
    sweeps: Sweeps = None,
    block: Block = None,
    order: Order = None,
    kernel: Kernel = None,
    top_p: TopP = None,
    top_k: TopK = None,
    temperature: Temperature = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the images, or for samples.json.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw samples: images into a folder, text onto the screen. What is not set is the model's own."""
    from glauber.codec import is_image_codec
    from glauber.model import load

    if num < 1:
        raise ValueError(f"ask for at least one sample, not {num}")
    loaded = load(model)
    if is_image_codec(loaded.codec) and out is None:
        raise ValueError("this model makes images; say where to put them, e.g. --out samples")
    if out is not None:
        _require_free(out, force)
    began = time.perf_counter()
    options = _chain_options(kernel, top_p, top_k, temperature)
    tokens = loaded.sample_tokens(num, seed, sweeps, block, order, progress=not as_json, **options)
    result: dict[str, Any] = {"tokens": tokens.tolist(), "seconds": time.perf_counter() - began}
    if is_image_codec(loaded.codec) and out is not None:
        result["files"] = _save_images(loaded.decode(tokens), out)
    else:
        if loaded.codec is not None:
            result["texts"] = loaded.decode(tokens)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / "samples.json").write_text(json.dumps(result) + "\n")
            result["files"] = [str(out / "samples.json")]
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
    from glauber.codec import is_image_codec
    from glauber.model import load

    if num < 1:
        raise ValueError(f"ask for at least one fill, not {num}")
    _require_free(out, force)
    loaded = load(model)
    picture, hole = _open_image(image), _open_image(mask).convert("L")
    if is_image_codec(loaded.codec) and len(loaded.codec.shape) == 2:
        picture = picture.convert("L")
    began = time.perf_counter()
    images = loaded.inpaint(picture, hole, num, seed, progress=not as_json)
    _print_sample({"seconds": time.perf_counter() - began, "files": _save_images(images, out)}, as_json)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="train: how fast training is, against the card's limit.")],
    out: Annotated[Path | None, typer.Option(help="A JSON file for the raw figures.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny networks, to see that it runs.")] = False,
    force: Force = False,
) -> None:
    """Measure, side by side in one run; the tables of the docs."""
    from glauber.bench import bench_train

    if name != "train":
        raise ValueError(f"there is no bench {name!r}; there is: train")
    if out is not None and out.exists() and not force:
        raise ValueError(f"{out} exists; name another file with --out, or add --force to replace it")
    figures = bench_train(seconds=1.0 if quick else 10.0, quick=quick)
    if out is not None:
        out.write_text(json.dumps(figures, indent=2) + "\n")


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
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except UsageError as error:
        code = _refuse(f"{error.format_message().rstrip('.')}; --help tells more")
    except (ValueError, ImportError, OSError) as error:
        code = _refuse(str(error))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        code = _refuse("this needs more memory than there is; ask for fewer samples, or a smaller network or batch")
    except SystemExit as leaving:
        code = leaving.code
    _exit(code if isinstance(code, int) else 0)


def _exit(code: int) -> None:
    """Leave. One of several processes leaves at once: gloo's threads may hold tensors as Python ends, which would abort it."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _refuse(sentence: str) -> int:
    print(f"glauber: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


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


def _chain_options(kernel: str | None, top_p: float | None, top_k: int | None, temperature: str | None) -> dict[str, Any]:
    """What the user set."""
    asked: dict[str, Any] = {"kernel": kernel, "top_p": top_p, "top_k": top_k}
    if temperature is not None:
        try:
            asked["temperature"] = [float(part) for part in temperature.split(",")]
        except ValueError:
            raise ValueError(f"temperature is a number, or several with commas between, not {temperature!r}") from None
    return {name: value for name, value in asked.items() if value is not None}


def _open_image(path: Path) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("images need pillow: pip install 'glauber[image]'") from error
    try:
        image = Image.open(path)
        image.load()
        return image
    except (OSError, UnidentifiedImageError):
        raise ValueError(f"{path} is missing, cut short, or not an image") from None


def _save_images(images: list[Any], out: Path) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{k:04d}.png" for k in range(len(images))]
    for image, file in zip(images, files, strict=True):
        image.save(file)
    if len(images) > 1:  # all at a glance, large enough to see
        import numpy as np

        from glauber.pictures import grid

        scale = max(1, 64 // images[0].height)
        files.append(out / "sheet.png")
        grid(np.stack([np.asarray(image.convert("RGB")) for image in images]), min(10, len(images)), scale).save(files[-1])
    return [str(file) for file in files]


def _print_sample(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
    elif "files" in result:
        files = result["files"]
        print(f"{len(files)} file{'s' * (len(files) > 1)} in {Path(files[0]).parent} ({result['seconds']:.1f} s)")
    elif "texts" in result:
        print(*result["texts"], sep="\n----\n")
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
