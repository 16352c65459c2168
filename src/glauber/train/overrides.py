"""Change a recipe by name: `train.steps=100`."""

import dataclasses
import difflib
import json
import sys
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from glauber.conditional import TransformerConfig
from glauber.method import find_method
from glauber.recipe import ProcessSpec, Recipe, TrainSpec
from glauber.runtime.files import parse_json, read_bytes

Config = TypeVar("Config")
LARGEST = 2**20
"""Bytes of a file of settings."""


def apply_settings(plan: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with each `a.b` of `settings` replaced; an unknown name is refused with the nearest that there is."""
    names = _names(plan)
    for name in settings:
        _require_known(plan, name, names)
    new = _replace(plan, settings)
    find_method(new.method)
    return new


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """`--set a.b=c` words as names and values; a value is JSON where it can be, else text."""
    settings = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"a setting reads name=value, e.g. train.steps=100, not {word!r}")
        try:
            settings[name.strip()] = parse_json(text)
        except ValueError:
            settings[name.strip()] = None if text == "none" else text
    return settings


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a TOML file; its tables are the dots in the names."""
    try:
        tables = tomllib.loads(read_bytes(path, LARGEST).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error
    return flat(tables)


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as settings: the names with dots."""
    return dict(_flatten(tables))


def recipe_of(said: Mapping[str, Any]) -> Recipe:
    """The inverse of `Recipe.to_dict`, also through JSON. What an older version did not say has its default."""
    bare = Recipe("", "", "", TransformerConfig(vocab=2, length=1), ProcessSpec(), TrainSpec(steps=1, batch=1))
    settings, names = flat(said), _names(bare)
    for name in settings:
        _require_known(bare, name, names)
    plan = _replace(bare, settings)
    find_method(plan.method)
    return plan


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
    new, kinds = {}, get_type_hints(type(config))
    for here, inside in groups.items():
        name = before + here
        new[here] = (
            _same_kind(kinds[here], inside[""], name) if "" in inside else _replace(getattr(config, here), inside, f"{name}.")
        )
    return dataclasses.replace(config, **new)  # type: ignore[type-var]


def _same_kind(kind: Any, new: Any, name: str) -> Any:
    """The value as it was declared: a list becomes a tuple, a whole number a number; what does not fit is refused."""
    new, kinds = tuple(new) if isinstance(new, list) else new, get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if not any(_fits(one, new) for one in kinds):
        wanted = " or ".join(_WORDS[get_origin(one) or one] for one in kinds)
        raise ValueError(f"{name} is {wanted}, not {textwrap.shorten(json.dumps(new, default=str), 100)}")
    return float(new) if type(new) is int and int not in kinds else new


_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of numbers",
    dict: "a group of settings",
    type(None): "none",
}


def _fits(kind: Any, value: Any) -> bool:
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if get_origin(kind) is tuple and type(value) is tuple:
        first, *rest = get_args(kind)
        return (rest == [...] or len(value) == 1 + len(rest)) and all(_fits(first, each) for each in value)
    return type(value) is (get_origin(kind) or kind) and (kind is not int or abs(value) < 2**64)
