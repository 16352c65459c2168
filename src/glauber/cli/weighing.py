"""Commands that weigh and tell: bench, info."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from glauber.cli.common import MODEL, RECIPES, Force, Json, app, calm_threads, print_table, require_new, require_writable

benches = typer.Typer(help="Measure speed; compare methods.")
app.add_typer(benches, name="bench")

Raw = Annotated[Path | None, typer.Option("--out", help="A JSON file for the raw figures.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny, to see that it runs.")]


@benches.command("train")
def bench_train(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Measure the speed of training.

    Beside it stands the card's limit.
    """
    _measure(out, force, lambda bench, _: bench.bench_train(seconds=1.0 if quick else 10.0, quick=quick))


@benches.command("sample")
def bench_sample(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Measure the speed of sampling.

    Beside it stands the card's limit.
    """
    _measure(out, force, lambda bench, keep: bench.bench_sample(0.2 if quick else 4.0, quick, keep))


@benches.command("prepare")
def bench_prepare(
    text: Annotated[list[str], typer.Option(help="A text, or several; used again up to 100 MB.")],
    out: Raw = None,
    quick: Quick = False,
    force: Force = False,
) -> None:
    """Measure the speed of prepare.

    Beside it stands the library tokenizers, which encodes the same text in memory.
    """
    _measure(out, force, lambda bench, _: bench.bench_prepare(text, quick))


def _measure(out: Path | None, force: bool, work: Callable[[ModuleType, Callable[[dict[str, Any]], None]], Any]) -> None:
    """Do the work, and keep its figures; it may keep some earlier."""
    if out is not None:
        require_new(out, force)
    from glauber import bench
    from glauber.provenance import write_figures

    def keep(figures: dict[str, Any]) -> None:
        if out is not None:
            write_figures(out, figures)

    keep(work(bench, keep))


@benches.command("table1")
def bench_table1(
    out: Annotated[Path, typer.Option(help="Folder of the table; called again, it goes on with what is there.")],
    data: Annotated[Path | None, typer.Option(help="Shards of text to train on, as `glauber prepare` makes them.")] = None,
    test: Annotated[Path | None, typer.Option(help="A held-out text; the validation rows of the data if not given.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Some of ggm, ar, mdlm, sedd, udlm, plaid, mlm-gibbs, as in ggm,ar; or none, to judge alone."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Of training, for each; 180, or 1.5 with --tiny.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting of all, e.g. network.width=512. May be repeated.")
    ] = None,
    number: Annotated[int | None, typer.Option("-n", "--number", help="Samples for each row; 256, or 24 with --tiny.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="Judge the samples by this causal language model: a folder, .gguf file or hub id.")
    ] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="A minute on two cores, with data and a judge of its own.")] = False,
) -> None:
    """Compare methods as the paper does.

    In small: all methods on one network, trained equally long, sampled, bounded, judged by a judge.

    What is done is not done again, so that training and judging may take place on two machines, and in parts.
    """
    require_writable(out)
    from glauber import bench
    from glauber.bench.table1.evaluated import markdown
    from glauber.train.overrides import parse_settings

    calm_threads()
    chosen = None if methods is None else [name.strip() for name in methods.split(",") if name.strip() != "none"]
    table = bench.bench_table1(
        out, data, test, chosen, seconds, parse_settings(settings) if settings else None, number, judge, tiny
    )
    print(f"\n{markdown(table['rows'])}\ntable1.json, table1.md and the pictures are in {out}")


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(metavar="WHAT", help=f"{MODEL}; a folder of data; tokens as .npy.")] = None,
    recipe: Annotated[str | None, typer.Option(help=f"Tell about a recipe instead: {RECIPES}.")] = None,
    as_json: Json = False,
) -> None:
    """Tell about a model, a run or data.

    What it is made of, and how far a training run is.
    """
    from glauber import info as known
    from glauber.train import recipe as find_recipe

    if (model is None) == (recipe is None):
        raise ValueError("say what to tell about: a model, a run, data, or --recipe NAME")
    if recipe is not None:
        plan = find_recipe(recipe)
        facts: dict[str, Any] = {"parameters": known.count_parameters(plan.network), **plan.to_dict()}
        words = known.recipe_facts(plan)
    elif known.is_run(str(model)):
        facts = known.run_facts(str(model))
        words = known.run_words(facts)
    elif known.is_data(str(model)):
        facts = known.data_facts(str(model))
        words = known.data_words(facts)
    else:
        facts = known.model_facts(str(model))
        words = known.model_words(facts)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print_table(words)
