"""Three ways to learn the same conditional: the paper's `binary`, its `marginal`, and the `dense` default."""

from collections.abc import Callable

from torch import Tensor

from glauber.objective.binary import binary, binary_loss
from glauber.objective.dense import dense, dense_loss, draw_times
from glauber.objective.marginal import marginal, marginal_loss

OBJECTIVES: dict[str, Callable[..., Tensor]] = {"binary": binary, "marginal": marginal, "dense": dense}

__all__ = ["OBJECTIVES", "binary", "binary_loss", "dense", "dense_loss", "draw_times", "marginal", "marginal_loss"]
