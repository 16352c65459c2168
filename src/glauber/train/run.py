"""A training run in a folder: what crashes loses no more than the steps since the last checkpoint.

RUN/config.json     what it is: the recipe, the data's hash and folder, the model it started from, a CPU's threads
RUN/chosen.toml     the choice that was made for it, if it was begun without a recipe
RUN/lock            held by the process that trains
RUN/log.jsonl       a line every few steps
RUN/tensorboard/    the same for TensorBoard, if asked for
RUN/samples/        a few from each validation
RUN/checkpoints/    the newest few
RUN/best/           the weights with the best bound so far, where `train.patience` asks for them
RUN/model/          the averaged weights, as `glauber.load` takes them, once the run is done; till then those of a checkpoint
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from glauber.chain import check_options
from glauber.conditional import Transformer
from glauber.method import find_method
from glauber.model import Model, load
from glauber.process import Process
from glauber.recipe import Recipe
from glauber.runs import CONFIG, checkpoints, going_on, write_frame
from glauber.runtime.files import disk_full_said
from glauber.runtime.memory import require_memory
from glauber.runtime.signals import PATIENCE, stop_requests
from glauber.train.best import Best
from glauber.train.caution import cautions
from glauber.train.checkpoint import read_newest
from glauber.train.data import Data, digits_data, shards_data
from glauber.train.folder import RunConfig, claimed, name_of, read_config, require_same
from glauber.train.loop import loop, save
from glauber.train.overrides import apply_settings
from glauber.train.parallel import ALONE, World, whole
from glauber.train.report import beside_the_bar, cut_log, summary_writer, validation_at
from glauber.train.samples import quick_sampler, require_pillow
from glauber.train.threads import settle_threads
from glauber.train.trainer import Trainer
from glauber.train.validate import validate

FLOAT = 4  # bytes
STATES, KEPT = 4, 4
"""Numbers for each parameter while it is trained, and for each channel of each token and layer, at least: the weight, its
gradient, its average and a moment; what the backward pass needs of attention and perceptron, in half precision if so be."""
REMADE = ("embed", "head", "position_embedding", "classes")
"""Parameters that a model to start from need not share, by the beginning of their names."""
Say = Callable[[str], None]


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
    threads: int | None = None,
) -> Outcome:
    """Train `plan` on `data` in the folder `out`, or go on with the run there. Every process of `world` calls it.

    Args:
        init: a model whose weights the run starts from; on going on, the one that it started from if not given.
        threads: of a CPU, for a run that begins; timed if not given.
    """
    plan = fit(plan, data)
    say = say if world.first else _silence
    world.together(lambda: check_plan(plan, data, world))
    begun = world.together(lambda: read_config(out) if resume else None)
    init = name_of(init) if init is not None else begun.init if begun is not None else None
    start = world.together(lambda: _start(plan, init) if not checkpoints(out / "checkpoints") else None)
    with claimed(out, RunConfig(plan, data.hash, data.folder, init), resume, world), disk_full_said(out, "go on with --resume"):
        return _run(plan, data, out, start, say, world, threads)


def _run(plan: Recipe, data: Data, out: Path, start: Model | None, say: Say, world: World, threads: int | None) -> Outcome:
    """From the newest checkpoint, or the start, to the end or a signal."""
    trainer, process = world.together(lambda: new_trainer(plan, data, start, say, world))
    settle_threads(trainer, out / CONFIG, say, threads)
    if (newest := world.together(lambda: read_newest(out / "checkpoints", world, trainer.empty))) is not None:
        tensors, numbers, complaints = newest
        for complaint in complaints:
            say(f"{complaint}; using the one before it")
        trainer.load_state(tensors, numbers)
        say(f"going on from step {trainer.step}")

    method = find_method(plan.method)
    sampled = method.sampled_by(plan, process)

    def finished(network: Transformer, since: dict[str, Any]) -> Model:
        about = {"recipe": plan.name, **since, "data": data.hash}
        about |= {"classes": list(data.classes)} if plan.network.classes else {}
        trained = None if sampled is process else process.schedule
        return Model(network, sampled, data.codec, plan.method, plan.sampling, about, trained)

    world.together(lambda: cut_log(out / "log.jsonl", trainer.step) if world.first else None)
    frame = finished(trainer.average.network, {})
    world.together(lambda: _frame(out, frame) if world.first else None)
    model = Model(trainer.average.network, process, data.codec, plan.method, plan.sampling)
    shown = model if trainer.sharded else frame
    if plan.train.samples and quick_sampler(shown) is None:
        say(f"no samples while it trains: this model must go all {process.schedule.steps:,} steps of its own chain for each")
    for words in world.gather(cautions(plan.train, data) if world.first and newest is None else [])[0]:
        say(words)
    best = Best(trainer, out)

    def look() -> dict[str, float]:
        figures = validate(trainer, model, shown, data.valid, data.counts, out, partial(beside_the_bar, say))
        best.see(figures)
        return figures

    # One of several processes waits for the others; torchrun, which passes signals on, ends it if that takes too long.
    with stop_requests(PATIENCE if world.size == 1 else math.inf) as stopped:
        loop(trainer, look, out, stopped, lambda: best.over)
        save(trainer, out)
    if not trainer.done and not best.over:
        say(f"stopped at step {trainer.step}; nothing is lost, go on with: {going_on(out)}")
        return Outcome(trainer.step, False, None)
    since = _ended(trainer, best, out, say)
    model = finished(whole(trainer.average.network, world).eval(), since)
    saved = world.together(lambda: model.save(out / "model", overwrite=True) if world.first else None)
    return Outcome(trainer.step, True, saved)


def _ended(trainer: Trainer, best: Best, out: Path, say: Say) -> dict[str, Any]:
    """What the model tells of its training. The averaged network then has the best weights, if others than the last were."""
    since: dict[str, Any] = {"steps": trainer.step, "seconds": round(trainer.seconds, 1)}
    step = trainer.step
    if 0 <= best.step < step:
        say(f"the bound was best at step {best.step:,}, {best.bits:.4f} bits per token; the model has the weights of that step")
        best.take()
        since["best_step"] = step = best.step
    found = validation_at(out / "log.jsonl", step) if trainer.world.first else {}
    return since | ({"metrics": found} if found else {})


def resumed(out: Path, settings: Mapping[str, Any], name: str | None = None, folder: Path | None = None) -> tuple[Recipe, Data]:
    """The recipe and the data of the run in a folder, as it was begun but for these settings.

    Args:
        name: of the recipe, which must be the run's.
        folder: where the data is now, if it has moved.
    """
    begun = read_config(out)
    if name not in (None, begun.recipe.name):
        raise ValueError(f"the run in {out} is of the recipe {begun.recipe.name}, not {name}; leave --recipe out")
    plan = apply_settings(begun.recipe, settings)
    require_same(out, begun.recipe, plan)
    if folder is None and begun.data is not None and not begun.data.is_dir():
        raise ValueError(f"the data of the run in {out} was in {begun.data}, which is gone; say with --data where it is now")
    folder = folder or begun.data
    if folder is None and plan.name != "digits":
        raise ValueError(f"the run in {out} does not say where its data is; say it with --data")
    return plan, digits_data() if folder is None else shards_data(folder)


def _require_room(plan: Recipe, world: World) -> None:
    """Refuse a network or a batch that the memory cannot hold: each process makes all weights, and then trains its share."""
    method = find_method(plan.method)
    parameters = method.layout(plan.network).parameters
    then = "set network.layers, network.width or train.batch lower"
    require_memory(FLOAT * parameters, f"a network of {parameters:,} parameters", then)
    ours = world.rows(plan.train.batch, plan.train.grad_accum)
    shares = world.size if plan.train.parallel == "fsdp" else 1
    sites = (ours.stop - ours.start) // plan.train.grad_accum * method.examples(plan.train) * plan.network.length
    needed = FLOAT * (STATES * parameters / shares + KEPT * sites * plan.network.width * plan.network.layers)
    what = f"training {parameters:,} parameters, {sites:,} tokens at a time,"
    require_memory(needed, what, f"{then}, or train.grad_accum higher", world.device)


def _frame(out: Path, model: Model) -> None:
    """What a model has beside its weights, so that the checkpoints of a run that was stopped are models, too."""
    weights = {name for name, _ in model.named_parameters()}
    rest = {name: tensor for name, tensor in model.state_dict().items() if name not in weights}
    write_frame(out / "checkpoints", model.config(), rest)


def fit(plan: Recipe, data: Data) -> Recipe:
    """The recipe as its method has it, with the network in the size of the data, told its classes if it can be, and the token
    that is the end of a text there."""
    method, grid = find_method(plan.method), getattr(data.codec, "grid", None)
    plan = method.resolve(plan).with_end(getattr(data.codec, "end", None))
    classes = len(data.classes) if method.can.classes and not plan.network.causal else 0
    return replace(plan, network=replace(plan.network, vocab=data.vocab, length=data.length, grid=grid, classes=classes))


def check_plan(plan: Recipe, data: Data, world: World = ALONE) -> None:
    """Refuse what would fail later, before anything is written."""
    ours, every = world.rows(plan.train.batch, plan.train.grad_accum), plan.train.causal_every
    if find_method(plan.method).can.causal_rows and every:
        if not plan.network.causal:
            raise ValueError("train.causal_every needs a causal network; set network.causal=true")
        if (rows := (ours.stop - ours.start) // plan.train.grad_accum) % every:
            raise ValueError(f"train.causal_every is {every}, which does not divide the {rows} rows that are computed together")
    if plan.train.patience and plan.train.parallel == "fsdp" and world.size > 1:
        raise ValueError("train.patience keeps whole weights, which no process of fsdp has; set train.patience=0")
    _require_room(plan, world)
    data_process(plan, data)
    check_options(plan.sampling, data.vocab)
    if plan.train.tensorboard:
        summary_writer()
    if plan.train.samples:
        require_pillow(data.codec)


def data_process(plan: Recipe, data: Data) -> Process:
    """The process of a recipe on this data; a user's codec may say what each site may hold."""
    return plan.process.build(data.vocab, data.length, data.counts, getattr(data.codec, "allowed", None))


