"""Kernels, truncation, clamping, and the driver that walks a schedule back."""

from glauber.chain.counting import CallCounter
from glauber.chain.driver import check_options, run_chain
from glauber.chain.truncation import Truncation

__all__ = ["CallCounter", "Truncation", "check_options", "run_chain"]
