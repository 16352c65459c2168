"""The held-out bound of a run, followed: the weights that had the best one are kept, and training stops when it falls no more.

RUN/best/step-…    those weights, as a checkpoint has them, and the bound
"""

import math
from pathlib import Path
from typing import Any

import torch

from glauber.runs import checkpoints, read_checkpoint
from glauber.train.checkpoint import write_checkpoint
from glauber.train.report import read_log
from glauber.train.trainer import Trainer

FOLDER, PART = "best", "average"
BOUNDS = ("valid_bits_per_token_causal", "valid_bits_per_token")
"""What is followed: the bound of the way in which the model samples unless told otherwise."""


class Best:
    """What was best so far. A run that goes on finds it again: the weights in RUN/best, the validations since in the log."""

    def __init__(self, trainer: Trainer, out: Path):
        self.trainer, self.folder, self.patience = trainer, out / FOLDER, trainer.spec.patience
        self.step, self.bits, self.since = -1, math.inf, 0
        if self.patience and (found := trainer.world.together(self._read)) is not None:
            self.step, self.bits = found[1]["step"], found[1]["bits"]
            log = read_log(out / "log.jsonl") if (out / "log.jsonl").is_file() else []
            self.since = sum(line["step"] > self.step for line in log if followed(line) is not None)

    @property
    def over(self) -> bool:
        """Whether the bound has not become better for too long."""
        return 0 < self.patience <= self.since

    def see(self, figures: dict[str, float]) -> None:
        """Take notice of a validation. All processes call it, and find the same."""
        bits, step = followed(figures), self.trainer.step
        if not self.patience or bits is None:
            return
        if bits < self.bits:
            weights = self.trainer.state()[0][PART]
            write_checkpoint(self.folder, {PART: weights}, {"step": step, "bits": bits}, 1, self.trainer.world)
            self.step, self.bits, self.since = step, bits, 0
        elif step > self.step:  # one that is done again after a crash says nothing new
            self.since += 1

    def take(self) -> None:
        """Give the averaged network the best weights, if there are any."""
        if self.patience and (found := self.trainer.world.together(self._read)) is not None:
            with torch.no_grad():
                for name, parameter in self.trainer.average.network.named_parameters():
                    parameter.copy_(found[0][PART][name])

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        kept = checkpoints(self.folder)
        try:
            return read_checkpoint(kept[-1], parts=(PART,)) if kept else None
        except ValueError:  # damaged: the next validation is the best one then
            return None


def followed(figures: dict[str, Any]) -> float | None:
    """The bound that a validation is judged by; None if it has none that is finite."""
    found = next((figures[name] for name in BOUNDS if name in figures), None)
    return found if found is not None and math.isfinite(found) else None
