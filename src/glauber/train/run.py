"""A training run in a folder: what crashes loses no more than the steps since the last checkpoint.

RUN/config.json     the recipe and the data's hash
RUN/log.jsonl       a line every few steps
RUN/tensorboard/    the same for TensorBoard, if asked for
RUN/samples/        a few from each validation
RUN/checkpoints/    the newest few
RUN/model/          the averaged weights, as `glauber.load` takes them, once the run is done
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

from glauber.baseline import DIFFUSIONS, network_of
from glauber.conditional import Reader, Transformer, conditional_of
from glauber.data import load_digits
from glauber.data.writing import write
from glauber.evaluate import bound
from glauber.model import Model, load
from glauber.process import Process, Schedule
from glauber.train.checkpoint import read_newest, write_checkpoint
from glauber.train.loop import InMemory
from glauber.train.parallel import ALONE, Shared, World, whole
from glauber.train.recipe import Recipe
from glauber.train.report import cut_log, reports, summary_writer
from glauber.train.samples import draw_samples, quick_schedule, require_pillow, write_samples
from glauber.train.trainer import Rows, Trainer

# Of [train], on --resume.
MAY_CHANGE = (
    "steps",
    "seconds",
    "checkpoint_every",
    "keep_checkpoints",
    "evaluate_every",
    "samples",
    "tensorboard",
    "parallel",
)
LOG_EVERY = 10
PATIENCE = 3.0  # seconds
VALID_ROWS = 64
Say = Callable[[str], None]


class Data(NamedTuple):
    """What a run trains on."""

    train: Rows
    valid: Rows
    vocab: int
    length: int
    counts: torch.Tensor
    codec: Any
    hash: str
    classes: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """How a run ended."""

    step: int
    finished: bool
    model: Path | None


def run(
    plan: Recipe,
    data: Data,
    out: Path,
    resume: bool = False,
    init: str | None = None,
    say: Say = print,
    world: World = ALONE,
) -> Outcome:
    """Train `plan` on `data` in the folder `out`, or go on with what is there. Every process of `world` calls it."""
    plan = fit(plan, data)
    say = say if world.first else _silence
    world.together(lambda: check_plan(plan, data, world))
    world.together(lambda: _claim(out, plan, data, resume) if world.first else None)
    trainer, process = world.together(lambda: _trainer(plan, data, init, say, world))
    if resume and (newest := world.together(lambda: read_newest(out / "checkpoints", world, trainer.empty))) is not None:
        tensors, numbers, complaints = newest
        for complaint in complaints:
            say(f"{complaint}; using the one before it")
        trainer.load_state(tensors, numbers)
        say(f"going on from step {trainer.step}")
    world.together(lambda: cut_log(out / "log.jsonl", trainer.step) if world.first else None)
    model = Model(trainer.average.network, process, data.codec, plan.objective, plan.sampling)
    if plan.train.samples and quick_schedule(model) is None:
        say(f"no samples while it trains: this model must go all {process.schedule.steps:,} steps of its own chain for each")
    with _stop_signals(world) as stopped:
        _loop(trainer, model, data, out, stopped)
        _save(trainer, out)
    if not trainer.done:
        say(f"stopped at step {trainer.step}; nothing is lost, go on with --resume")
        return Outcome(trainer.step, False, None)
    about = {"recipe": plan.name, "steps": trainer.step, "seconds": round(trainer.seconds, 1), "data": data.hash}
    about |= {"classes": list(data.classes)} if plan.network.classes else {}
    network = whole(trainer.average.network, world).eval()
    model = Model(network, own_process(plan, process), data.codec, plan.objective, plan.sampling, about)
    saved = world.together(lambda: model.save(out / "model", overwrite=True) if world.first else None)
    return Outcome(trainer.step, True, saved)


def own_process(plan: Recipe, process: Process) -> Process:
    """The chain that a model runs unless told: it reads if it has learned to, which is best and takes one pass over a row."""
    return reading_process(process) if plan.train.read_every and plan.network.reads and plan.objective == "dense" else process


def reading_process(process: Process) -> Process:
    """One sweep in reading order, with the same noise."""
    return Process(Schedule.round_robin(process.length, process.length, 0.0, "right"), process.noise)


def fit(plan: Recipe, data: Data) -> Recipe:
    """The recipe as its method has it, with the network in the size of the data, told its classes if it can be."""
    plan, grid = plan.by_method(), getattr(data.codec, "grid", None)
    classes = len(data.classes) if plan.objective == "dense" and not plan.network.reads else 0
    return replace(plan, network=replace(plan.network, vocab=data.vocab, length=data.length, grid=grid, classes=classes))


def digits_data() -> Data:
    """The embedded digits, as the demo cuts them."""
    from glauber.codec import PatchCodec

    digits = load_digits()
    codec = PatchCodec.fit(digits.train, patch=2, vocab=64)
    tokens, held_out = codec.encode(digits.train), codec.encode(digits.held_out)
    counts = tokens.flatten().bincount(minlength=codec.vocab)
    return Data(InMemory(tokens), InMemory(held_out), codec.vocab, tokens.shape[1], counts, codec, "scikit-learn's digits")


def shards_data(folder: Path) -> Data:
    """A folder of token shards."""
    from glauber.data import open_shards

    shards = open_shards(folder)
    shards.verify()
    counts = torch.from_numpy(np.array(shards.counts))
    rows = shards.rows("train"), shards.rows("valid")
    return Data(*rows, shards.vocab, shards.length, counts, shards.codec, shards.hash, shards.classes)


def check_plan(plan: Recipe, data: Data, world: World = ALONE) -> None:
    """Refuse what would fail later, before anything is written."""
    ours, every = world.rows(plan.train.batch, plan.train.accumulate), plan.train.read_every
    if plan.objective == "dense" and every:
        if not plan.network.reads:
            raise ValueError("train.read_every needs a network that reads; set network.reads=true")
        if (rows := (ours.stop - ours.start) // plan.train.accumulate) % every:
            raise ValueError(f"train.read_every is {every}, which does not divide the {rows} rows that are computed together")
    if plan.train.tensorboard:
        summary_writer()
    if plan.train.samples:
        require_pillow(data.codec)


def _claim(out: Path, plan: Recipe, data: Data, resume: bool) -> None:
    """Make the folder ours, or check that it is the same run."""
    config = out / "config.json"
    ours = json.loads(json.dumps({"recipe": plan.to_dict(), "data": data.hash}))
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder with --out")
    if config.is_file():
        if not resume:
            raise ValueError(f"{out} holds a run already; go on with it by --resume, or name another folder with --out")
        theirs = json.loads(config.read_text())
        if theirs["data"] != ours["data"]:
            raise ValueError(f"the run in {out} was trained on other data; name another folder with --out")
        if (name := _difference(theirs["recipe"], ours["recipe"])) is not None:
            raise ValueError(f"the run in {out} has another {name}; resume with the same settings, or name another folder")
    elif out.is_dir() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty and holds no run; name another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    write(config, (json.dumps(ours, indent=2) + "\n").encode())


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The first setting that differs and must not."""
    for part, value in new.items():
        if not isinstance(value, dict):
            if old.get(part) != value:
                return part
            continue
        for name in value:
            if old.get(part, {}).get(name) != value[name] and not (part == "train" and name in MAY_CHANGE):
                return f"{part}.{name}"
    return None


