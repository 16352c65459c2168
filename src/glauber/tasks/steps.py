"""Tasks that stop where they need rows of a chain: alone each runs its own, together several can share one."""

from collections.abc import Generator
from typing import NamedTuple, TypeVar

from torch import Tensor

from glauber.method import Run
from glauber.sampler import Sampler

Result = TypeVar("Result")


class Draw(NamedTuple):
    """Rows that a task needs before it can go on; it is sent their tokens (num, L)."""

    sampler: Sampler
    num: int | None
    run: Run


Steps = Generator[Draw, Tensor, Result]
"""A task: it yields a `Draw` each time it needs rows, and returns its result."""


def run_alone(steps: Steps[Result]) -> Result:
    """The result of a task whose chains are its own."""
    try:
        draw = next(steps)
        while True:
            draw = steps.send(draw.sampler.draw(draw.num, draw.run).tokens)
    except StopIteration as done:
        result: Result = done.value
        return result
