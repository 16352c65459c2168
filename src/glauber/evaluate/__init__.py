"""How good is it: likelihood bounds."""

from glauber.evaluate.bounds import Bound, bound

__all__ = ["Bound", "bound"]
