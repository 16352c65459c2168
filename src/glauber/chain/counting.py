"""How much network a chain used."""

from collections.abc import Callable

from torch import Tensor


class CallCounter:
    """A network, or a conditional, that counts: `rows`, the sequences sent through it, and `calls`, the batches."""

    def __init__(self, function: Callable[..., Tensor]):
        self.function, self.rows, self.calls = function, 0, 0

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        self.rows += len(x)
        self.calls += 1
        return self.function(x, t, survival, sites)
