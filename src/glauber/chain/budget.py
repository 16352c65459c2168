"""Which chain to run for a budget of network calls. `experiments/calls.py` makes the samples by which it was chosen."""

from typing import Any, NamedTuple

import torch

from glauber.process import Schedule


class Choice(NamedTuple):
    """For `calls` · L calls or more: sweeps in this order, in blocks as small as can be."""

    calls: float
    sweeps: int
    order: str = "segments"
    keep: float | str = "linear"
    options: tuple[tuple[str, Any], ...] = ()
    """Of `run_chain`, such as (("mark_noise", True),)."""


CHOICES = (Choice(0, sweeps=1),)
"""From small budgets to large ones."""


class Plan(NamedTuple):
    """A chain that keeps to a budget: its schedule, and options of `run_chain`."""

    schedule: Schedule
    options: dict[str, Any]

    @property
    def calls(self) -> int:
        """The most that a sample needs."""
        return len(self.schedule.times)


def plan_within(calls: int, length: int) -> Plan:
    """A way to draw rows of so many sites with at most so many network calls each: on text the best of docs/sampling.md.

    The blocks must divide the length; so a budget may be used in part.
    """
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
        raise ValueError(f"a sample takes at least one network call, so calls must be 1 or more, not {calls}")
    choice = [choice for choice in CHOICES if choice.calls * length <= calls][-1]
    steps = min(choice.sweeps, calls) * length
    block = next(block for block in range(1, length + 1) if length % block == 0 and steps <= block * calls)
    generator = torch.Generator().manual_seed(0)
    return Plan(
        Schedule.round_robin(length, steps, choice.keep, choice.order, block, generator=generator), dict(choice.options)
    )
