"""Commands that make a model: demo, prepare, train."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glauber.cli.common import MODEL, RECIPES, Force, app, command, require_free, require_writable

if TYPE_CHECKING:
    from glauber.data import Shards


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures, the model and summary.json.")] = Path("demo"),
    force: Force = False,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Another seed, other digits.")] = 0,
) -> None:
    """See it all on small digits.

    Train on embedded digits from scratch, sample, fill gaps in, and write pictures of it: about two minutes.
    """
    require_free(out, force)
    _require_demo_packages()
    import torch

    from glauber.demo import run_demo

    torch.set_num_threads(1)  # a second thread saves a quarter on an idle machine, and triples the time on a busy one
    _print_demo(run_demo(out, seed), out)


@app.command()
def prepare(
    sources: Annotated[
        list[str], typer.Argument(metavar="SRC...", help="Texts, .jsonl, images, folders of these, tokens as .npy, hub:NAME.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the token shards.")],
    tokenizer: Annotated[
        str,
        typer.Option(
            help="char, bytes, bpe:8192, a tokenizer.json or hub:NAME; for images patches:512:4, pixels:16 or vq:CODEC."
        ),
    ] = "char",
    length: Annotated[int | None, typer.Option(help="Tokens of a row, L; 256 if not given. Images have their own.")] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(help="What to validate on: a share of SRC, 0.01 if not given, or a file or folder. May be repeated."),
    ] = None,
    field: Annotated[str, typer.Option(help="Where the text is in a line of .jsonl.")] = "text",
    vocab: Annotated[int | None, typer.Option(help="Vocabulary size of tokens in .npy.")] = None,
    size: Annotated[int | None, typer.Option(help="Cut images to squares and resize these to so many pixels a side.")] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Make images grey; as pixels they always are.")] = False,
    classes: Annotated[bool, typer.Option("--classes", help="The sub-folders of images are their classes; keep them.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace finished data in --out.")] = False,
) -> None:
    """Make data of texts, images, tokens.

    The folder then holds shards of tokens to train on. The same command goes on after an interruption.
    """
    require_writable(out)
    from glauber.data import prepare as prepare_data

    shards = prepare_data(
        sources, out, tokenizer, length, _validation(valid or []), field, vocab, size, grey, force=force, classes=classes
    )
    rows = {split: len(shards.rows(split)) for split in ("train", "valid")}
    print(f"{rows['train']:,} rows to train on and {rows['valid']:,} to validate, of {shards.length} tokens, in {out}")
    words = shlex.join(["train", "--recipe", "small", "--data", str(out), "--out", "run", *_settings_for(shards)])
    print(f"vocabulary {shards.vocab:,}; try: {command()} {words}")


def _settings_for(shards: "Shards") -> list[str]:
    """What the recipe small, made for rows of 256 tokens, needs for this data: as many tokens a step, and classes told."""
    changes: dict[str, object] = {} if shards.length == 256 else {"train.batch": max(2, 2048 // shards.length // 2 * 2)}
    changes |= {"network.causal": "false", "train.causal_every": 0} if shards.classes else {}  # one that reads is told none
    return [f"--set={name}={value}" for name, value in changes.items()]


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder of the run: config, log, checkpoints, and the model at the end.")],
    recipe: Annotated[str | None, typer.Option(help=f"{RECIPES}. `glauber info --recipe NAME` tells what is in it.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="A folder that `glauber prepare` made; the recipe digits brings its own.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, e.g. train.steps=100. May be repeated.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, as it was begun.")] = False,
    init: Annotated[str | None, typer.Option(help=f"Start from the weights of a model: {MODEL}.")] = None,
) -> None:
    """Train a model.

    Stop it when you like: --out RUN --resume goes on, on one CPU to the same weights bit for bit.
    """
    from glauber.recipe import Recipe
    from glauber.train.folder import require_place
    from glauber.train.overrides import apply_settings, parse_settings, read_settings
    from glauber.train.parallel import processes
    from glauber.train.recipes import recipe as find_recipe
    from glauber.train.run import Data, digits_data, resumed, run, shards_data

    def look() -> None:
        require_writable(out)
        require_place(out, resume)

    def read() -> tuple[Recipe, Data]:
        changes = (read_settings(config) if config is not None else {}) | parse_settings(settings or [])
        if resume:
            return resumed(out, changes, recipe, data)
        if recipe is None:
            raise ValueError("name a recipe with --recipe, e.g. tiny, or go on with the run in --out by --resume")
        plan = apply_settings(find_recipe(recipe), changes)
        if data is None and plan.name != "digits":
            raise ValueError(f"the recipe {plan.name} needs --data, a folder that `glauber prepare` made")
        return plan, digits_data() if data is None else shards_data(data)

    with processes() as world:
        world.together(lambda: look() if world.first else None)
        outcome = run(*world.together(read), out, resume, init, world=world)
    if outcome.model is not None:
        print(f"done: {outcome.step} steps, the model is in {outcome.model}")


def _validation(words: list[str]) -> float | list[str]:
    """A share, or what to read."""
    if not words:
        return 0.01
    try:
        return float(words[0]) if len(words) == 1 else words
    except ValueError:
        return words


def _require_demo_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("sklearn", "PIL", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ImportError(f"the demo needs {', '.join(missing)}: pip install 'glauber[demo]'")


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
        ("try next", f"{command()} sample {out / 'model'} -n 8 --out more"),
    ]
    print()
    for name, text in lines:
        print(f"{name:<24} {text}")
