"""Commands that make a model: demo, prepare, train."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glauber.cli.common import Force, app, command, require_free


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures, the model and summary.json.")] = Path("demo"),
    force: Force = False,
    seed: Annotated[int, typer.Option(help="Another seed, other digits.")] = 0,
) -> None:
    """Train on embedded digits from scratch, sample, fill gaps in, and write pictures of it (about two minutes)."""
    require_free(out, force)
    _require_demo_packages()
    import torch

    from glauber.demo import run_demo

    torch.set_num_threads(1)  # a second thread saves a quarter on an idle machine, and triples the time on a busy one
    _print_demo(run_demo(out, seed), out)


@app.command()
def prepare(
    sources: Annotated[list[str], typer.Argument(metavar="SRC...", help="Texts, .jsonl, images, folders, .npy, hub:NAME.")],
    out: Annotated[Path, typer.Option(help="Folder for the token shards.")],
    tokenizer: Annotated[
        str,
        typer.Option(help="char, bytes, bpe:8192, a tokenizer.json, hub:NAME; of images patches:512:4, pixels:16 or vq:CODEC."),
    ] = "char",
    length: Annotated[int | None, typer.Option(help="L, tokens per row; 256 if not given. Images have their own.")] = None,
    valid: Annotated[float, typer.Option(help="Share of the data kept for validation.")] = 0.01,
    field: Annotated[str, typer.Option(help="Where the text is in a line of .jsonl.")] = "text",
    vocab: Annotated[int | None, typer.Option(help="Vocabulary size of .npy tokens.")] = None,
    size: Annotated[int | None, typer.Option(help="Cut images to squares of so many pixels a side, resized.")] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Make images grey; as pixels they always are.")] = False,
    classes: Annotated[bool, typer.Option("--classes", help="The sub-folders of images are their classes; keep them.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace finished data in --out.")] = False,
) -> None:
    """Turn texts, images or tokens into shards to train on. Interrupted, it goes on from where it was."""
    from glauber.data import prepare as prepare_data

    shards = prepare_data(sources, out, tokenizer, length, valid, field, vocab, size, grey, force=force, classes=classes)
    rows = {split: len(shards.rows(split)) for split in ("train", "valid")}
    print(f"{rows['train']:,} rows to train on and {rows['valid']:,} to validate, of {shards.length} tokens, in {out}")
    print(f"vocabulary {shards.vocab:,}; try: {command()} train --recipe tiny --data {out} --out run")


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
    from glauber.data.writing import disk_full_said
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

    with processes() as world, disk_full_said(out, "go on with --resume"):
        outcome = run(*world.together(read), out, resume, init, world=world)
    if outcome.model is not None:
        print(f"done: {outcome.step} steps, the model is in {outcome.model}")


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
