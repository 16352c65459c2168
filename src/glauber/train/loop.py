"""The loop of a run: steps, a line in the log, a look at held-out rows, a checkpoint, until it is done or told to stop."""

import time
from collections.abc import Callable
from pathlib import Path

import torch

from glauber.runs import checkpoints, going_on, step_of
from glauber.train.checkpoint import write_checkpoint
from glauber.train.report import reports
from glauber.train.trainer import Trainer

LOG_EVERY = 10


def loop(
    trainer: Trainer, look: Callable[[], dict[str, float]], out: Path, stopped: list[int], over: Callable[[], bool]
) -> None:
    """Train until the run is done or `over`, a signal is in `stopped`, or a figure is not finite; `look` gives those of a
    validation."""
    spec, world, stop = trainer.spec, trainer.world, False
    with reports(trainer, out) as tell:
        losses: list[torch.Tensor] = []
        since, tokens = time.perf_counter(), 0
        while not trainer.done and not stop and not over():
            losses.append(trainer.advance())
            lost = trainer.device.type == "cpu" and trainer.trouble() is not None  # a GPU is not waited for at each step
            trainer.seconds, stop = world.agree(trainer.seconds, bool(stopped) or lost)
            tokens += spec.batch * trainer.process.length
            validate = trainer.step % spec.evaluate_every == 0 or trainer.done
            if trainer.step % LOG_EVERY == 0 or validate:
                began = time.perf_counter()
                _require_finite(trainer, out)
                loss, now = world.mean(torch.stack(losses).mean()).item(), time.perf_counter()
                trainer.seconds, _ = world.agree(trainer.seconds + now - began, False)  # a GPU runs behind; here we wait for it
                validate = validate or trainer.done
                record = {"step": trainer.step, "loss": loss, "tokens_per_second": tokens / (now - since), "lr": trainer.lr}
                losses, since, tokens = [], now, 0
                if validate:
                    record |= look()
                    since = time.perf_counter()
                tell(record | {"seconds": trainer.seconds})
            if trainer.step % spec.checkpoint_every == 0 and not trainer.done:
                save(trainer, out)


def save(trainer: Trainer, out: Path) -> None:
    """A checkpoint, unless what it would hold is worth nothing."""
    _require_finite(trainer, out, state=True)
    write_checkpoint(out / "checkpoints", *trainer.state(), trainer.spec.keep_checkpoints, trainer.world, trainer.sharded)


def _require_finite(trainer: Trainer, out: Path, state: bool = False) -> None:
    """Stop all processes where a loss or a gradient, or with `state` a weight, is not finite; what is on the disk stays."""
    world = trainer.world
    found = [trouble for trouble in world.gather(trainer.trouble(state)) if trouble is not None]
    if found:
        world.together(lambda: _give_up(min(found)[1], trainer.spec.lr, out) if world.first else None)


def _give_up(what: str, rate: float, out: Path) -> None:
    kept = checkpoints(out / "checkpoints")
    where = f"the checkpoint of step {step_of(kept[-1])} is good" if kept else "no checkpoint was written yet"
    again = f"{going_on(out)} --set train.lr={min(rate / 10, 1e-3):.3g}"
    raise ValueError(f"{what}; {where}, {'go on from it' if kept else 'begin again'} with a lower rate: {again}")
