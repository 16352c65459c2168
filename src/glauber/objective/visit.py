"""What the paper's losses look at: one step of the process, at times of its own for each example."""

from typing import NamedTuple

from torch import Tensor

from glauber.conditional import require_classifiable
from glauber.process import Process, Tokens, as_tokens
from glauber.process.draws import Generator, KeyedGenerator, uniform


class Visit(NamedTuple):
    """A step of the forward process; b is the schedule's block."""

    x0: Tensor  # (B, L)
    t: Tensor  # (B,)
    x_t: Tensor  # (B, L)
    x_next: Tensor  # (B, L)
    sites: Tensor  # (B, b)
    z: Tensor  # (B, b), -1 for φ
    survival: Tensor  # (B, L)


def visit(process: Process, x0: Tokens, timesteps: int, check: bool, generator: Generator | None) -> Visit:
    """Each example `timesteps` times, t uniform over 0..T-1.

    The printed algorithm stops at T-2, but the sampler uses step T-1 too.
    """
    if check:
        require_classifiable(process)
    x0 = (process.check_tokens(x0) if check else as_tokens(x0)).repeat_interleave(timesteps, dim=0)
    generator = generator.repeat(timesteps) if isinstance(generator, KeyedGenerator) else generator
    t = (uniform((len(x0),), generator, x0.device) * process.schedule.steps).long()
    step = process.corrupt(x0, t, generator, check=False)
    sites, z = step.site.view(len(x0), -1), step.z.view(len(x0), -1)
    return Visit(x0, t, step.x_t, step.x_next, sites, z, step.survival)
