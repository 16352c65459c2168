"""What the chain asks of a model."""

from typing import Protocol, runtime_checkable

from torch import Tensor


class Conditional(Protocol):
    """log P(X_0[site] = a | every site that is not asked about): the clean conditional, all that a chain needs to know."""

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        """
        Args:
            x: (B, L) int64 the state; the mask id V may stand where survival is 0.
            t: (B,) int64 the step being undone.
            survival: (B, L) float64 the probability that each site of x carries its clean token.
            sites: (B, b) int64 the sites asked about. What x and survival hold there must not matter; asked together, they
                are all left out of each other's condition.

        Returns:
            (B, b, V) log-probabilities.
        """
        ...


@runtime_checkable
class StepLaw(Protocol):
    """log p_t(a | x_{-i}): signal and noise mixed, what the paper's classifier knows.

    Taking the noise out of an inexact p_t would go negative, so a chain on a step law has no skip.
    """

    def step_law(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        """Arguments and shapes as for `Conditional`."""
        ...
