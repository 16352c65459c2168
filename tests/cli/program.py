"""Runs a command as a user does, in a process of its own; and the small model that the tests of the commands use."""

import subprocess
from pathlib import Path

import commands
import torch

from glauber import Model, NoiseLaw, PixelCodec, Process, Schedule, Transformer, TransformerConfig

STORY = "it was the best of times, it was the worst of times\n" * 8


def run(*arguments: object, columns: int = 100, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*arguments, cwd=cwd, env={"COLUMNS": str(columns), "PATH": "", "NO_COLOR": "1"})


def model(codec: bool) -> Model:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab=4, length=16, width=16, layers=1, heads=2, grid=(4, 4)))
    process = Process(Schedule.round_robin(16, 32, keep="linear"), NoiseLaw.uniform(4))
    return Model(network, process, PixelCodec((4, 4), 4) if codec else None, about={"data": "none"})


def assert_refused(result: subprocess.CompletedProcess[str], about: str) -> None:
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert about in result.stderr
    assert result.stderr.startswith("glauber: ")
    assert result.stderr.count("\n") == 1, "one sentence on one line"
