"""How long functions are, and how much they are asked to take: what is more than a reader can hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES, PARAMETERS = 60, 10
WIDE = {"chain/driver.py: run_chain", "model.py: sampler", "data/prepare.py: prepare"}
"""The three that may take more, besides the commands: each parameter of those is a flag."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def lines(function: Function) -> int:
    """Of its body, without signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def parameters(function: Function) -> list[str]:
    """Their names, but for the object or class itself."""
    taken = function.args
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, *filter(None, (taken.vararg, taken.kwarg))]
    return [parameter.arg for parameter in every if parameter.arg not in ("self", "cls")]


def is_command(function: Function) -> bool:
    """Whether typer makes a command of it."""
    return any(isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "command" for mark in function.decorator_list)


def modules() -> list[Path]:
    return sorted(path for room in ("src", "experiments", "website") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_function_is_longer_than_sixty_lines_or_takes_more_than_ten_parameters(path):
    place = path.relative_to(ROOT).as_posix().removeprefix("src/glauber/")
    for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        name = f"{place}: {function.name}"
        assert lines(function) <= LINES, name
        assert len(parameters(function)) <= PARAMETERS or name in WIDE or is_command(function), name


def test_lines_and_parameters_are_counted_as_they_should_be():
    code = """
class A:
    @command(app, "x")
    def f(self, a, /, b, *c, d=1, **e):
        '''Says
        much.'''
        x = (
            1
        )
"""
    (one,) = functions(ast.parse(code))
    assert (lines(one), parameters(one), is_command(one)) == (3, ["a", "b", "d", "c", "e"], True)
    (two,) = functions(ast.parse('def g():\n    """Nothing."""\n'))
    assert (lines(two), parameters(two), is_command(two)) == (0, [], False)
