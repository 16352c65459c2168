"""From a network's logits to what the chain asks for."""

from collections.abc import Callable

import torch
from torch import Tensor

from glauber.process import Process

Network = Callable[..., Tensor]
"""Anything called as `Transformer.forward` is."""


class Denoiser:
    """A network trained with the dense loss: its logits at a masked site are the clean conditional, up to a constant."""

    def __init__(self, network: Network):
        self.network = network

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        return self.network(x, t, survival, sites).double().log_softmax(-1)


class Classifier:
    """A network trained with the binary or marginal loss: σ(logit_a) = ŷ_a tells whether an a at the site is noise.

    The paper's formula p_t(a) = Π_t(a)/Π_t(φ) · (1/ŷ_a - 1), renormalised, since a trained ŷ is not quite consistent.
    1/σ(l) - 1 is exp(-l), so in logarithms it is a subtraction.
    """

    def __init__(self, network: Network, process: Process):
        require_classifiable(process)
        self.network, self.process = network, process

    def step_law(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        self.process = process = self.process.to(x.device)
        kappa = process.schedule.keeps(t)[..., None]
        prior = ((1 - kappa) / kappa).log() + process.noise.probs.log()  # log Π_t(a) / Π_t(φ)
        return (prior - self.network(x, t, survival, sites).double()).log_softmax(-1)


def require_classifiable(process: Process) -> None:
    """Refuse a process in which some question "signal or noise?" has a constant or undefined answer (identity 2)."""
    if not bool(((process.schedule.keep > 0) & (process.schedule.keep < 1)).all()):
        raise ValueError(
            "the paper's classifier needs 0 < keep < 1 at every step; use the dense loss for a schedule that ends in 0"
        )
    if not bool(torch.all(process.noise.probs > 0)):
        raise ValueError("the paper's classifier needs a noise law without zeros; smooth it, e.g. smoothing=1")
