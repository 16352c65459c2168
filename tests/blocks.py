"""The blocks of code of a page: found, and run in order as a reader would, in one folder and one Python."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import commands

FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]+?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
SMALL = {"steps": 3, "batch": 8, "evaluate_every": 3, "warmup": 1}
"""Settings of training, in place of those that take minutes."""


class Block(NamedTuple):
    """Code of a page. With a reason it is not run."""

    language: str
    text: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    """Of shell and Python; other languages stand for no code."""
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(each["language"], each["text"], each["reason"]) for each in found if each["language"] in ("sh", "python")]


def lines(text: str) -> list[list[str]]:
    """The words of each command."""
    joined = text.replace("\\\n", " ").splitlines()
    return [words for line in joined if (words := shlex.split(line, comments=True))]


def shorter(words: list[str]) -> list[str]:
    """A command of glauber that takes seconds: few steps of a small network, few samples."""
    words = [re.sub(r"^(train\.steps)=\d+$", r"\1=3", word) for word in words]
    words = ["2" if before == "-n" else word for before, word in zip(["", *words], words, strict=False)]
    words = ["0.05" if before == "--minutes" else word for before, word in zip(["", *words], words, strict=False)]
    if words[0] == "train" and "--minutes" not in words:
        settings = {f"train.{name}": value for name, value in SMALL.items()}
        settings |= {"network.width": 16, "network.layers": 1, "network.heads": 2, "train.samples": 1}
        words += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    if words[:2] == ["codec", "train"]:
        words += ["--steps", "3", "--batch", "4", "--every", "3", "--width", "8"]
    return words


def run(block: Block, folder: Path, names: dict[str, Any], instead: dict[str, str]) -> None:
    """Run a block in a folder; what it defines goes into `names`, and some words stand for others."""
    if block.language == "python":
        code = re.sub(r"TrainSpec\(steps=\d+", "TrainSpec(steps=3", block.text)
        for word, other in instead.items():
            code = code.replace(f'"{word}"', f'"{other}"')
        exec(compile(code, str(folder), "exec"), names)
        return
    for program, *words in lines(block.text):
        if program == "python":
            subprocess.run([sys.executable, *words], cwd=folder, check=True)
            continue
        assert program == "glauber", f"{program} is run by no test; say why in front of the block: <!-- not run: ... -->"
        done = commands.glauber(*shorter([instead.get(word, word) for word in words]), cwd=folder)
        assert done.returncode == 0, f"{words}: {done.stderr}"
