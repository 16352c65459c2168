"""The command `train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from glauber.cli.app import app, command, how, output, what
from glauber.cli.files import require_writable
from glauber.cli.options import MODEL, RECIPES, Codec

if TYPE_CHECKING:
    from glauber.recipe import Recipe
    from glauber.train.data import Data


@command(app)
def train(
    out: Annotated[Path, output(help="Folder of the run: config, log, checkpoints, and the model at the end.")],
    recipe: Annotated[str | None, what(help=f"{RECIPES}. `glauber info --recipe NAME` shows its settings.")] = None,
    data: Annotated[Path | None, what(help="A folder that `glauber prepare` made; the recipe digits brings its own.")] = None,
    init: Annotated[str | None, what(help=f"Start from the weights of a model: {MODEL}.")] = None,
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
        plan = world.together(lambda: _plan(out, recipe, data, config, settings or [], resume))
        outcome = run(*plan, out, resume, init, world=world)
    if outcome.model is not None:
        print(f"done: {outcome.step} steps, the model is in {outcome.model}")


def _plan(
    out: Path, recipe: str | None, data: Path | None, config: Path | None, settings: list[str], resume: bool
) -> "tuple[Recipe, Data]":
    """What is trained, and on what: by the user's settings, or as the run was begun."""
    from glauber.train.data import digits_data, shards_data
    from glauber.train.overrides import apply_settings, parse_settings, read_settings
    from glauber.train.recipes import recipe as find_recipe
    from glauber.train.run import resumed

    changes = (read_settings(config) if config is not None else {}) | parse_settings(settings)
    if resume:
        return resumed(out, changes, recipe, data)
    if recipe is None:
        raise ValueError("name a recipe with --recipe, e.g. small, or go on with the run in --out by --resume")
    plan = apply_settings(find_recipe(recipe), changes)
    if data is None and plan.name != "digits":
        raise ValueError(f"the recipe {plan.name} needs --data, a folder that `glauber prepare` made")
    return plan, digits_data() if data is None else shards_data(data)
