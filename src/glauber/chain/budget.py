"""Which chain to run for a budget of network calls. `experiments/calls.py` makes the samples by which it was chosen."""

from glauber.process import Schedule, smallest_block


def schedule_within(calls: int, length: int) -> Schedule:
    """How to draw rows of so many sites with at most so many network calls each: on text the best of docs/sampling.md.

    One sweep, in blocks as small as can be. They must divide the length; so a budget may be used in part.
    """
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
        raise ValueError(f"a sample takes at least one network call, so calls must be 1 or more, not {calls}")
    block = smallest_block(length, length, calls)
    return Schedule.round_robin(length, length, "linear", "segments", block)
