"""Schedule, noise law and corruption: the forward process. Imports nothing of ours."""

from glauber.process.noise import NoiseLaw
from glauber.process.process import Corruption, Process
from glauber.process.schedule import ORDERS, Schedule

__all__ = ["ORDERS", "Corruption", "NoiseLaw", "Process", "Schedule"]
