"""Train in memory, in one go: what the demo and a notebook need."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from glauber.conditional import Transformer
from glauber.process import Process, Tokens, as_tokens
from glauber.recipe import TrainSpec
from glauber.train.report import progress_bar
from glauber.train.trainer import Trainer

SHOW_EVERY = 20


class Trained(NamedTuple):
    """The averaged network and the loss of every step."""

    network: Transformer
    losses: list[float]


def train(
    network: Transformer,
    process: Process,
    tokens: Tokens,
    spec: TrainSpec,
    method: str = "ggm",
    classes: Tokens | None = None,
    progress: bool = False,
) -> Trained:
    """Train on the rows of `tokens` (N, L) and return the weights' running average. `spec.seed` decides all randomness.

    `classes` (N,) are those of the rows, for a network that has them.
    """
    tokens = process.check_tokens(tokens)
    trainer = Trainer(network, process, InMemory(tokens, None if classes is None else as_tokens(classes)), spec, method)
    losses: list[float] = []
    with progress_bar(trainer, progress) as show:
        while not trainer.done:
            losses.append(trainer.advance().item())
            if (found := trainer.trouble()) is not None:
                raise ValueError(f"{found[1]}; train anew with a lower rate than {spec.lr:g}")
            if trainer.step % SHOW_EVERY == 0 or trainer.done:
                show(loss=f"{np.mean(losses[-SHOW_EVERY:]):.3f}")
    return Trained(trainer.average.network.eval(), losses)


class InMemory:
    """A tensor of tokens (N, L) as training data, and the classes (N,) of its rows, if they have any."""

    def __init__(self, tokens: Tensor, classes: Tensor | None = None):
        self.tokens = tokens.cpu().numpy()
        self._classes = None if classes is None else classes.cpu().numpy().astype(np.int64)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.tokens[index]
        return found

    def classes(self, index: np.ndarray) -> np.ndarray:
        if self._classes is None:
            raise ValueError("this network is trained on classes, and the data has none; give classes")
        found: np.ndarray = self._classes[index]
        return found
