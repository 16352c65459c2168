"""How each method of the table samples with a budget of network calls, and what bounds the law of that very plan."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from glauber.method import METHODS, BoundOptions, Compared, Method
from glauber.model import Model
from glauber.process import Schedule
from glauber.sampler import Sampler
from glauber.tasks.score import Windows, ratio

DRAWS = 64
"""Network calls of a bound for each row, at most."""


class Plan(NamedTuple):
    """A row of the table: network calls of a sample, and the order of sites, "random", "best" or, all at once, none."""

    calls: int
    order: str | None

    @property
    def name(self) -> str:
        return f"{self.calls} calls" + (f", {self.order} order" if self.order else "")


def compared_methods() -> list[str]:
    """The registered methods that have rows in the table."""
    return [name for name, method in METHODS.items() if method.compared(256)]


def plans(method: str, length: int) -> list[Plan]:
    """All rows of a method."""
    if length % 16 or length < 32:
        raise ValueError(f"the table needs rows of 32, 48, 64, ... tokens, not {length}; prepare the data with --length 256")
    return [Plan(row.calls, row.order) for row in METHODS[method].compared(length)]


def sampler_of(model: Model, plan: Plan) -> Sampler:
    """The sampler of a row. A random order of a chain is one permutation, the same for all rows of tokens."""
    request = compared(model.method, model.process.length, plan).request
    return model.sampler(request.calls, request.sweeps, request.block, request.order)


def compared(method: Method, length: int, plan: Plan) -> Compared:
    """What the method says of a row."""
    (found,) = (row for row in method.compared(length) if (row.calls, row.order) == plan)
    return found


def order_of(model: Model, plan: Plan) -> str | None:
    """The order of a row in words; the best one as the schedule calls it."""
    if plan.order != "best":
        return plan.order
    sampler, L = sampler_of(model, plan), model.process.length
    schedule = sampler.schedule
    if sampler.plan.order is not None:
        schedule = Schedule.round_robin(L, L, 0.0, sampler.plan.order.flip(0), max(1, L // plan.calls))
    said = schedule.to_dict()["order"]
    words = [said if isinstance(said, str) else "random", *sampler.plan.options]
    several = schedule.sweeps > 1 and model.method.can.any_schedule
    return ", ".join([*words, f"{schedule.sweeps} sweeps"] if several else words)


def draw(model: Model, plan: Plan, rows: int, generator: torch.Generator) -> Tensor:
    """(rows, L) tokens, with float64 draws and without any truncation."""
    return sampler_of(model, plan).run(rows, generator=generator, progress=True)


def bound(model: Model, plan: Plan, windows: Windows) -> dict[str, float] | None:
    """Bits per character of held-out rows, an upper bound for the law that `draw` samples from; none where none is known."""
    sampler, x0 = sampler_of(model, plan), windows.tokens.to(model.device)
    how = BoundOptions(draws=DRAWS, generator=torch.Generator().manual_seed(0), progress=True)
    with sampler.evaluating():
        nats = model.method.plan_bound(model.network, model.process, sampler.plan, x0, how)
    return None if nats is None else _figures(nats, windows)


def _figures(nats: Tensor, windows: Windows) -> dict[str, float]:
    assert windows.characters is not None
    bits, error = ratio(nats.cpu() / math.log(2), windows.characters.double())
    return {"bits_per_char": bits, "error": error}
