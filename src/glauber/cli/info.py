"""The command `info`."""

import json
import shutil
import sys
import textwrap
from typing import Annotated, Any

import typer

from glauber.cli.app import app, command, what
from glauber.cli.options import MODEL, RECIPES, Codec, Json


@command(app)
def info(
    model: Annotated[str | None, typer.Argument(metavar="WHAT", help=f"{MODEL}; a folder of data; tokens as .npy.")] = None,
    recipe: Annotated[str | None, what(help=f"Describe a recipe instead: {RECIPES}.")] = None,
    codec: Codec = None,
    as_json: Json = False,
) -> None:
    """Describe a model, a run or data.

    What it is made of, how far a training run is, and what would be trained here on data.
    """
    if (model is None) == (recipe is None):
        raise ValueError("say what to describe: a model, a run, data, or --recipe NAME")
    facts, words = _recipe(recipe) if recipe is not None else _found(str(model))
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        _print_table(words)


def _recipe(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of a recipe for programs, and for people."""
    from glauber.cli.info_facts import count_parameters
    from glauber.cli.info_words import recipe_words
    from glauber.train import recipe

    plan = recipe(name)
    return {"parameters": count_parameters(plan.network), **plan.to_dict()}, recipe_words(plan)


def _found(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What a run, data or a model is made of, for programs, and for people."""
    from glauber.cli import info_advice, info_facts, info_words

    if info_facts.is_run(name):
        facts = info_facts.run_facts(name)
        return facts, info_words.run_words(facts)
    if info_facts.is_data(name):
        facts = info_facts.data_facts(name)
        more = {} if "shape" in facts else info_advice.advice(name)
        return facts | more, info_words.data_words(facts) | info_advice.advice_words(more)
    facts = info_facts.model_facts(name)
    return facts, info_words.model_words(facts)


def _print_table(words: dict[str, str]) -> None:
    """Names and texts in two columns; on a screen long texts are folded, in a file each stays on its line."""
    wide = max(map(len, words)) + 2
    room = max(20, shutil.get_terminal_size().columns - wide) if sys.stdout.isatty() else sys.maxsize
    for name, text in words.items():
        lines = textwrap.wrap(text, room) or [""]
        print(f"{name:<{wide}}" + f"\n{'':{wide}}".join(lines))
