"""One request at work: it yields the rows that it needs, and tells what happens to whoever waits for it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glauber.chain.clamp import is_beginning
from glauber.chain.step import Rows
from glauber.model import Model
from glauber.serve import limits
from glauber.tasks.steps import Draw, Steps


class Event(NamedTuple):
    """What happened: "start", "state", "text"; at the end "done" with the answer, or "error" with the exception."""

    kind: str
    data: Any


class TooLate(Exception):
    """The deadline has passed."""


class Busy(Exception):
    """Too many requests wait; `seconds` says when to come again."""

    def __init__(self, seconds: int):
        super().__init__(f"too many requests wait for this model; come again in {seconds} s")
        self.seconds = seconds


def rows_of(draw: Draw) -> int:
    """How many it needs."""
    return len(draw.run.start[0]) if draw.run.start is not None else draw.num or 0


def key_of(draw: Draw) -> tuple[Any, ...] | None:
    """Draws with the same key may share a chain; None for one that must be alone."""
    run, plan = draw.run, draw.sampler.plan
    if not plan.by_chain or not rows_of(draw) or (run.record is not None and run.record.alone):
        return None
    both_ways = run.clamp is not None and not is_beginning(run.clamp)
    return id(draw.sampler), both_ways, None if run.start is None else run.start[1], run.clamp is None and plan.whole_rows


Task = Callable[["Job", Model], Steps[dict[str, Any]]]
"""Made by the worker, in its own thread."""


@dataclass(eq=False)
class Job:
    """Made in the event loop; but for `events` and `cancel` it is the worker's."""

    task: Task
    loop: asyncio.AbstractEventLoop
    began: float = field(default_factory=time.monotonic)
    events: "asyncio.Queue[Event]" = field(default_factory=asyncio.Queue)
    cancelled: bool = False
    over: bool = False
    turn: bool = False
    """Whether it has had its turn."""
    steps: Steps[dict[str, Any]] | None = None
    draw: Draw | None = None
    """What it waits for."""
    key: tuple[Any, ...] | None = None
    """Jobs with the same one may share a chain; None for one that must be alone."""
    rows: Rows | None = None
    """Of the chain that draws for it."""
    calls: float = 0.0
    """Network calls of a row, in the mean."""

    def needs(self, draw: Draw) -> None:
        """It goes on when it has these rows."""
        self.draw, self.key = draw, key_of(draw)

    def cancel(self) -> None:
        """Nobody waits any more; the worker sees it at the next step."""
        self.cancelled = True

    @property
    def left(self) -> float:
        """Seconds until the deadline, or until it has waited too long for its turn."""
        return max(0.0, self.began + (limits.DEADLINE if self.turn else limits.PATIENCE) - time.monotonic())

    @property
    def late(self) -> bool:
        return not self.left

    @property
    def lateness(self) -> TooLate | Busy:
        """What is said where it is late."""
        return TooLate() if self.turn else Busy(round(limits.PATIENCE))

    @property
    def ended(self) -> bool:
        """Whether there is nothing to be done for it."""
        return self.over or self.cancelled or self.late

    def tell(self, kind: str, data: Any) -> None:
        """To the event loop, if it still runs."""
        try:
            self.loop.call_soon_threadsafe(self.events.put_nowait, Event(kind, data))
        except RuntimeError:  # the loop is closed, and nobody listens
            self.cancelled = True

    def end(self, kind: str, data: Any) -> None:
        """The last that is told."""
        self.over = True
        if self.steps is not None:
            self.steps.close()
        self.tell(kind, data)
