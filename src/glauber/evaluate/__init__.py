"""How good is it: likelihood bounds."""

from glauber.chain.bounds import Bound, bound

__all__ = ["Bound", "bound"]
