"""How a chain's steps are repeated: one after the other, unless the caller knows a faster way.

A runner is handed to `run_chain` from outside. The chain says what it is about to do. The runner may prepare for it, and may
give back a `Graph`, which turns a step into one that is replayed. What the step does in Python is then done once, not in each
replay, and the shapes of its tensors stay the same.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor

from glauber.conditional import Conditional

Step = Callable[[], Tensor]
"""Takes each row through its next call, in place; a scalar tensor says whether every law could be drawn from."""
Graph = Callable[[Step, int], Step | None]
"""(step, calls): the step as one that is replayed so many times; None where that is not worth it."""
Runner = Callable[[Conditional, Tensor, float], AbstractContextManager[Graph | None]]
"""(conditional, x, calls): for the time of a chain from the state x, which makes some `calls` calls a row. The conditional is
the one that answers in the end, behind what counts or restricts it. No `Graph` where its steps cannot be replayed."""


def eager(conditional: Conditional, x: Tensor, calls: float) -> AbstractContextManager[Graph | None]:
    """Every step as it is: right for any conditional on any device."""
    return nullcontext()
