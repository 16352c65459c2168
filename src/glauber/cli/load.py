"""Loads the model that a command works with."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glauber.model import Model


def open_model(name: str, device: str | None = None, precision: str | None = None) -> "Model":
    """A model, on the GPU if there is one and no other device is named."""
    calm_threads()
    import torch

    from glauber.model import load

    model = load(name, device or ("cuda" if torch.cuda.is_available() else "cpu"), precision)
    _warn_unfinished(name, model)
    return model


def calm_threads() -> None:
    """Half the cores, unless the user chose: threads that wait for each other are at the mercy of whatever else runs."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


def _warn_unfinished(name: str, model: "Model") -> None:
    """Of a run whose newest checkpoint was taken."""
    from glauber.runs import is_run

    if "checkpoint" in model.about and is_run(Path(name)):
        ended = (Path(name) / "model").is_dir()
        why = f"has gone on since the model in {Path(name) / 'model'}" if ended else "is not finished"
        print(f"glauber: {name} {why}; these are its averaged weights of step {model.about['steps']:,}", file=sys.stderr)
