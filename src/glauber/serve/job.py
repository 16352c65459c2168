"""One request at work: it yields the rows that it needs, and tells what happens to whoever waits for it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glauber.chain.step import Rows
from glauber.model import Model
from glauber.serve.limits import DEADLINE
from glauber.tasks.steps import Draw, Steps

QUEUED, RUNNING, DONE = "queued", "running", "done"


class Event(NamedTuple):
    """What happened: "start", "state", "text"; at the end "done" with the answer, or "error" with the exception."""

    kind: str
    data: Any


class TooLate(Exception):
    """The deadline has passed."""


Task = Callable[["Job", Model], Steps[dict[str, Any]]]
"""Made by the worker, in its own thread."""


@dataclass(eq=False)
class Job:
    """Made in the event loop; but for `events` and `cancel` it is the worker's."""

    task: Task
    loop: asyncio.AbstractEventLoop
    deadline: float = field(default_factory=lambda: time.monotonic() + DEADLINE)
    events: "asyncio.Queue[Event]" = field(default_factory=asyncio.Queue)
    cancelled: bool = False
    over: bool = False
    steps: Steps[dict[str, Any]] | None = None
    draw: Draw | None = None
    """What it waits for."""
    rows: Rows | None = None
    """Of the chain that draws for it."""
    calls: float = 0.0
    """Network calls of a row, in the mean."""

    def cancel(self) -> None:
        """Nobody waits any more; the worker sees it at the next step."""
        self.cancelled = True

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

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
