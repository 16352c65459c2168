"""How a chain's steps are repeated: one after the other, unless the caller knows a faster way.

A runner is handed to `run_chain` from outside. The chain says what it is about to do. The runner may prepare for it, and may
give back a `Record`, which turns a step into one that is faster to repeat, such as a CUDA graph. What a step does in Python is
then done once and not in each repetition, and the shapes of its tensors stay the same.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor

from glauber.conditional import Conditional

Step = Callable[[], Tensor]
"""Takes each row through its next call, in place; a scalar tensor says whether every law could be drawn from."""
Record = Callable[[Step, int], Step | None]
"""(step, calls): the step to be repeated so many times in its place; None where that is not worth it."""
Runner = Callable[[Conditional, Tensor, float], AbstractContextManager[Record | None]]
"""(conditional, x, calls): for the time of a chain from the state x, which makes some `calls` calls a row. The conditional is
the one that answers in the end, behind what counts or restricts it. No `Record` where its steps cannot be recorded."""


def eager(conditional: Conditional, x: Tensor, calls: float) -> AbstractContextManager[Record | None]:
    """Every step as it is: right for any conditional on any device."""
    return nullcontext()
