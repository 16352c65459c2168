"""What several experiments share: a trained model, a step of training on the clock, files of arrays, a command line."""

import argparse
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glauber import Model, load
from glauber.runs import is_run
from glauber.train import Trainer, recipe
from glauber.train.data import shards_data
from glauber.train.overrides import apply_settings, parse_settings
from glauber.train.run import run

PATH: dict[str, Any] = {"type": Path}
"""An argument that is a path, for `run_command`."""

TRAINED: dict[str, dict[str, Any]] = {
    "data": PATH,
    "out": PATH,
    "--seconds": {"type": float, "default": 600.0},
    "--set": {"dest": "settings", "action": "append", "default": []},
}
"""The arguments of a command that trains several methods."""


def device() -> torch.device:
    """A GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def low_precision(model: Model) -> torch.autocast:
    """bfloat16 on a GPU, as it was trained; draws are float64 everywhere."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda")


def trained(name: str, method: str, data: Path, out: Path, seconds: float, settings: Sequence[str]) -> Model:
    """A model of the recipe by this method, trained for so many seconds in `out`; an interrupted run goes on."""
    if not (out / "model.safetensors").is_file():  # a model alone, without its run
        changes = {"method": method, "train.seconds": seconds, "train.steps": 10**7, **parse_settings(settings)}
        run(apply_settings(recipe(name), changes), shards_data(data), out, resume=is_run(out))
    return load(out, device())


def advance(trainer: Trainer, steps: int = 10) -> float:
    """Some steps; the loss of the last. A GPU is waited for, and the wait counts as training."""
    for _ in range(steps):
        loss = trainer.advance()
    began = time.perf_counter()
    value = loss.item()
    trainer.seconds += time.perf_counter() - began
    return value


def npy(array: np.ndarray) -> bytes:
    """The content of a .npy file."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def run_command(description: str | None, commands: Mapping[Callable[..., None], Mapping[str, dict[str, Any]]]) -> None:
    """The command that the user names, each with its arguments and the options of `add_argument` for them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parsers = parser.add_subparsers(required=True)
    for command, arguments in commands.items():
        sub = parsers.add_parser(command.__name__, help=command.__doc__)
        for name, options in arguments.items():
            sub.add_argument(name, **options)
        sub.set_defaults(command=command)
    options = vars(parser.parse_args())
    options.pop("command")(**options)
