"""Losses that learn the conditional: the paper's `binary` and its `marginal`; `dense`, the default; `causal` and `masked`."""

from collections.abc import Callable

from torch import Tensor

from glauber.objective.binary import binary, binary_loss
from glauber.objective.causal import causal
from glauber.objective.dense import dense, dense_loss, draw_times
from glauber.objective.marginal import marginal, marginal_loss
from glauber.objective.masked import masked

OBJECTIVES: dict[str, Callable[..., Tensor]] = {
    "binary": binary,
    "marginal": marginal,
    "dense": dense,
    "reading": causal,
    "masked": masked,
}

__all__ = [
    "OBJECTIVES",
    "binary",
    "binary_loss",
    "causal",
    "dense",
    "dense_loss",
    "draw_times",
    "marginal",
    "marginal_loss",
    "masked",
]
