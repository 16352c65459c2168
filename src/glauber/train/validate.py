"""What a run looks at now and then: bounds on held-out rows, a few samples, and whether the network has learned anything."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glauber.conditional import CausalConditional, conditional_of
from glauber.evaluate import bound
from glauber.method import DIFFUSIONS
from glauber.model import Model
from glauber.process import Process, Schedule
from glauber.recipe import Recipe
from glauber.train.parallel import Shared
from glauber.train.samples import draw_samples, quick_schedule, write_samples
from glauber.train.trainer import Rows, Trainer

VALID_ROWS = 64
HARDLY = 0.95
"""A figure above this share of what the tokens' frequencies alone come to is said to be hardly better."""


def own_process(plan: Recipe, process: Process) -> Process:
    """The chain that a model runs unless told: it reads if it has learned to, which takes one pass over a row."""
    return causal_process(process) if plan.train.causal_every and plan.network.causal and plan.objective == "dense" else process


def causal_process(process: Process) -> Process:
    """One sweep in reading order, with the same noise."""
    return Process(Schedule.round_robin(process.length, process.length, 0.0, "left-to-right"), process.noise)


def validate(
    trainer: Trainer, model: Model, shown: Model, valid: Rows, counts: Tensor, out: Path, say: Callable[[str], None]
) -> dict[str, float]:
    """Figures of held-out rows, in bits per token: the bound of the averaged network on the chain that it is trained for, that
    of reading if it learns that, and what the tokens' frequencies alone come to, which it must beat. And samples, by the chain
    of `shown`. No clock runs meanwhile."""
    _sample(trainer, shown, out)
    if len(valid) == 0 or model.objective == "masked":  # whose chain has no bound that tells anything
        return {}
    process = model.process
    rows = torch.from_numpy(valid[np.arange(min(VALID_ROWS, len(valid)))]).to(trainer.device)
    generator = torch.Generator().manual_seed(0)
    nats = {}
    if model.objective in DIFFUSIONS:
        with model.evaluating():
            nats[""] = DIFFUSIONS[model.objective].bound(model.network, process, rows, 8, generator).mean().item()
    else:
        nats[""] = bound(_conditional(trainer, model), process, rows, draws=8, generator=generator).mean
    if trainer.spec.causal_every and model.objective == "dense":  # then the model will read unless told otherwise
        nats["_causal"] = bound(
            CausalConditional(model.network), causal_process(process).to(trainer.device), rows, draws=1
        ).mean
    bits = {f"valid_bits_per_token{how}": value / (np.log(2) * process.length) for how, value in nats.items()}
    unigram = unigram_bits(counts, rows)
    advice = "--recipe small, which learns to read, too, and sooner" if [*nats] == [""] and model.objective == "dense" else ""
    if (words := nothing_learned(min(bits.values()), unigram, process.vocab, advice)) is not None:
        say(f"step {trainer.step:,}: {words}")
    return bits | {"unigram_bits_per_token": unigram}


def unigram_bits(counts: Tensor, rows: Tensor) -> float:
    """Bits per token of (N, L) rows by how often each token occurs in the training data, one added to each count."""
    law = counts.double() + 1
    return -(law / law.sum()).log2().to(rows.device)[rows].mean().item()


def nothing_learned(bits: float, unigram: float, vocab: int, advice: str = "") -> str | None:
    """What is wrong, and what to try, where a network knows hardly more of a token than one that looks at no other token."""
    uniform = math.log2(vocab)
    if not bits > HARDLY * min(unigram, uniform):
        return None
    alone = f"their frequencies alone ({unigram:.2f})" if unigram < uniform else f"the uniform law ({uniform:.2f})"
    tries = ", ".join(["more steps", "another train.lr", *([advice] if advice else [])])
    return f"{bits:.2f} bits a held-out token, hardly better than {alone}: it looks at no other token yet; try {tries}"


def _conditional(trainer: Trainer, model: Model) -> Any:
    """What the network knows, by all processes together, but for one with a cache, which each asks alone."""
    alone = model.process.schedule.causal or model.objective == "reading"
    network = model.network if alone else Shared(model.network, trainer.world)
    return conditional_of(model.objective, network, model.process)


def _sample(trainer: Trainer, model: Model, out: Path) -> None:
    reading, other = model.process.schedule.causal or model.objective == "reading", model.objective in DIFFUSIONS
    if trainer.sharded and (reading or other):  # no process could do that alone
        return
    if trainer.spec.samples and (schedule := quick_schedule(model)) is not None:
        tokens = draw_samples(model, None if other else _conditional(trainer, model), schedule, trainer.spec.samples)
        first = trainer.world.first
        trainer.world.together(lambda: write_samples(model, tokens, out / "samples", trainer.step) if first else None)
