"""The running average of the weights, which is what is sampled from."""

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


class EMA(Generic[Network]):
    """A second copy of the network that follows it slowly: θ̄ ← θ̄ + (1 - d)(θ - θ̄).

    With a `warmup` d rises to `decay` with the number of updates n as (1 + n)/(10 + n), so that the random start is soon
    forgotten; else it is `decay` from the first.
    """

    def __init__(self, network: Network, decay: float, warmup: bool = True):
        self.network, self.decay, self.warmup, self.updates = copy.deepcopy(network).requires_grad_(False), decay, warmup, 0

    def next_weight(self) -> float:
        """1 - d of the update to come, which is counted."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        self.updates += 1
        return 1 - decay

    @torch.no_grad()
    def update(self, parameters: list[nn.Parameter], weight: float | Tensor) -> None:
        """A part `weight` of the way towards `parameters`, which are the network's, in its order."""
        own, new = list[Tensor](self.network.parameters()), list[Tensor](parameters)
        if isinstance(weight, Tensor):
            torch._foreach_lerp_(own, new, [weight] * len(own))
        else:
            torch._foreach_lerp_(own, new, weight)