def _silence(words: str) -> None:
    pass


def _trainer(plan: Recipe, data: Data, init: str | None, say: Say, world: World) -> tuple[Trainer, Process]:
    device = world.device
    why = "a GPU is there" if device.type == "cuda" else "no GPU is there"
    compiled = device.type == "cuda" and world.size == 1
    whether = "blocks compiled (it pays after a minute)" if compiled else "nothing compiled (it pays on one GPU only)"
    say(f"device {device.type} ({why}), precision {plan.train.precision}, {whether}")
    if world.size > 1:
        say(f"{world.size} processes by {plan.train.parallel}, {plan.train.batch // world.size} rows of each batch for each")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.train.seed)
        network = network_of(plan.objective, plan.network)
    process = plan.process.build(data.vocab, data.length, data.counts)
    if init is not None:
        _start_from(network, load(init), say)
    parameters = sum(p.numel() for p in network.parameters())
    clock = "" if plan.train.seconds is None else f" or {plan.train.seconds:g} s"
    say(f"{parameters:,} parameters, {len(data.train):,} rows of {data.length} tokens, {plan.train.steps:,} steps{clock}")
    if data.classes:
        told = "" if plan.network.classes else ", which are not told to a network that reads, or has a loss other than dense"
        say(f"{len(data.classes)} classes{told}")
    return Trainer(network.to(device), process, data.train, plan.train, plan.objective, compiled, world), process


