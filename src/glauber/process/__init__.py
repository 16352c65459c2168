"""Schedule, noise law and corruption: the forward process. Imports nothing of ours."""

from glauber.process.noise import NoiseLaw
from glauber.process.process import Corruption, Process
from glauber.process.schedule import ORDERS, Schedule, smallest_block
from glauber.process.tokens import Mask, Tokens, as_array, as_mask, as_tokens

__all__ = [
    "ORDERS",
    "Corruption",
    "Mask",
    "NoiseLaw",
    "Process",
    "Schedule",
    "Tokens",
    "as_array",
    "as_mask",
    "as_tokens",
    "smallest_block",
]
