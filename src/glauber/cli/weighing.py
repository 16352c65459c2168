"""Commands that weigh and tell: bench, info."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from glauber.cli.common import Force, Json, app, print_table, require_new


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="train and sample: against the card's limit; prepare: against tokenizers."),
    ],
    text: Annotated[list[str] | None, typer.Option(help="For prepare: a text, or several; used again up to 100 MB.")] = None,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the raw figures.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny, to see that it runs.")] = False,
    force: Force = False,
) -> None:
    """Measure, side by side in one run; the tables of the docs."""
    from glauber.data.writing import write

    if name not in ("train", "sample", "prepare"):
        raise ValueError(f"there is no bench {name!r}; there are: train, sample, prepare")
    if (name == "prepare") != bool(text):
        raise ValueError("the bench prepare, and no other, needs a text: name one or several with --text")
    if out is not None:
        require_new(out, force)
    from glauber.bench import bench_prepare, bench_sample, bench_train

    if name == "prepare":
        figures = bench_prepare(text or [], quick)
    elif name == "sample":
        figures = bench_sample(seconds=0.2 if quick else 4.0, quick=quick)
    else:
        figures = bench_train(seconds=1.0 if quick else 10.0, quick=quick)
    if out is not None:
        write(out, json.dumps(figures, indent=2).encode() + b"\n")


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
