"""What a run tells while it trains: a line in log.jsonl, the same for TensorBoard, and a progress bar."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from glauber.runtime import progress
from glauber.runtime.files import parse_json, read_bytes, write
from glauber.train.trainer import Trainer

LARGEST = 2**30
"""Bytes of a log."""
Tell = Callable[[dict[str, Any]], None]


@contextmanager
def reports(trainer: Trainer, out: Path) -> Iterator[Tell]:
    """What to call with the figures of a step. Only the first process writes them."""
    first = trainer.world.first
    board = nullcontext()
    if first and trainer.spec.tensorboard:  # what a lost stretch of the run wrote is purged: it is done, and written, again
        board = summary_writer()(str(out / "tensorboard"), purge_step=trainer.step + 1)
    with open(out / "log.jsonl" if first else os.devnull, "a") as log, board as writer, progress_bar(trainer) as show:

        def tell(record: dict[str, Any]) -> None:
            log.write(_line(record))
            log.flush()
            if writer is not None:
                for name, value in record.items():
                    if math.isfinite(value):
                        writer.add_scalar(name, value, record["step"])
                writer.flush()
            show(loss=f"{record['loss']:.3f}", tokens=f"{record['tokens_per_second']:,.0f}/s")

        yield tell


@contextmanager
def progress_bar(trainer: Trainer, shown: bool = True) -> Iterator[Callable[..., None]]:
    """A bar of the steps; what it gives is called now and then with the figures to show."""
    spec = trainer.spec
    every = 0.2 if sys.stderr.isatty() else 10.0  # seconds; a log file wants few lines
    total = spec.steps if spec.seconds is None else None
    style = {"initial": trainer.step, "mininterval": every, "maxinterval": every}
    with progress.progress_bar(shown and trainer.world.first, total, "train", "step", **style) as bar:

        def show(**figures: str) -> None:
            if spec.seconds is not None:
                figures["left"] = f"{max(0.0, spec.seconds - trainer.seconds):.0f}s"
            bar.set_postfix(figures, refresh=False)
            bar.update(trainer.step - bar.n)

        yield show


def beside_the_bar(say: Callable[[str], None], words: str) -> None:
    """Say something while a bar is shown, which makes room for it."""
    from tqdm.auto import tqdm

    with tqdm.external_write_mode():
        say(words)


def summary_writer() -> Callable[..., Any]:
    """TensorBoard's writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("train.tensorboard needs TensorBoard: pip install 'glauber[track]'") from error
    return SummaryWriter


def cut_log(path: Path, step: int) -> None:
    """Forget what a lost stretch of the run logged; it is done, and logged, again."""
    if path.exists():
        kept = [line for line in read_log(path) if line["step"] <= step]
        write(path, "".join(map(_line, kept)).encode())


def _line(record: dict[str, Any]) -> str:
    """JSON, which knows no NaN and no infinity: null."""
    known = {name: None if value is None or not math.isfinite(value) else value for name, value in record.items()}
    return json.dumps(known, allow_nan=False) + "\n"


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that was cut short, as the last may be, is left out."""
    try:
        lines = (line for line in read_bytes(path, LARGEST).splitlines() if line.endswith(b"}"))
        log: list[dict[str, Any]] = [parse_json(line) for line in lines]
        sound = all(type(line["step"]) is int and "loss" in line and all(map(_is_figure, line.values())) for line in log)
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise ValueError(f"{path} is damaged; remove it, and the run does without")
    return log


def _is_figure(value: Any) -> bool:
    return value is None or isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def validation_at(path: Path, step: int) -> dict[str, float]:
    """What the log says of held-out rows at a step, if anything."""
    found = next((line for line in read_log(path) if line["step"] == step), {})
    return {name: value for name, value in found.items() if name.startswith("valid_") and value is not None}
