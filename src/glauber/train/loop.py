"""Train in memory, in one go: what the demo and a notebook need."""

import sys
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from glauber.conditional import Transformer
from glauber.process import Process
from glauber.train.recipe import TrainSpec
from glauber.train.trainer import Trainer


class Trained(NamedTuple):
    """The averaged network and the loss of every step."""

    network: Transformer
    losses: list[float]


def train(
    network: Transformer,
    process: Process,
    tokens: Tensor,
    spec: TrainSpec,
    objective: str = "dense",
    progress: bool = False,
) -> Trained:
    """Train on the rows of `tokens` (N, L) and return the weights' running average. `spec.seed` decides all randomness."""
    process.check_tokens(tokens)
    trainer = Trainer(network, process, InMemory(tokens), spec, objective)
    losses: list[float] = []
    for _ in bar(range(spec.steps), progress, losses):
        if trainer.done:
            break
        losses.append(trainer.advance().item())
    return Trained(trainer.average.network.eval(), losses)


class InMemory:
    """A tensor of tokens (N, L) as training data."""

    def __init__(self, tokens: Tensor):
        self.tokens = tokens.cpu().numpy()

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.tokens[index]
        return found


def bar(steps: range, progress: bool, losses: list[float]) -> Iterable[int]:
    """The steps, with a progress bar that shows the mean of the last losses."""
    if not progress:
        yield from steps
        return
    from tqdm.auto import tqdm

    every = 0.2 if sys.stderr.isatty() else 10.0  # seconds; a log file wants few lines
    shown = tqdm(steps, desc="train", unit="step", dynamic_ncols=True, mininterval=every, maxinterval=every)
    for step in shown:
        yield step
        if step % 20 == 0 and losses:
            shown.set_postfix(loss=f"{sum(losses[-20:]) / len(losses[-20:]):.3f}", refresh=False)
