"""How long a step and a validation of a recipe take on this machine, by doing them."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from glauber.method import find_method
from glauber.model import Model
from glauber.recipe import Recipe
from glauber.train.data import Data
from glauber.train.parallel import ALONE
from glauber.train.threads import fewest, step_times
from glauber.train.trainer import Trainer
from glauber.train.validate import validate

LEAST = 0.5
"""A recipe is timed for so many seconds, and a step at least; its first step, in which things are set up, does not count."""


class Speed(NamedTuple):
    """Seconds."""

    step: float
    look: float
    """Of a validation with its samples."""


def new_network_trainer(plan: Recipe, data: Data) -> Trainer:
    """A trainer of its own, nothing of which is kept."""
    with torch.random.fork_rng(devices=[]):
        network = find_method(plan.method).network(plan.network)
    process = plan.process.build(data.vocab, data.length, data.counts)
    return Trainer(network.to(ALONE.device), process, data.train, plan.train, plan.method)


def step_seconds(plan: Recipe, data: Data) -> float:
    """The mean time of a step."""
    return _timed(new_network_trainer(plan, data))


def speed(plan: Recipe, data: Data, step: float | None = None) -> Speed:
    """Of a step, unless that is known, and of a validation, which takes the samples that the run will take, too."""
    trainer, method = new_network_trainer(plan, data), find_method(plan.method)
    step = _timed(trainer) if step is None else step
    trained = Model(trainer.average.network, trainer.process, data.codec, plan.method, plan.sampling)
    shown = Model(trainer.average.network, method.sampled_by(plan, trainer.process), data.codec, plan.method, plan.sampling)
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        validate(trainer, trained, shown, data.valid, data.counts, Path(folder), lambda words: None)
    return Speed(step, time.perf_counter() - began)


def _timed(trainer: Trainer) -> float:
    trainer.advance().item()
    began, steps = time.perf_counter(), 0
    while not steps or time.perf_counter() - began < LEAST:
        trainer.advance().item()
        steps += 1
    return (time.perf_counter() - began) / steps


@contextmanager
def as_many_threads_as_pay(plan: Recipe, data: Data) -> Iterator[int]:
    """Inside, torch computes with the number of threads that a run of this recipe would take."""
    before = torch.get_num_threads()
    try:
        if ALONE.device.type == "cpu" and before > 1 and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(fewest(step_times(new_network_trainer(plan, data), before)))
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
