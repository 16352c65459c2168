"""The command line. Thin: it reads arguments, calls the library, prints."""

import os
import sys
from typing import Any

import typer

from glauber.cli import codecs, making, using, verdicts, weighing  # noqa: F401  (each adds its commands)
from glauber.cli.common import app
from glauber.data.writing import FULL

UsageError: Any = typer.BadParameter.__mro__[1]  # click's, or that of typer's own copy of click


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except UsageError as error:
        code = _refuse(f"{error.format_message().rstrip('.')}; --help tells more")
    except (ValueError, ImportError, OSError) as error:
        full = isinstance(error, OSError) and error.errno in FULL
        code = _refuse("the disk is full; free some space and repeat the command" if full else str(error))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        code = _refuse("this needs more memory than there is; ask for fewer samples, or a smaller network or batch")
    except SystemExit as leaving:
        code = leaving.code
    _exit(code if isinstance(code, int) else 0)


def _exit(code: int) -> None:
    """Leave. One of several processes leaves at once: gloo's threads may hold tensors as Python ends, which would abort it."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _refuse(sentence: str) -> int:
    print(f"glauber: {' '.join(sentence.split())}", file=sys.stderr)
    return 2
