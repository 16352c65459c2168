"""What a run tells while it trains: a line in log.jsonl, the same for TensorBoard, and a progress bar."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from glauber.data.writing import write
from glauber.train.trainer import Trainer

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
            log.write(json.dumps(record) + "\n")
            log.flush()
            if writer is not None:
                for name, value in record.items():
                    writer.add_scalar(name, value, record["step"])
                writer.flush()
            show(loss=f"{record['loss']:.3f}", tokens=f"{record['tokens_per_second']:,.0f}/s")

        yield tell


@contextmanager
def progress_bar(trainer: Trainer, shown: bool = True) -> Iterator[Callable[..., None]]:
    """A bar of the steps; what it gives is called now and then with the figures to show."""
    from tqdm.auto import tqdm

    spec = trainer.spec
    every = 0.2 if sys.stderr.isatty() else 10.0  # seconds; a log file wants few lines
    total = spec.steps if spec.seconds is None else None
    style = {"desc": "train", "unit": "step", "dynamic_ncols": True, "mininterval": every, "maxinterval": every}
    with tqdm(total=total, initial=trainer.step, disable=not (shown and trainer.world.first), **style) as bar:

        def show(**figures: str) -> None:
            if spec.seconds is not None:
                figures["left"] = f"{max(0.0, spec.seconds - trainer.seconds):.0f}s"
            bar.set_postfix(figures, refresh=False)
            bar.update(trainer.step - bar.n)

        yield show


def summary_writer() -> Callable[..., Any]:
    """TensorBoard's writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("train.tensorboard needs TensorBoard: pip install 'glauber[track]'") from error
    return SummaryWriter


def cut_log(path: Path, step: int) -> None:
    """Forget what a lost stretch of the run logged; it is done, and logged, again."""
    if path.is_file():
        kept = [line for line in read_log(path) if line["step"] <= step]
        write(path, "".join(f"{json.dumps(line)}\n" for line in kept).encode())


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that was cut short, as the last may be, is left out."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
