"""The command line. Thin: it takes arguments, calls the library, prints."""

import os
import signal
from types import FrameType


def main() -> None:
    """Run a command. The commands themselves are imported here, so that Ctrl-C ends also the first moments without a word."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is for what a shell's script sends to the background
        signal.signal(signal.SIGINT, interrupt)
    try:
        from glauber.cli.run import run

        run()
    except KeyboardInterrupt:
        os._exit(130)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C: in the midst of an import leave at once, since what is half there can be neither used nor undone."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt
