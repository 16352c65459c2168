"""Which chain to run for a budget of network calls. `experiments/calls.py` makes the samples by which it was chosen."""

from typing import Any, NamedTuple

from glauber.process import Schedule, smallest_block


class Plan(NamedTuple):
    """A chain that keeps to a budget: its schedule, and options of `run_chain`."""

    schedule: Schedule
    options: dict[str, Any]

    @property
    def calls(self) -> int:
        """The most that a sample needs."""
        return len(self.schedule.times)


def plan_within(calls: int, length: int) -> Plan:
    """How to draw rows of so many sites with at most so many network calls each: on text the best of docs/sampling.md.

    One sweep, in blocks as small as can be. They must divide the length; so a budget may be used in part.
    """
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
        raise ValueError(f"a sample takes at least one network call, so calls must be 1 or more, not {calls}")
    block = smallest_block(length, length, calls)
    return Plan(Schedule.round_robin(length, length, "linear", "segments", block), {})
