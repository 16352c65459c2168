"""Signals: Ctrl-C in a command, and a request to stop in work that finishes its step first."""

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PATIENCE = 3.0  # seconds


def catch_interrupts() -> None:
    """Ctrl-C is a KeyboardInterrupt, and in the midst of an import the end; a shell's background job goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def leave_on_interrupt(code: int) -> None:
    """From here on Ctrl-C ends the program at once."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """In the midst of an import leave at once, since what is half there can be neither used nor taken back."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


@contextmanager
def stop_requests(patience: float = math.inf) -> Iterator[list[int]]:
    """SIGTERM and SIGINT put their number into the list instead of ending the program.

    One that comes `patience` seconds after the first ends it. Not the second one: `timeout`, a terminal and a cluster's
    scheduler may send the same signal twice at once.
    """
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    first = math.inf

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        first = min(first, time.monotonic())
        if time.monotonic() - first > patience:
            signal.signal(number, before[signal.Signals(number)])
            os.kill(os.getpid(), number)
        caught.append(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
