"""Commands that weigh and tell: bench, info."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from glauber.cli.common import Force, Json, app


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
