"""A method in one file, as a newcomer would write it: each site is hidden with probability one half, whatever the time."""

from typing import Any

import torch
from torch import Tensor

from glauber.conditional import Conditional, Denoiser, StepLaw
from glauber.method import Capabilities, ChainMethod, Compared, LossOptions, Request
from glauber.objective.dense import answers_loss
from glauber.process import Process, Tokens, as_tokens
from glauber.process.draws import uniform


class HalfMasked(ChainMethod):
    """The clean conditional from rows of which half is hidden, sampled by the chain on any schedule."""

    name = "half-masked"
    can = Capabilities(any_schedule=True, fill_gaps=True, orders=True, fewer_calls=True)

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        clean = as_tokens(x0)
        hidden = uniform(clean.shape, how.generator, clean.device) < 0.5
        x, known = torch.where(hidden, process.noise.mask, clean), (~hidden).double()
        return answers_loss(network, x, torch.zeros_like(x[:, 0]), known, clean, process.noise.probs, how.spec is not None)

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        return Denoiser(network, class_, guidance)

    def compared(self, length: int) -> list[Compared]:
        return [Compared(length // 4, "best", Request(calls=length // 4))]
