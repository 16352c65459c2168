"""The command line. Thin: it reads arguments, calls the library, prints."""

import os

from glauber.runtime.signals import catch_interrupts


def main() -> None:
    """Run a command. The commands themselves are read here, so that Ctrl-C ends also the first moments without a word."""
    catch_interrupts()
    try:
        from glauber.cli.run import run

        run()
    except KeyboardInterrupt:
        os._exit(130)