def _start_from(network: Transformer, other: Model, say: Say) -> None:
    """Take the weights of a saved model; what depends on the vocabulary or the length is made anew where those differ."""
    saved, remade = other.network.state_dict(), []
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in saved and saved[name].shape == parameter.shape:
                parameter.copy_(saved[name])
            elif name.startswith(("embed", "head", "place", "classes")):
                remade.append(name)
            else:
                raise ValueError(f"the saved model has another {name}; its width, layers and conditioning must be the recipe's")
    if remade:
        say(f"made anew, since the tokens or classes differ: {', '.join(remade)}")


def _loop(trainer: Trainer, model: Model, data: Data, out: Path, stopped: list[int]) -> None:
    spec, world, stop = trainer.spec, trainer.world, False
    with reports(trainer, out) as tell:
        losses: list[torch.Tensor] = []
        since, tokens = time.perf_counter(), 0
        while not trainer.done and not stop:
            losses.append(trainer.advance())
            trainer.seconds, stop = world.agree(trainer.seconds, bool(stopped))
            tokens += spec.batch * data.length
            validate = trainer.step % spec.evaluate_every == 0 or trainer.done
            if trainer.step % LOG_EVERY == 0 or validate:
                began = time.perf_counter()
                loss, now = world.mean(torch.stack(losses).mean()).item(), time.perf_counter()
                trainer.seconds, _ = world.agree(trainer.seconds + now - began, False)  # a GPU runs behind; here we wait for it
                validate = validate or trainer.done
                record = {"step": trainer.step, "loss": loss, "tokens_per_second": tokens / (now - since), "rate": trainer.rate}
                losses, since, tokens = [], now, 0
                if validate:
                    record |= _validate(trainer, model, data, out)
                    since = time.perf_counter()
                tell(record | {"seconds": trainer.seconds})
            if trainer.step % spec.checkpoint_every == 0 and not trainer.done:
                _save(trainer, out)


def _validate(trainer: Trainer, model: Model, data: Data, out: Path) -> dict[str, float]:
    """The bound on held-out rows, in bits per token, of the averaged network on the chain that it is trained for, and of
    reading if it learns that; and samples from it. No clock runs meanwhile."""
    world, process = trainer.world, model.process
    other = DIFFUSIONS.get(model.objective)
    alone = other is not None or process.schedule.reading or model.objective == "reading"  # with a cache or a way of its own
    network = model.network if alone else Shared(model.network, world)
    conditional = conditional_of(model.objective, network, process) if other is None else None
    shared_out = alone and trainer.sharded  # no process could read alone
    if trainer.spec.samples and not shared_out and (schedule := quick_schedule(model)) is not None:
        tokens = draw_samples(model, conditional, schedule, trainer.spec.samples)
        world.together(lambda: write_samples(model, tokens, out / "samples", trainer.step) if world.first else None)
    if len(data.valid) == 0 or model.objective == "masked":  # whose chain has no bound that tells anything
        return {}
    rows = torch.from_numpy(data.valid[np.arange(min(VALID_ROWS, len(data.valid)))]).to(trainer.device)
    generator = torch.Generator().manual_seed(0)
    nats = {}
    if conditional is None:
        with model.evaluating():
            nats[""] = DIFFUSIONS[model.objective].bound(model.network, process, rows, 8, generator).mean().item()
    else:
        nats[""] = bound(conditional, process, rows, draws=8, generator=generator).mean
    if trainer.spec.read_every and model.objective == "dense":  # then the model will read unless told otherwise
        nats["_read"] = bound(Reader(model.network), reading_process(process).to(trainer.device), rows, draws=1).mean
    return {f"valid_bits_per_token{how}": value / (np.log(2) * data.length) for how, value in nats.items()}


def _save(trainer: Trainer, out: Path) -> None:
    write_checkpoint(out / "checkpoints", *trainer.state(), trainer.spec.keep_checkpoints, trainer.world, trainer.sharded)


@contextmanager
def _stop_signals(world: World) -> Iterator[list[int]]:
    """SIGTERM and SIGINT put their number into the list instead of ending the program; one that comes PATIENCE later ends it.

    Not the second one: `timeout`, a terminal and a cluster's scheduler may send the same signal twice at once. One of several
    processes waits for the others; torchrun, which passes signals on, ends it if that takes too long.
    """
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    first = [0.0]

    def note(number: int, frame: FrameType | None) -> None:
        if not caught:
            first[0] = time.monotonic()
        elif world.size == 1 and time.monotonic() - first[0] > PATIENCE:
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
