"""Ways to learn the conditional: the paper's `binary` and `marginal`, `dense`, the default; `causal`, `masked`, `middle`."""

from glauber.objective.binary import binary, binary_loss
from glauber.objective.causal import causal
from glauber.objective.dense import dense, dense_loss, draw_times
from glauber.objective.marginal import marginal, marginal_loss
from glauber.objective.masked import masked
from glauber.objective.middle import middle

__all__ = [
    "binary",
    "binary_loss",
    "causal",
    "dense",
    "dense_loss",
    "draw_times",
    "marginal",
    "marginal_loss",
    "masked",
    "middle",
]
