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
    names = _names(plan)
    for name in settings:
        _require_known(plan, name, names)
    return _replace(plan, settings)


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


def _require_known(config: Any, name: str, names: Sequence[str]) -> None:
    *groups, last = name.split(".")
    for group in groups:
        config = getattr(config, group, None) if dataclasses.is_dataclass(config) else None
    if isinstance(config, dict):
        return
    if not dataclasses.is_dataclass(config) or last not in {field.name for field in dataclasses.fields(config)}:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.3)
        raise ValueError(f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if dataclasses.is_dataclass(inner := getattr(config, last)):
        raise ValueError(f"{name!r} is a group of settings; set one of them, such as {name}.{_names(inner)[0]}")


def _replace(config: Config, settings: Mapping[str, Any], before: str = "") -> Config:
    """All at once, since some values fit only together: a width and its heads."""
    if isinstance(config, dict):
        return config | dict(settings)  # type: ignore[return-value]
    groups: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        here, _, rest = name.partition(".")
        groups.setdefault(here, {})[rest] = value
    new = {}
    for here, inside in groups.items():
        old, name = getattr(config, here), before + here
        new[here] = _same_kind(old, inside[""], name) if "" in inside else _replace(old, inside, f"{name}.")
    return dataclasses.replace(config, **new)  # type: ignore[type-var]


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
