"""The command `train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from glauber.cli.app import app, command, how, output, what
from glauber.cli.files import require_writable
from glauber.cli.options import MINUTES, MODEL, RECIPES, Codec

if TYPE_CHECKING:
    from glauber.recipe import Recipe
    from glauber.train.data import Data
    from glauber.train.parallel import World
    from glauber.train.run import Outcome


@command(app)
def train(
    out: Annotated[Path, output(help="Folder of the run: config, log, checkpoints, and the model at the end.")],
    recipe: Annotated[
        str | None, what(help=f"{RECIPES}. `glauber info --recipe NAME` shows its settings. Chosen for the data if not given.")
    ] = None,
    data: Annotated[
        Path | None,
        what(help="A folder that `glauber prepare` made, or, without --recipe, what it reads; digits brings its own."),
    ] = None,
    init: Annotated[str | None, what(help=f"Start from the weights of a model: {MODEL}.")] = None,
    minutes: Annotated[float | None, how(help=f"Without --recipe: how long it may take; {MINUTES:g} if not given.")] = None,
    config: Annotated[Path | None, how(help="A TOML file of settings.")] = None,
    settings: Annotated[list[str] | None, how("--set", help="Change a setting, e.g. train.steps=100. May be repeated.")] = None,
    codec: Codec = None,
    resume: Annotated[bool, output("--resume", help="Go on with the run in --out, as it was begun.")] = False,
) -> None:
    """Train a model.

    Stop it when you like: --out RUN --resume goes on, on one CPU to the same weights bit for bit.
    """
    from glauber.train.folder import require_place
    from glauber.train.parallel import processes
    from glauber.train.run import run

    def look() -> None:
        require_writable(out)
        require_place(out, resume)

    with processes() as world:
        world.together(lambda: look() if world.first else None)
        changes = world.together(lambda: _changes(config, settings or []))
        if recipe is None and not resume and "name" not in changes:
            outcome = _train_chosen(out, data, init, MINUTES if minutes is None else minutes, changes, world)
        elif minutes is not None:
            raise ValueError("--minutes is for a run whose recipe is chosen for it; say --set train.seconds=... instead")
        else:
            plan = world.together(lambda: _plan(out, recipe, data, changes, resume))
            outcome = run(*plan, out, resume, init, world=world)
    if outcome.model is not None:
        print(f"done: {outcome.step} steps, the model is in {outcome.model}")


def _changes(config: Path | None, settings: list[str]) -> dict[str, Any]:
    """What the user set; a file that was written by a choice has a name for its recipe, too."""
    from glauber.train.overrides import parse_settings, read_settings

    return (read_settings(config) if config is not None else {}) | parse_settings(settings)


def _train_chosen(
    out: Path, data: Path | None, init: str | None, minutes: float, changes: dict[str, Any], world: "World"
) -> "Outcome":
    """With a recipe that is chosen for the data, the machine and the time."""
    from glauber.model import load
    from glauber.train.fitting import train_chosen
    from glauber.train.own import BESIDE, own_data

    if data is None:
        raise ValueError("say with --data what to train on, name a recipe that brings its own, or go on with --resume")
    if world.size > 1:
        raise ValueError("a recipe is chosen for one process; under torchrun name one with --recipe, such as large")
    start = load(init) if init is not None else None
    found = own_data(data, out.with_name(out.name + BESIDE), start, print)
    return train_chosen(found, minutes, out, init, start, changes, print)


def _plan(out: Path, recipe: str | None, data: Path | None, changes: dict[str, Any], resume: bool) -> "tuple[Recipe, Data]":
    """What is trained, and on what: by the user's settings, or as the run was begun."""
    from glauber.train.data import digits_data, shards_data
    from glauber.train.overrides import apply_settings, recipe_of
    from glauber.train.recipes import recipe as find_recipe
    from glauber.train.run import resumed

    if resume:
        return resumed(out, changes, recipe, data)
    plan = recipe_of(changes) if recipe is None else apply_settings(find_recipe(recipe), changes)
    if data is None and plan.name != "digits":
        raise ValueError(f"the recipe {plan.name} needs --data, a folder that `glauber prepare` made")
    return plan, digits_data() if data is None else shards_data(data)
