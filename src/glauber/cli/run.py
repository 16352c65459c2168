"""Runs a command, and turns what goes wrong into one sentence."""

import os
import sys
from contextlib import suppress
from typing import Any, get_args, get_type_hints

import typer

from glauber.cli import (  # noqa: F401  (each adds its commands)
    bench,
    codec,
    demo,
    evaluate,
    infill,
    info,
    play,
    prepare,
    sample,
    score,
    serve,
    train,
    vary,
)
from glauber.cli.app import app
from glauber.cli.files import is_full
from glauber.runtime import progress
from glauber.runtime.signals import leave_on_interrupt

UsageError: Any = typer.BadParameter.__mro__[1]  # click's, or that of typer's own copy of click
MOST = 2**31 - 1
"""Of a whole number that is given as an option: what a tensor can count, and more than anybody means."""
LONGEST = 800
"""Characters of a sentence about what is wrong."""


def run() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that does not know a character is no reason to lose a text
        with suppress(AttributeError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    _limit_numbers(app)
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        print(end="", flush=True)
    except (typer.Abort, KeyboardInterrupt):
        progress.clear()
        code = 130
    except UsageError as error:
        code = _refuse(f"{error.format_message().rstrip('.')}; see --help")
    except BrokenPipeError:  # who read what we write has seen enough
        code = 141
    except (ValueError, ImportError, OSError) as error:
        code = _refuse("the disk is full; free some space and repeat the command" if is_full(error) else _words(error))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        code = _refuse("this needs more memory than there is; ask for fewer samples, or a smaller network or batch")
    except SystemExit as leaving:
        code = leaving.code
    _exit(code if isinstance(code, int) else 0)


def _words(error: Exception) -> str:
    """What is wrong; of a file that the system refuses, which one."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename} cannot be used ({error.strerror.lower()}); check its name and who may use it"
    return str(error)


def _exit(code: int) -> None:
    """Leave. One of several processes leaves at once: gloo's threads may hold tensors as Python ends, which would abort it."""
    leave_on_interrupt(code or 130)
    try:
        print(end="", flush=True)
    except OSError:  # it was said already that nothing can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _refuse(sentence: str) -> int:
    """Say it on one line of a length that can be read; what a file's name may hold to disturb a terminal is spelt out."""
    progress.clear()
    line = " ".join(sentence.split())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    print("glauber:", "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line), file=sys.stderr)
    return 2


def _limit_numbers(commands: typer.Typer) -> None:
    """Refuse a number beyond MOST in every option that has no limit of its own."""
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _limit_numbers(group.typer_instance)
    for command in commands.registered_commands:
        for kind in get_type_hints(command.callback, include_extras=True).values():
            plain, *details = get_args(kind) or (kind,)
            for option in details:
                if int in (plain, *get_args(plain)) and isinstance(option, typer.models.ParameterInfo) and option.max is None:
                    option.callback = option.callback or _within


def _within(number: int | None) -> int | None:
    if number is not None and abs(number) > MOST:
        raise typer.BadParameter(f"{number} is beyond {MOST:,}")
    return number
