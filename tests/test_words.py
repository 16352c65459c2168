"""The words of `words.txt` that were given up are nowhere a user looks: public names, config keys, flags, help, the docs."""

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import glauber
import glauber.cli.run
from glauber.cli.app import app
from glauber.conditional import TransformerConfig
from glauber.recipe import ProcessSpec, Recipe, TrainSpec
from glauber.saving import KEYS

ROOT = Path(__file__).parents[1]
CARDS = (ROOT / "src").rglob("README.md")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *CARDS])


def given_up(section: str) -> list[str]:
    """The old words of a section."""
    text = (ROOT / "tests" / "words.txt").read_text(encoding="utf-8")
    lines = re.search(rf"^\[{section}\][^\n]*\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    assert lines is not None
    return [re.split(r"\s{2,}", line)[0] for line in lines[1].splitlines() if line and not line.startswith("#")]


IDENTIFIERS, PHRASES = set(given_up("identifiers")), given_up("phrases")
SETTINGS = IDENTIFIERS | set(given_up("keys"))
"""Of config keys and flags."""


def defined(tree: ast.AST) -> Iterator[str]:
    """Names of classes, functions, their parameters and fields, that are public."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield from (argument.arg for argument in [*node.args.args, *node.args.kwonlyargs])
        if isinstance(node, ast.ClassDef):
            yield from (
                part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            )


def modules() -> list[Path]:
    return sorted(path for room in ("src", "experiments") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_public_name_is_a_word_that_was_given_up(path):
    assert path.stem not in IDENTIFIERS
    assert not IDENTIFIERS & set(defined(ast.parse(path.read_text(encoding="utf-8"))))


def test_no_config_key_is_a_word_that_was_given_up():
    keys = {field.name for kind in (TransformerConfig, ProcessSpec, TrainSpec, Recipe) for field in dataclasses.fields(kind)}
    assert not SETTINGS & (keys | set(KEYS))
    assert not IDENTIFIERS & set(glauber.__all__)


def commands(group: typer.Typer = app) -> Iterator[tuple[str, list[str]]]:
    """Every command's name, with its flags and all that its help says."""
    command = typer.main.get_command(group)
    for name, each in getattr(command, "commands", {}).items():
        for one in getattr(each, "commands", {name: each}).values():
            options = [word for option in one.params for word in (*option.opts, getattr(option, "help", None) or "")]
            yield f"{name} {one.name}", [one.help or "", *options]


def test_no_help_text_and_no_flag_says_a_word_that_was_given_up():
    said = dict(commands())
    assert len(said) > 12
    for name, texts in said.items():
        for text in texts:
            if text.startswith("-"):
                assert text.lstrip("-").replace("-", "_") not in SETTINGS, f"{name}: {text}"
            assert not [phrase for phrase in PHRASES if phrase in text], f"{name}: {text}"


def code_spans(page: str) -> Iterator[str]:
    """What stands between backticks, and in blocks of code."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    yield from blocks
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_code_in_the_docs_uses_a_word_that_was_given_up(page):
    wrong = []
    for span in code_spans(page.read_text(encoding="utf-8")):
        wrong += [f"{phrase!r} in {span[:80]!r}" for phrase in PHRASES if phrase in span]
        if re.fullmatch(r"[\w.]+(\(.*\))?", span):
            wrong += [span for word in re.findall(r"\w+", span) if word in SETTINGS - {"rate", "way", "clip", "ask"}]
    assert not wrong


def test_the_search_finds_what_it_should():
    assert set(defined(ast.parse("class Reader:\n    reads: int\n\n    def way(self, told): ..."))) == {
        "Reader",
        "reads",
        "way",
        "self",
        "told",
    }
    assert list(code_spans("a `b c` d\n```sh\ne f\n```\n`g`")) == ["e f\n", "b c", "g"]
