"""Commands that weigh and tell: bench, info."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from glauber.cli.common import Force, Json, app, calm_threads, print_table, require_new

benches = typer.Typer(help="Measure, side by side in one run; the tables of the docs.")
app.add_typer(benches, name="bench")

Raw = Annotated[Path | None, typer.Option("--out", help="A JSON file for the raw figures.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny, to see that it runs.")]


@benches.command("train")
def bench_train(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Training, against the card's limit."""
    _measure(out, force, lambda bench, _: bench.bench_train(seconds=1.0 if quick else 10.0, quick=quick))


@benches.command("sample")
def bench_sample(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Sampling, against the card's limit."""
    _measure(out, force, lambda bench, keep: bench.bench_sample(0.2 if quick else 4.0, quick, keep))


@benches.command("prepare")
def bench_prepare(
    text: Annotated[list[str], typer.Option(help="A text, or several; used again up to 100 MB.")],
    out: Raw = None,
    quick: Quick = False,
    force: Force = False,
) -> None:
    """Preparing texts, against the tokenizers library."""
    _measure(out, force, lambda bench, _: bench.bench_prepare(text, quick))


def _measure(out: Path | None, force: bool, work: Callable[[ModuleType, Callable[[dict[str, Any]], None]], Any]) -> None:
    """Do the work, and keep its figures; it may keep some earlier."""
    if out is not None:
        require_new(out, force)
    from glauber import bench
    from glauber.data.writing import write

    def keep(figures: dict[str, Any]) -> None:
        if out is not None:
            write(out, json.dumps(figures, indent=2).encode() + b"\n")

    keep(work(bench, keep))


@benches.command("table1")
def bench_table1(
    out: Annotated[Path, typer.Option(help="Folder of the table; called again, it goes on with what is there.")],
    data: Annotated[Path | None, typer.Option(help="Shards of text to train on, as `glauber prepare` makes them.")] = None,
    test: Annotated[Path | None, typer.Option(help="A held-out text; the validation rows of the data if not given.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Some of ggm,ar,mdlm,sedd,udlm,plaid,mlm-gibbs, or none, to judge alone. All if not given."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Of training, for each; 180, or 1.5 with --tiny.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting of all: network.width=512. May be repeated.")
    ] = None,
    number: Annotated[int | None, typer.Option("-n", "--number", help="Samples for each row; 256, or 24 with --tiny.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="Judge the samples by this causal language model: a folder, .gguf file or hub id.")
    ] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="A minute on two cores, with data and a judge of its own.")] = False,
) -> None:
    """The paper's table: all methods on one network, trained equally long, sampled, bounded, and judged if there is a judge.

    What is done is not done again, so that training and judging may take place on two machines, and in parts.
    """
    from glauber import bench
    from glauber.bench.table1.judged import markdown
    from glauber.train.settings import parse_settings

    calm_threads()
    chosen = None if methods is None else [name.strip() for name in methods.split(",") if name.strip() != "none"]
    table = bench.bench_table1(
        out, data, test, chosen, seconds, parse_settings(settings) if settings else None, number, judge, tiny
    )
    print(f"\n{markdown(table['rows'])}\ntable1.json, table1.md and the pictures are in {out}")


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="A model's or a run's folder, or a hub id.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Tell about a recipe instead, e.g. paper-owt.")] = None,
    as_json: Json = False,
) -> None:
    """What a model or a recipe is made of, and how far a training run is."""
    from glauber.info import count_parameters, is_run, model_facts, model_words, recipe_facts, run_facts, run_words
    from glauber.train import recipe as find_recipe

    if (model is None) == (recipe is None):
        raise ValueError("say what to tell about: a model's folder, or --recipe NAME")
    if recipe is not None:
        plan = find_recipe(recipe)
        facts: dict[str, Any] = {"parameters": count_parameters(plan.network), **plan.to_dict()}
        words = recipe_facts(plan)
    elif is_run(str(model)):
        facts = run_facts(str(model))
        words = run_words(facts)
    else:
        facts = model_facts(str(model))
        words = model_words(facts)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print_table(words)
