"""Where figures come from: what stands at the head of every file of raw figures."""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import glauber
from glauber.runtime.files import write

KEYS = ("command", "commit", "machine")
COMMIT = "GLAUBER_COMMIT"
"""The environment's variable that names the commit where code runs outside its checkout, such as on a rented machine."""


def provenance() -> dict[str, str | None]:
    """The command that runs, the commit of this code and the machine; what cannot be known is None."""
    return {"command": _command(), "commit": _commit(), "machine": _machine()}


def write_figures(path: Path, figures: dict[str, Any]) -> None:
    """A JSON file of figures with their provenance, whole or not at all."""
    figures = provenance() | {name: value for name, value in figures.items() if name not in KEYS}
    write(path, json.dumps(figures, indent=1).encode() + b"\n")


def _command() -> str | None:
    """As it would be typed; of a path on this machine only the name is kept."""
    program, *words = sys.argv
    if Path(program).name == "__main__.py":
        program = Path(program).parent.name
    elif program.endswith(".py"):
        program = program if not Path(program).is_absolute() else Path(program).name
        return shlex.join(["python", program, *map(_without_folder, words)])
    return shlex.join([Path(program).name, *map(_without_folder, words)]) if program not in ("", "-", "-c") else None


def _without_folder(word: str) -> str:
    """/home/me/data → data, also behind = : and comma."""
    return re.sub(r"(?<![^=:,])/(?!/)(?:[^/=:,]+/)*(?=[^/])", "", word)


def _commit() -> str:
    """Of the checkout that this file is part of; outside one, what the environment says, or the version."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(here.parent), *words], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # or it is the checkout of somebody who installed the package there
        changed = git("status", "--porcelain", "--untracked-files=no", "--", f"{git('rev-parse', '--show-toplevel')}/*.py")
        return git("rev-parse", "--short=12", "HEAD") + (", changed" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return os.environ.get(COMMIT) or f"glauber {glauber.__version__}"


def _machine() -> str:
    """The kind of card, or the kind of processor and the cores that may be used."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", about.read_text(), re.MULTILINE) if about.is_file() else None
    kind = found.group(1).strip() if found else platform.processor() or platform.machine()
    return f"CPU {kind}, {cores} core{'s' if cores != 1 else ''}"
