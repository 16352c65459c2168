"""What --help says, of the program and of every command."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from program import assert_refused, run

import glauber.cli.run
from glauber.cli.app import app
from glauber.storage import BUNDLED
from glauber.train import RECIPES

TOP = ["demo", "prepare", "train", "sample", "infill", "vary", "score", "evaluate", "codec", "bench", "play", "serve", "info"]
COMMANDS = ["", *TOP, "codec train", "bench train", "bench sample", "bench prepare", "bench oracle", "bench table1"]
FLAGS = Path(__file__).with_name("flags.txt")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [50, 80])
def test_every_command_explains_itself_in_a_narrow_terminal(command, columns):
    result = run(*command.split(), "--help", columns=columns)
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= columns
    if command in ("", "bench", "codec"):
        assert "..." not in result.stdout.split("Commands:")[1], "what a command does is not cut short"


def test_every_command_is_explained_here():
    for group in ("", "bench", "codec"):
        listed = re.findall(r"^  (\w+)  ", run(*group.split(), "--help").stdout.split("Commands:")[1], re.MULTILINE)
        assert sorted(listed) == sorted(name.split()[-1] for name in COMMANDS if name and name.rpartition(" ")[0] == group)


@pytest.mark.parametrize(("command", "option"), [("train", "--recipe"), ("info", "--recipe")])
def test_help_names_every_recipe(command, option):
    told = " ".join(run(command, "--help", columns=80).stdout.split()).replace("- ", "-")  # a name may be folded
    assert set(RECIPES) <= set(
        re.findall(r"[\w-]+", told.split(option)[1].split("--out" if command == "train" else "--json")[0])
    )


@pytest.mark.parametrize("command", ["sample", "infill", "vary", "score", "play", "serve", "info", "train"])
def test_help_names_the_models_in_the_box_and_what_else_may_be_given(command):
    told = " ".join(run(command, "--help", columns=80).stdout.split())
    for name in (path.parent.name for path in BUNDLED.glob("*/config.json")):
        assert name in told
    assert "which are in the box; the folder of a run or a model; or a hub id owner/name" in told


def test_a_missing_or_unknown_command_is_one_sentence_and_none_at_all_is_help():
    assert_refused(run("sample"), "Missing argument 'MODEL'")
    assert_refused(run("paint"), "No such command 'paint'")
    assert run().returncode == 0
    assert "Usage" in run().stdout


def test_the_commands_stand_in_the_order_in_which_a_user_meets_them():
    assert re.findall(r"^  (\w+)  ", run("--help").stdout.split("Commands:")[1], re.MULTILINE) == TOP


def flags() -> list[str]:
    """Each argument and flag of each command, as typer knows them: a line each."""

    def below(command: Any, words: list[str]) -> Iterator[str]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(inner, [*words, name])
        for parameter in command.params:
            names = [parameter.metavar or parameter.name] if parameter.param_type_name == "argument" else parameter.opts
            yield " ".join([*words, ", ".join(names)])

    return sorted(below(typer.main.get_command(app), []))


def test_the_flags_are_those_that_are_written_down():
    """Programs and scripts call them: a change of flags.txt is a change of what others rely on."""
    assert flags() == FLAGS.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("command", ["sample", "infill", "vary", "score"])
def test_options_stand_under_what_they_are_about(command, columns):
    said = run(command, "--help", columns=columns).stdout
    what, how, output, rest = (part for part in re.split(r"^(?:What|How it samples|Output|Options):\n", said, flags=re.M)[1:])
    assert "--text" in what or "--prompt" in what
    assert "--sweeps" in how
    assert "--json" in output
    assert rest.split() == ["--help", *["Show", "this", "message", "and", "exit."]]


def test_no_option_is_without_a_heading():
    for command in COMMANDS[1:]:
        said = run(*command.split(), "--help").stdout
        assert said.split("Options:\n")[1].split("\n\n")[0].split()[0] == "--help", command


def test_help_needs_no_rich():
    code = "import sys; sys.modules['rich'] = None; from glauber.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "sample", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "How it samples:" in done.stdout


def test_every_command_stands_in_the_file_of_its_name():
    folder = Path(glauber.cli.__file__).parent
    assert all('"""The command' in (folder / f"{name}.py").read_text(encoding="utf-8").splitlines()[0] for name in TOP)
