"""How many threads a run on a CPU computes with: timed on its own steps, beside whatever else runs just then.

Threads that wait for each other are at the mercy of other programs: with one busy loop on the other of two cores, two threads
may be twenty times slower than one. And the sums differ between numbers of threads in their last bits, so a run keeps its own.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from glauber.runtime.files import read_object, write
from glauber.train.parallel import World
from glauber.train.trainer import Trainer

WORTH = 1.25
"""More threads are taken if they are so many times faster: less is not worth the risk that another program starts."""
LEAST = 0.4  # seconds that each number is timed for


def settle_threads(trainer: Trainer, config: Path, say: Callable[[str], None], chosen: int | None = None) -> None:
    """Set the number of threads, say why, and write it into the run's config beside the recipe. Every process calls it.

    What the user's OMP_NUM_THREADS says; else what the run began with; else what was `chosen`, if anything; else the fewest
    that are about the fastest.
    """
    if trainer.device.type != "cpu":
        return
    world, cores = trainer.world, _cores()
    known = world.gather(read_object(config).get("threads") if world.first else None)[0]
    if "OMP_NUM_THREADS" in os.environ:
        number, why = torch.get_num_threads(), "OMP_NUM_THREADS says so"
    elif type(known) is int and 0 < known <= cores:
        number, why = known, "so many the run began with, and the weights' last bits depend on it; OMP_NUM_THREADS sets another"
    elif chosen is not None:
        number, why = chosen, "as many as were fastest when the recipe was chosen; OMP_NUM_THREADS sets another number"
    elif cores == 1:
        number, why = 1, "torch would take no more here"
    else:
        times = step_times(trainer, cores)
        number, why = fewest(times), ", ".join(f"{seconds:.3g} s with {n}" for n, seconds in sorted(times.items()))
        why = f"a step takes {why}; OMP_NUM_THREADS sets another number"
    torch.set_num_threads(number)
    say(f"{number} thread{'s' if number > 1 else ''}{' in each process' if world.size > 1 else ''}: {why}")
    if number != known:
        world.together(lambda: _record(config, number) if world.first else None)


def _record(config: Path, number: int) -> None:
    write(config, (json.dumps(read_object(config) | {"threads": number}, indent=2) + "\n").encode())


def fewest(times: dict[int, float]) -> int:
    """The smallest number of threads whose time is less than WORTH of the best one's."""
    return min(number for number, seconds in times.items() if seconds < WORTH * min(times.values()))


def _cores() -> int:
    """Threads that torch would take, shared among the processes of this machine."""
    return max(1, torch.get_num_threads() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def step_times(trainer: Trainer, cores: int) -> dict[int, float]:
    """Seconds of a step by number of threads: all, half, a quarter, ... until fewer are slower."""
    times: dict[int, float] = {}
    number = cores
    while number and (len(times) < 2 or times[number * 2] < WORTH * min(times.values())):
        times[number] = _time(trainer, number, trainer.world)
        number //= 2
    return times


def _time(trainer: Trainer, number: int, world: World) -> float:
    """Of the slowest process, in the mean; the first step, in which the threads start, does not count."""
    torch.set_num_threads(number)
    trainer.rehearse()
    began, steps, seconds = time.perf_counter(), 0, 0.0
    while seconds < LEAST:
        trainer.rehearse()
        steps += 1
        seconds, _ = world.agree(time.perf_counter() - began, False)
    return seconds / steps
