"""Kernels, truncation, clamping, and the driver that walks a schedule back."""

from glauber.chain.counting import CallCounter
from glauber.chain.driver import run_chain
from glauber.chain.options import ChainOptions, check_options
from glauber.chain.runner import Runner
from glauber.chain.truncation import Truncation

__all__ = ["CallCounter", "ChainOptions", "Runner", "Truncation", "check_options", "run_chain"]
