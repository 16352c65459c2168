"""Data sets as arrays."""

from glauber.data.digits import Digits, load_digits

__all__ = ["Digits", "load_digits"]
