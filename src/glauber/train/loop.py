"""The training loop: one device, tokens in memory."""

import math
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.conditional import Transformer
from glauber.objective import OBJECTIVES
from glauber.process import Process
from glauber.train.average import Average
from glauber.train.recipe import TrainSpec


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
    seed: int = 0,
    progress: bool = False,
) -> Trained:
    """Train on the rows of `tokens` (N, L) and return the weights' running average.

    The batches, times and noise depend on the seed alone.
    """
    generator = torch.Generator(tokens.device).manual_seed(seed)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=0.0, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, fused=True
    )
    average, losses = Average(network, spec.ema), list[float]()
    loss_of = OBJECTIVES[objective]
    options: dict[str, Any] = {} if objective == "dense" else {"timesteps": spec.timesteps}
    network.train()
    for step in _bar(range(spec.steps), progress, losses):
        rows = torch.randint(len(tokens), (spec.batch,), generator=generator, device=tokens.device)
        loss = loss_of(network, process, tokens[rows], generator=generator, **options)
        loss.backward()  # type: ignore[no-untyped-call]
        if spec.clip is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), spec.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, spec)
        optimizer.step()
        optimizer.zero_grad()
        average.update(network)
        losses.append(loss.item())
    return Trained(average.network.eval(), losses)


def learning_rate(step: int, spec: TrainSpec) -> float:
    """Linear from 0 to the peak, a cosine down to the final rate, then constant."""
    if step < spec.warmup:
        return spec.rate * step / spec.warmup
    end = spec.decay if spec.decay is not None else spec.steps
    done = min(1.0, (step - spec.warmup) / max(1, end - spec.warmup))
    return spec.final_rate + (spec.rate - spec.final_rate) * 0.5 * (1 + math.cos(math.pi * done))


def _bar(steps: range, progress: bool, losses: list[float]) -> Iterable[int]:
    if not progress:
        yield from steps
        return
    from tqdm.auto import tqdm

    every = 0.2 if sys.stderr.isatty() else 10.0  # seconds; a log file wants few lines
    bar = tqdm(steps, desc="train", unit="step", dynamic_ncols=True, mininterval=every, maxinterval=every)
    for step in bar:
        yield step
        if step % 20 == 0 and losses:
            bar.set_postfix(loss=f"{sum(losses[-20:]) / len(losses[-20:]):.3f}", refresh=False)
