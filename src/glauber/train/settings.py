"""Change a recipe by name: `train.steps=100`."""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from glauber.train.recipe import Recipe

Config = TypeVar("Config")


def apply_settings(plan: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with each `a.b` of `settings` replaced; an unknown name is refused with the nearest that there is."""
    for name, value in settings.items():
        plan = _replace(plan, name.split("."), value, name, _names(plan))
    return plan


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """`--set a.b=c` words as names and values; a value is JSON where it can be, else text."""
    settings = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"a setting reads name=value, e.g. train.steps=100, not {word!r}")
        try:
            settings[name.strip()] = json.loads(text)
        except ValueError:
            settings[name.strip()] = None if text == "none" else text
    return settings


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a TOML file; its tables are the dots in the names."""
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error
    return dict(_flatten(tables))


def _flatten(tables: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tables.items():
        found += _flatten(value, f"{before}{name}.") if isinstance(value, dict) else [(f"{before}{name}", value)]
    return found


def _names(config: Any, before: str = "") -> list[str]:
    """Every name that can be set."""
    names = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        names += _names(value, f"{before}{field.name}.") if dataclasses.is_dataclass(value) else [before + field.name]
    return names


def _replace(config: Config, path: Sequence[str], value: Any, name: str, names: Sequence[str]) -> Config:
    here, *rest = path
    if isinstance(config, dict) and not rest:
        return config | {here: value}  # type: ignore[return-value]
    known = {field.name for field in dataclasses.fields(config)} if dataclasses.is_dataclass(config) else set()
    inner = getattr(config, here, None)
    if here not in known or (rest and not (dataclasses.is_dataclass(inner) or isinstance(inner, dict))):
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.3)
        raise ValueError(f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if not rest and dataclasses.is_dataclass(inner):
        raise ValueError(f"{name!r} is a group of settings; set one of them, such as {name}.{_names(inner)[0]}")
    new = _replace(inner, rest, value, name, names) if rest else _same_kind(inner, value, name)
    return dataclasses.replace(config, **{here: new})  # type: ignore[type-var]


def _same_kind(old: Any, new: Any, name: str) -> Any:
    """Lists become tuples; a number stays a number and a text a text."""
    if isinstance(new, list):
        return tuple(new)
    if isinstance(old, bool) != isinstance(new, bool) and old is not None and new is not None:
        raise ValueError(f"{name} is {'yes or no: true or false' if isinstance(old, bool) else 'not a yes or no'}")
    if isinstance(old, int) and not isinstance(old, bool) and not isinstance(new, int):
        raise ValueError(f"{name} is a whole number, not {new!r}")
    if isinstance(old, float) and not isinstance(new, int | float | str | None):
        raise ValueError(f"{name} is a number, not {new!r}")
    return float(new) if isinstance(old, float) and isinstance(new, int) else new