def _silence(words: str) -> None:
    pass


def new_trainer(plan: Recipe, data: Data, start: Model | None, say: Say, world: World) -> tuple[Trainer, Process]:
    """The trainer of a recipe on this data, at its first step, and the process that it trains on."""
    device = world.device
    why = "a GPU is there" if device.type == "cuda" else "no GPU is there"
    compiled = device.type == "cuda" and world.size == 1
    whether = "blocks compiled (it pays after a minute)" if compiled else "nothing compiled (it pays on one GPU only)"
    say(f"device {device.type} ({why}), precision {plan.train.precision}, {whether}")
    if world.size > 1:
        say(f"{world.size} processes by {plan.train.parallel}, {plan.train.batch // world.size} rows of each batch for each")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.train.seed)
        network = find_method(plan.method).network(plan.network)
    process = data_process(plan, data)
    if start is not None:
        _start_from(network, start, say)
    parameters = sum(p.numel() for p in network.parameters())
    clock = "" if plan.train.seconds is None else f" or {plan.train.seconds:g} s"
    say(f"{parameters:,} parameters, {len(data.train):,} rows of {data.length} tokens, {plan.train.steps:,} steps{clock}")
    if data.classes:
        told = "" if plan.network.classes else ", which this method, or a causal network, is not conditioned on"
        say(f"{len(data.classes)} classes{told}")
    return Trainer(network.to(device), process, data.train, plan.train, plan.method, compiled, world), process


def _start(plan: Recipe, init: str | None) -> Model | None:
    """The model that a new run starts from; one that does not fit is refused before anything is written."""
    if init is None:
        return None
    model = load(init)
    saved = model.network.state_dict()
    for name, shape in find_method(plan.method).layout(plan.network).shapes().items():
        if not name.startswith(REMADE) and (name not in saved or saved[name].shape != shape):
            raise ValueError(f"the saved model has another {name}; its width, layers and conditioning must be the recipe's")
    return model


def _start_from(network: Transformer, other: Model, say: Say) -> None:
    """Take the weights of a saved model; what depends on the vocabulary or the length is made anew where those differ."""
    saved, remade = other.network.state_dict(), []
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in saved and saved[name].shape == parameter.shape:
                parameter.copy_(saved[name])
            else:
                remade.append(name)
    if remade:
        say(f"made anew, since the tokens or classes differ: {', '.join(remade)}")
