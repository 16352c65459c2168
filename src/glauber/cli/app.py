"""The program and its commands: their order, the headings of their options, options that several of them share."""

import inspect
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from glauber import __version__

Function = TypeVar("Function", bound=Callable[..., None])
ORDER = ("demo", "prepare", "train", "sample", "infill", "vary", "score", "evaluate", "codec", "bench", "play", "serve", "info")
ARGUMENTS, OPTIONS = "Arguments", "Options"
HEADINGS = (ARGUMENTS, "What", "How", "How it samples", "Output", OPTIONS)


class Commands(TyperGroup):
    """The commands in the order in which a user meets them; typer alone would list groups of commands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


class Command(TyperCommand):
    """A command whose help has its options under headings, those of typer's `rich_help_panel`.

    typer needs rich to show panels, and the boxes of rich leave little room in a narrow terminal.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
                found[getattr(parameter, "rich_help_panel", None) or own].append(record)
        for heading, records in found.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def what(*flags: str, **details: Any) -> Any:
    """An option that says what the command works on."""
    return typer.Option(*flags, rich_help_panel="What", **details)


def how(*flags: str, **details: Any) -> Any:
    """An option that says how it is done."""
    return typer.Option(*flags, rich_help_panel="How", **details)


def sampling(*flags: str, **details: Any) -> Any:
    """An option of the chain."""
    return typer.Option(*flags, rich_help_panel="How it samples", **details)


def output(*flags: str, **details: Any) -> Any:
    """An option that says where the result goes."""
    return typer.Option(*flags, rich_help_panel="Output", **details)


def command(group: typer.Typer, name: str | None = None) -> Callable[[Function], Function]:
    """Add a function to the commands of a group. A parameter that is a dataclass stands for its fields, each an option."""

    def add(function: Function) -> Function:
        group.command(name, cls=Command)(unfolded(function))
        return function

    return add


def unfolded(function: Callable[..., None]) -> Callable[..., None]:
    """The function with the fields of each dataclass as parameters, as typer wants them."""
    kinds = get_type_hints(function, include_extras=True)
    parts: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}

    @wraps(function)
    def flat(**given: Any) -> None:
        for name, part in parts.items():
            given[name] = part(**{field.name: given.pop(field.name) for field in fields(part)})
        function(**given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        own = inspect.signature(parts[name]).parameters.values() if name in parts else [parameter]
        hints = get_type_hints(parts[name], include_extras=True) if name in parts else kinds
        parameters += [each.replace(kind=each.KEYWORD_ONLY, annotation=hints[each.name]) for each in own]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


app = typer.Typer(cls=Commands, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"glauber {__version__}")
        raise typer.Exit


@app.callback()
def glauber(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The Glauber Generative Model: generate and fill in tokens by re-sampling one site at a time."""


def program() -> str:
    """How this program is called here: `make` keeps it out of the PATH."""
    if shutil.which("glauber"):
        return "glauber"
    path = Path(sys.argv[0])
    return "python -m glauber" if path.name == "__main__.py" else os.path.relpath(path)
