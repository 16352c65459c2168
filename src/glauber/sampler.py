"""A network, its process and how to sample, bound once: what sampling, filling, varying, inpainting and previews all run."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glauber.chain.bounds import NUMBERS
from glauber.conditional import CausalConditional, Conditional, StepLaw, Transformer
from glauber.method import Method, Request, Run, Samples, SamplingPlan
from glauber.process import Process, Schedule
from glauber.runtime.precision import bfloat16, pays_in_bfloat16
from glauber.runtime.runners import cuda_runner

PRECISIONS = ("fp32", "bf16")


class Sampler:
    """What it will do is known before it does it: see `schedule`, `calls` and `plan`.

    Args:
        process: the model's own; the plan may have another schedule.
        request: what differs from the model's own sampling.
        precision: "fp32" or "bf16"; None for what the device is good at. Draws are float64 in any case.

    Example:
        >>> sampler = model.sampler(calls=16)
        >>> sampler.run(4, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([4, 256])
    """

    def __init__(
        self,
        network: Transformer,
        process: Process,
        method: Method,
        request: Request = Request(),
        precision: str | None = None,
    ):
        self.network, self.process, self.method = network, process, method
        self.answers: Any = network
        """What answers; several processes may put a network there that they share."""
        self.precision = require_precision(precision)
        self.plan: SamplingPlan = method.plan(process.schedule, network.config, request)

    @property
    def schedule(self) -> Schedule:
        """That of the chain."""
        return self.plan.schedule

    @property
    def calls(self) -> int:
        """The most network calls of a sample; guidance makes two of each."""
        return self.plan.calls

    @property
    def length(self) -> int:
        return self.process.length

    @property
    def knows_absent(self) -> bool:
        """Whether it can be told that sites are no part of the sequence."""
        return self.method.can.clean_conditional and self.network.config.conditioning != "time"

    def run(self, num: int | None = None, **given: Any) -> Tensor:
        """(num, L) tokens. `given` are a generator, a clamp, a start, ... as in `Run`."""
        return self.draw(num, Run(**given)).tokens

    def draw(self, num: int | None, run: Run) -> Samples:
        """The same, with the mean number of network calls that a row took."""
        with self.evaluating(), self._in_precision():
            samples = self.method.sample(self.answers, self.process, self.plan, num, replace(run, runner=cuda_runner))
        if run.record is not None:
            run.record.calls = samples.calls
        return samples

    def conditional(self, both_ways: bool = False) -> Conditional | StepLaw:
        """What the network knows, for the model's own process; to be called within `evaluating`."""
        return self.method.conditional(self.network, self.process, both_ways)

    @property
    def knows_likelihood(self) -> bool:
        """Whether it knows the probability of a row, each token given those before it: a model that samples so by itself."""
        causal = self.process.schedule.causal and self.network.config.causal
        return causal and isinstance(self.conditional(), CausalConditional)

    @torch.no_grad()
    def log_likelihoods(self, x: Tensor) -> Tensor:
        """(B, L) log P(x_j | x_0 .. x_{j-1}) of rows of tokens (B, L), in float64."""
        causal = self.conditional()
        assert isinstance(causal, CausalConditional)
        size = max(1, NUMBERS // (self.length * self.process.vocab))
        with self.evaluating():
            return torch.cat([causal.rows(part) for part in x.to(self.schedule.order.device).split(size)]).cpu()  # type: ignore[no-untyped-call]

    def evaluating(self) -> AbstractContextManager[None]:
        """The network in evaluation mode, and then again in the one it was in."""
        return evaluating(self.network)

    def _in_precision(self) -> AbstractContextManager[None]:
        """The network in its precision; one that was cast as a whole stays so."""
        weight = self.network.head.weight
        automatic = self.precision is None and not self.method.fp32 and pays_in_bfloat16(weight.device)
        low = weight.dtype == torch.float32 and (automatic or self.precision == "bf16")
        return bfloat16(self.network) if low else nullcontext()


@contextmanager
def evaluating(network: torch.nn.Module) -> Iterator[None]:
    """A network in evaluation mode, and then again in the one it was in."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def require_precision(precision: str | None) -> str | None:
    """Refuse one that there is not."""
    if precision not in (None, *PRECISIONS):
        raise ValueError(f"the precision is fp32 or bf16, or None for what the device is good at, not {precision!r}")
    return precision
