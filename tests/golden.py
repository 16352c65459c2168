"""What must not change while the code is renamed and moved: one JSON of hashes and figures.

`make golden` writes `golden.json`; `test_golden.py` makes the same once more and compares. A later change that lawfully alters
a value remakes the file, in a commit that says why.

Tokens, states, images, texts and weights are hashed, exactly. Likelihoods and losses are the numbers themselves and may differ
by a share of TOLERANCE: a rounded number would flip at an edge. Weights are hashed in the network's order and not by name.

All is made with one thread, in float32, by the oldest instructions of x86-64 (ENVIRONMENT), so that it holds on another
machine. Measured with torch 2.13 on one Xeon: a C library without FMA, the numbers of threads that others set and the run
change nothing. The CPU's own instructions, which ENVIRONMENT rules out, change the hashes of the trained weights and one
likelihood, and no token. So where only weights differ, and the losses beside them do not, it is rounding. What no one has tried
is a CPU of another maker.

Everything that the package calls by a name that may change stands in the first part, which translates. The cases below it are
written by meaning: an order is the order in which sites are written, a network is causal, noise is marked.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glauber.chain import run_chain
from glauber.codec import CharCodec, PatchCodec
from glauber.conditional import Denoiser, Oracle, Transformer, TransformerConfig
from glauber.evaluate import bound
from glauber.method import find_method
from glauber.model import Model, load
from glauber.process import NoiseLaw, Process, Schedule
from glauber.process.draws import new_generator
from glauber.tasks.constraints import Constraints
from glauber.tasks.infill import filling
from glauber.tasks.steps import run_alone
from glauber.train import ProcessSpec, Recipe, Trainer, TrainSpec
from glauber.train import train as train_in_memory
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.report import read_log
from glauber.train.run import run

ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
"""Set before torch is imported."""
RELEASE = torch.__version__.partition("+")[0]
FILE = Path(__file__).with_suffix(".json")
TOLERANCE = 1e-6
SEED = 0
RAW = Constraints(seams="raw")

# The translation: what the cases say, and what the package calls it today. -------------------------------------------------

ORDERS = ("right-to-left", "left-to-right", "random", "strided", "segments")
"""By the direction of writing; segments are equal parts, each from left to right, all at once."""

METHODS = {
    "ggm": "ggm",
    "ggm, marginal loss": "ggm-marginal",
    "ggm, binary loss": "ggm-binary",
    "ar": "ar",
    "mlm": "mlm",
    "mdlm": "mdlm",
    "sedd": "sedd",
    "sedd-uniform": "sedd-uniform",
    "udlm": "udlm",
    "plaid": "plaid",
}

CLASSIFIERS = ("ggm, marginal loss", "ggm, binary loss")
MASK_RULES = {"cover": "cover", "what black and white agree on": "paper", "iterative refinement": "iterative"}
SAMPLING = {"marked": "mark_noise", "klass": "class_"}
NETWORK = {"causal": "causal", "learned_positions": "learned_positions", "cond_dim": "cond_dim", "told": "conditioning"}
TRAINING = {
    "lr": "lr",
    "min_lr": "min_lr",
    "grad_clip": "grad_clip",
    "ema_decay": "ema_decay",
    "grad_accum": "grad_accum",
    "clean_fraction": "clean_fraction",
    "marked_fraction": "marked_fraction",
    "causal_every": "causal_every",
}


DIRECTED = ("right-to-left", "left-to-right")


def translated(words: dict[str, str], options: dict[str, Any]) -> dict[str, Any]:
    return {words.get(name, name): value for name, value in options.items()}


def sampling(model: Model, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a sampler. A case with a block and no order means equal parts, where the model's own order is directed."""
    directed = model.process.schedule.to_dict()["order"] in DIRECTED
    order = {"order": "segments"} if "block" in options and "order" not in options and directed else {}
    return translated(SAMPLING, options) | order


def as_noised(order: str | Sequence[int]) -> str | list[int]:
    """A name, or the sites as they are written. A schedule takes them as they are noised; a sampler as they are written."""
    return order if isinstance(order, str) else list(reversed(order))


def schedule(length: int, sweeps: int, keep: Any = "linear", order: Any = "right-to-left", **options: Any) -> Schedule:
    generator = torch.Generator().manual_seed(SEED)
    return Schedule.round_robin(length, sweeps * length, keep, as_noised(order), generator=generator, **options)


def written(process: Process) -> list[Tensor]:
    """The sites that are drawn together, call after call, and what survives before each of them."""
    times = torch.tensor(list(reversed(process.schedule.times)))
    return [process.schedule.sites(times), process.schedule.survival(times), process.schedule.keeps(times)]


def corrupted(process: Process, x0: Tensor, t: Tensor) -> list[Tensor]:
    step = process.corrupt(x0, t, torch.Generator().manual_seed(SEED))
    return [step.x_t, step.z, step.x_next, step.site, step.survival]


def chain(conditional: Any, process: Process, num: int | None = None, states: bool = False, **options: Any) -> list[Tensor]:
    """The tokens of `run_chain`; with `states` every state on the way, too, which goes by another loop."""
    seen: list[Tensor] = []
    on_step = {"on_step": lambda t, x: seen.append(x)} if states else {}
    generator = torch.Generator().manual_seed(SEED)
    return [run_chain(conditional, process, num, generator=generator, **translated(SAMPLING, options), **on_step), *seen]


def chain_bound(conditional: Any, process: Process, x0: Tensor, **options: Any) -> list[float]:
    found = bound(conditional, process, x0, generator=torch.Generator().manual_seed(SEED), **options)
    return [found.mean, found.error]


def plan_of(method: str, vocab: int, length: int, network: dict[str, Any], train: dict[str, Any], **process: Any) -> Recipe:
    """What is made and trained, as the method wants it."""
    shape = {"width": 16, "layers": 2, "heads": 2, "cond_dim": 8} | network
    learning = {"steps": 20, "batch": 8, "lr": 1e-2, "warmup": 4, "weight_decay": 0.01, "grad_clip": 1.0, "ema_decay": 0.9}
    settings = {"sweeps": 3, "keep": 0.5 if method in CLASSIFIERS else "linear", "noise": "unigram"} | process
    plan = Recipe(
        name="golden",
        about="",
        tokens="",
        network=TransformerConfig(vocab, length, **translated(NETWORK, shape)),
        process=ProcessSpec(**translated({}, settings)),
        train=TrainSpec(**translated(TRAINING, learning | train)),
        method=METHODS[method],
    )
    return find_method(plan.method).resolve(plan)


def process_of(plan: Recipe, counts: Tensor) -> Process:
    return plan.process.build(plan.network.vocab, plan.network.length, counts)


def network_for(plan: Recipe) -> Transformer:
    torch.manual_seed(plan.train.seed)
    return find_method(plan.method).network(plan.network)


def model_for(plan: Recipe, network: Transformer, process: Process, codec: Any, **options: Any) -> Model:
    return Model(network, process, codec, plan.method, **options)


def in_its_own_order(model: Model, own: dict[str, Any] | None) -> Model:
    """The same model with another schedule as its own."""
    if own is None:
        return model
    process = Process(schedule(model.process.length, **own), model.process.noise)
    return Model(model.network, process, model.codec, model.method.name, model.sampling, model.about)


def knows_clean(model: Model) -> Denoiser:
    """Its clean conditional, for `chain`."""
    return Denoiser(model.network)


def trained(plan: Recipe, tokens: Tensor, counts: Tensor, classes: Tensor | None) -> tuple[list[Tensor], list[float]]:
    """The averaged weights, in order, and the losses."""
    network, process = network_for(plan), process_of(plan, counts)
    found = train_in_memory(network, process, tokens, plan.train, plan.method, classes=classes)
    return list(found.network.parameters()), found.losses


def trained_in_two(plan: Recipe, tokens: Tensor, counts: Tensor, first: int) -> tuple[list[Tensor], list[float]]:
    """The same by a trainer that is stopped, and another one that goes on from its state."""
    network, losses, state = network_for(plan), [], None
    for end in (first, plan.train.steps):
        trainer = Trainer(network, process_of(plan, counts), InMemory(tokens), plan.train, plan.method)
        if state is not None:
            trainer.load_state(*state)
        while trainer.step < end:
            losses.append(trainer.advance().item())
        state = trainer.state()
        network = network_for(replace(plan, train=replace(plan.train, seed=1)))  # other weights, which are overwritten
    return list(trainer.average.network.parameters()), losses


def trained_in_a_folder(
    plan: Recipe, rows: tuple[Tensor, Tensor], counts: Tensor, codec: Any, first: int
) -> tuple[list[Tensor], list[float], list[str]]:
    """The same by a run in a folder that ends after `first` steps and is resumed. Its log's losses and validation figures, and
    the samples that it wrote."""
    tokens, held_out = map(InMemory, rows)
    data = Data(tokens, held_out, plan.network.vocab, plan.network.length, counts, codec, "golden")
    settings = replace(plan.train, decay=plan.train.steps, checkpoint_every=first // 2, evaluate_every=first, samples=2)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        for steps in (first, plan.train.steps):
            asked = replace(plan, train=replace(settings, steps=steps))
            run(asked, data, out, resume=steps > first, say=lambda words: None)
        log = read_log(out / "log.jsonl")
        names = ("loss", "valid_bits_per_token", "valid_bits_per_token_causal", "unigram_bits_per_token")
        figures = [line[name] for line in log for name in names if name in line]
        samples = [path.read_text() for path in sorted((out / "samples").iterdir())]
        return list(load(out).network.parameters()), figures, samples


def sample(model: Model, num: int, **options: Any) -> Tensor:
    return model.sample_tokens(num, SEED, **sampling(model, options))


def write(model: Model, num: int, prompt: str, **options: Any) -> list[str]:
    return model.sample(num, SEED, prompt, **sampling(model, options))


def infill(model: Model, text: str, num: int, **options: Any) -> list[str]:
    return model.infill(text, num, SEED, seams="raw", **sampling(model, options))


def likely_gaps(model: Model, text: str, num: int, **options: Any) -> list[float]:
    """What the model thinks of each token that it filled in."""
    sampler = model.sampler(**sampling(model, options), gaps=True)
    steps = filling(sampler, model.require_text_codec(), text, num, new_generator(SEED), True, constraints=RAW)
    filled = run_alone(steps)
    return [likely for each in filled for gap in each.gaps for likely in gap.probabilities]


def infill_tokens(model: Model, tokens: Tensor, hole: Tensor, num: int | None = None, **options: Any) -> Tensor:
    return model.infill_tokens(tokens, hole, num, SEED, **sampling(model, options))


def vary(model: Model, text: str, t: int, num: int, **options: Any) -> list[str]:
    return model.vary(text, t, num, SEED, **sampling(model, options))


def inpaint(model: Model, image: np.ndarray, hole: np.ndarray, num: int, rule: str | None, **options: Any) -> list[np.ndarray]:
    rules = {} if rule is None else {"mask_rule": MASK_RULES[rule]}
    return [np.asarray(each) for each in model.inpaint(image, hole, num, SEED, **rules, **sampling(model, options))]


def score(model: Model, items: Any, **options: Any) -> list[float]:
    """Bits per token and per character, their errors where there are several rows, and what it cost."""
    found = model.score(items, seed=SEED, **sampling(model, options))
    names = ("bits_per_token", "standard_error", "bits_per_character", "standard_error_per_character", "rows", "calls")
    return [float(found[name]) for name in names if name in found and found[name] == found[name]]


# What the cases are made on. ------------------------------------------------------------------------------------------------

Cases = Iterator[tuple[str, Callable[[], Any]]]

ALPHABET = " abcdefghij"
LETTERS, SITES = len(ALPHABET) + 1, 12  # the end of a text is a token, too
PATCHES, GRID = 24, (4, 4)
KERNELS = ("heat-bath", "reversal")
EXPLICIT = (5, 0, 7, 2, 11, 4, 9, 1, 6, 3, 10, 8)  # an order of the SITES
CAUSAL = {"sweeps": 1, "keep": 0.0, "order": "left-to-right"}  # the chain that a causal network goes at once
MASKING = ("mdlm", "sedd")


def numbers(seed: int) -> np.random.RandomState:
    return np.random.RandomState(seed)  # whose numbers never change


@cache
def rows(number: int = 60, vocab: int = LETTERS, length: int = SITES, seed: int = 1) -> Tensor:
    """Rows in which a token mostly is the one before it plus one or two."""
    random = numbers(seed)
    steps = random.choice([1, 2, 5], p=[0.6, 0.3, 0.1], size=(number, length))
    steps[:, 0] = random.randint(vocab, size=number)
    return torch.from_numpy(steps.cumsum(1) % vocab)


def counts(tokens: Tensor, vocab: int) -> Tensor:
    return tokens.flatten().bincount(minlength=vocab)


@cache
def letters() -> CharCodec:
    return CharCodec(ALPHABET)


class Smeared(PatchCodec):
    """Its tokens look beyond their squares, as those of a VQ codec do, so that the mask rules differ."""

    def encode(self, images: np.ndarray) -> Tensor:
        near = [np.roll(images, (y, x), (1, 2)) for y in (-2, 0, 2) for x in (-2, 0, 2)]
        return super().encode(np.mean(near, axis=0).round().astype(np.uint8))


@cache
def patches() -> Smeared:
    return Smeared(torch.from_numpy(numbers(2).uniform(0, 255, (PATCHES, 4))).float(), patch=2, shape=(8, 8))


def rolled(network: Transformer, seed: int = 3) -> Transformer:
    """Weights that tell something, which those that a network begins with do not."""
    random = numbers(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.from_numpy(0.4 * random.standard_normal(tuple(parameter.shape))))
    return network.eval()


@cache
def text_model(method: str = "ggm", own: str = "", causal: bool = False, told: str = "survival", classes: int = 0) -> Model:
    """A small one of letters; `own` names its own schedule, if that is not the one that it would be trained on."""
    plan = plan_of(method, LETTERS, SITES, {"causal": causal, "told": told, "classes": classes}, {})
    about = {"classes": ["red", "green", "blue"][:classes]} if classes else {}
    process = process_of(plan, counts(rows(), LETTERS))
    model = model_for(plan, rolled(network_for(plan)), process, letters(), about=about)
    return in_its_own_order(model, {"": None, "causal": CAUSAL}[own])


@cache
def image_model(method: str = "ggm", own: str = "", causal: bool = False) -> Model:
    """A small one of 4×4 patches."""
    shape = {"grid": GRID, "learned_positions": True, "causal": causal}
    plan = plan_of(method, PATCHES, GRID[0] * GRID[1], shape, {}, noise="uniform")
    model = model_for(plan, rolled(network_for(plan)), process_of(plan, torch.ones(PATCHES)), patches())
    return in_its_own_order(model, {"": None, "causal": CAUSAL}[own])


@cache
def table(vocab: int = 3, length: int = 4) -> tuple[Oracle, NoiseLaw, Tensor]:
    """A law over all rows of 4 sites and 3 tokens, a noise law, and some rows that can occur."""
    random = numbers(4)
    law = torch.from_numpy(random.gamma(0.4, size=(vocab,) * length) + 1e-3)
    noise = NoiseLaw(torch.from_numpy(random.dirichlet(np.full(vocab, 3.0))))
    return Oracle(law / law.sum(), noise), noise, torch.from_numpy(random.randint(vocab, size=(40, length)))


# The cases. -----------------------------------------------------------------------------------------------------------------


def of_schedules() -> Cases:
    noise = NoiseLaw.uniform(3)
    for order in (*ORDERS, EXPLICIT):
        for block in (1, 4):
            name = order if isinstance(order, str) else "the sites themselves"
            process = Process(schedule(SITES, 3, order=order, block=block), noise)
            yield f"schedule: {name}, block {block}", partial(written, process)
    keeps = {"0.5": 0.5, "one a sweep": [0.9, 0.5, 0.0], "linear": "linear"}
    for name, keep in keeps.items():
        process = Process(schedule(SITES, 3, keep, last_keep=0.1 if name == "0.5" else None), NoiseLaw.unigram([5, 0, 2]))
        yield f"schedule: keep {name}", partial(written, process)
        x0, t = rows(40, 3), torch.arange(40) % 36
        yield f"corruption: keep {name}", partial(corrupted, process, x0, t)


def of_chains() -> Cases:
    """`run_chain` on a law that is known."""
    oracle, noise, x = table()
    length = x.shape[1]

    def process(keep: Any = 0.5, order: Any = "right-to-left", block: int = 1, last_keep: float | None = 0.0) -> Process:
        return Process(schedule(length, 3, keep, order, block=block, last_keep=last_keep), noise)

    for kernel in KERNELS:
        for skip in (True, False):
            for block in (1, 2):
                for marked in (False, True):
                    name = f"chain: {kernel}, skip {'on' if skip else 'off'}, block {block}{', marked noise' * marked}"
                    options = {"kernel": kernel, "skip": skip, "marked": marked}
                    yield name, partial(chain, oracle, process(block=block), 40, **options)
                    yield f"{name}, every state", partial(chain, oracle, process(block=block), 40, states=True, **options)
    for order in (*ORDERS, (3, 0, 1, 2)):
        for block in (1, 2):
            name = order if isinstance(order, str) else "the sites themselves"
            yield f"chain: {name}, block {block}", partial(chain, oracle, process(order=order, block=block), 40)
    given, tokens = torch.tensor([True, False, False, True]), torch.tensor([2, 0, 0, 1])
    masks = torch.arange(40)[:, None] % (length + 1) == torch.arange(length)
    all_of_them = {"temperature": (1.2, 0.8), "ban": [0], "top_k": 2, "top_p": 0.9}
    some = {
        "from the middle": {"start": (x, 6)},
        "from the middle, marked noise": {"start": (torch.where(masks, 3, x), 6), "marked": True},
        "stopped": {"num": 40, "stop": 4},
        "from the middle, stopped": {"start": (x, 8), "stop": 2},
        "clamped sites": {"num": 40, "clamp": {1: 2, 3: 0}},
        "clamped by a mask": {"num": 40, "clamp": (given, tokens)},
        "clamped by a mask for each row": {"num": 40, "clamp": (masks, x)},
        "clamped, and the network is not told": {"num": 40, "clamp": {1: 2, 3: 0}, "clamp_rule": "paper"},
        "clamped, marked noise": {"num": 40, "clamp": {1: 2, 3: 0}, "marked": True},
        "absent sites": {"num": 40, "absent": [False, True, False, True]},
        "absent and clamped sites": {"num": 40, "absent": [False, True, False, False], "clamp": {0: 1}},
        "ban": {"num": 40, "ban": [1]},
        "top-k": {"num": 40, "top_k": 2},
        "top-p": {"num": 40, "top_p": 0.7},
        "temperature": {"num": 40, "temperature": 0.6},
        "temperature in parts": {"num": 40, "temperature": (1.5, 1.2, 1.0, 0.8, 0.5)},
        "all of these": {"num": 40, **all_of_them},
        "all of these, on the mixture": {"num": 40, "truncate": "mixture", **all_of_them},
    }
    for kernel in KERNELS:
        for name, options in some.items():
            yield f"chain: {kernel}, {name}", partial(chain, oracle, process(), kernel=kernel, **options)
    for name, keep in {"keep 1": 1.0, "keep linear": "linear", "keep one a sweep": [0.9, 0.4, 0.2]}.items():
        for kernel in KERNELS:
            here = process(keep, last_keep=None)
            yield f"chain: {kernel}, {name}", partial(chain, oracle, here, 40, kernel=kernel)
    for kernel in KERNELS:
        plans = {"": process(), ", it ends in keep 0.5": process(last_keep=None), ", block 2": process(block=2)}
        for name, here in plans.items():
            yield f"chain: bound, {kernel}{name}", partial(chain_bound, oracle, here, x, kernel=kernel, draws=6)


def of_sampling() -> Cases:
    """A small network of letters."""
    model, num = text_model(), 16
    yield "sampling: as it is", partial(sample, model, num)
    for sweeps in (1, 2, 5):
        yield f"sampling: {sweeps} sweeps", partial(sample, model, num, sweeps=sweeps)
    for block in (2, 3, 12):
        yield f"sampling: block {block}", partial(sample, model, num, block=block)
    for order in (*ORDERS, EXPLICIT):
        for block in (1, 4):
            name = order if isinstance(order, str) else "the sites themselves"
            yield f"sampling: {name}, block {block}", partial(sample, model, num, order=order, sweeps=2, block=block)
    for calls in (1, 3, 8, 30):
        yield f"sampling: {calls} calls", partial(sample, model, num, calls=calls)
    some = {
        "reversal": {"kernel": "reversal"},
        "without the skip": {"skip": False},
        "marked noise": {"marked": True},
        "marked noise, reversal": {"marked": True, "kernel": "reversal"},
        "marked noise, segments, block 3": {"marked": True, "order": "segments", "block": 3},
        "top-p": {"top_p": 0.8},
        "top-k": {"top_k": 3},
        "ban": {"ban": [0, LETTERS - 1]},
        "temperature": {"temperature": 0.7},
        "temperature in parts": {"temperature": (1.4, 1.2, 1.0, 0.8, 0.6)},
        "on the mixture": {"temperature": 0.9, "top_p": 0.9, "truncate": "mixture"},
        "some sites given": {"clamp": {3: 5, 8: 2}},
        "some sites given, and the network is not told": {"clamp": {3: 5, 8: 2}, "clamp_rule": "paper"},
    }
    for name, options in some.items():
        yield f"sampling: {name}", partial(sample, model, num, **options)
    own = model_for(plan_of("ggm", LETTERS, SITES, {}, {}), model.network, model.process, letters(), sampling={"top_p": 0.8})
    yield "sampling: top-p, as the model's own", partial(sample, own, num)
    yield "sampling: every state", partial(chain, knows_clean(model), model.process, num, states=True)
    yield "sampling: told the time", partial(sample, text_model(told="time"), num)
    yield "sampling: images", partial(sample, image_model(), num)
    yield "sampling: images, random, block 4", partial(sample, image_model(), num, order="random", block=4, sweeps=2)

    causal = text_model(own="causal", causal=True)
    yield "sampling: causal", partial(sample, causal, num)
    yield "sampling: causal, top-p", partial(sample, causal, num, top_p=0.8)
    yield "sampling: causal, marked noise", partial(sample, causal, num, marked=True)
    yield "sampling: causal, 3 calls", partial(sample, causal, num, calls=3)
    yield "sampling: causal, 2 sweeps", partial(sample, causal, num, sweeps=2)
    yield "sampling: causal, random, block 2", partial(sample, causal, num, order="random", block=2)
    yield "sampling: causal, some sites given", partial(sample, causal, num, clamp={3: 5, 8: 2})
    yield "sampling: causal images", partial(sample, image_model(own="causal", causal=True), num)

    told = text_model(classes=3)
    yield "sampling: of no class", partial(sample, told, num)
    yield "sampling: of a class", partial(sample, told, num, klass=2)
    yield "sampling: of a class by its name, guidance 2", partial(sample, told, num, klass="green", guidance=2.0)
    yield "sampling: of a class, guidance 1, 3 calls", partial(sample, told, num, klass=0, guidance=1.0, calls=3)


def of_filling() -> Cases:
    """Texts, tokens and images with gaps."""
    num, text, causal = 6, text_model(), text_model(own="causal", causal=True)
    for name, model in {"": text, "causal, ": causal}.items():
        yield f"filling: {name}a beginning", partial(write, model, num, "fad cab")
        yield f"filling: {name}a beginning, top-p", partial(write, model, num, "fa", top_p=0.8)
        yield f"filling: {name}a gap", partial(infill, model, "abc [[4]] fgh", num)
        yield f"filling: {name}two gaps in a short text", partial(infill, model, "ab[[2]]e[[1]]g", num)
        yield f"filling: {name}a text longer than a row", partial(infill, model, "abc def[[3]]ghi jab cde[[2]] fgh", num)
        yield f"filling: {name}how likely", partial(likely_gaps, model, "abc [[4]] fgh", num)
        yield (
            f"filling: {name}2 sweeps, random, block 3",
            partial(infill, model, "abc [[4]] fgh", num, sweeps=2, order="random", block=3),
        )
        for kernel in KERNELS:
            options = {"kernel": kernel, "marked": True, "sweeps": 3}
            yield f"filling: {name}marked noise, {kernel}", partial(infill, model, "abc [[4]] fgh", num, **options)
        yield f"filling: {name}variations", partial(vary, model, "abc def", 24, num)
        yield f"filling: {name}variations, heat bath", partial(vary, model, "abc def", 24, num, kernel="heat-bath")
        yield f"filling: {name}variations, marked noise", partial(vary, model, "abc def ghij", 12, num, sweeps=2, marked=True)
        yield (
            f"filling: {name}variations, random, block 4",
            partial(vary, model, "abc def ghij", 16, num, sweeps=3, order="random", block=4),
        )
    hole = torch.tensor(numbers(5).rand(*rows(8).shape) < 0.4) | (torch.arange(SITES) == 3)
    yield "filling: tokens", partial(infill_tokens, text, rows(8), hole, 2)
    yield "filling: tokens, explicit order", partial(infill_tokens, text, rows(8), hole, order=EXPLICIT, sweeps=2)
    yield "filling: tokens of a short row", partial(infill_tokens, text, rows(8)[:, :7], hole[:, :7], 2)
    yield "filling: tokens, not told", partial(infill_tokens, text, rows(8), hole, 2, clamp_rule="paper")
    yield (
        "filling: tokens of a class, guidance 2",
        partial(infill_tokens, text_model(classes=3), rows(8), hole, 2, klass=1, guidance=2.0),
    )
    for method in ("ggm, marginal loss", "ggm, binary loss", "mlm", *MASKING):
        yield f"filling: {method}, tokens", partial(infill_tokens, text_model(method), rows(8), hole, 2)
    yield "filling: ggm, binary loss, variations", partial(vary, text_model("ggm, binary loss"), "abc def", 24, num)
    yield "filling: ar, a beginning", partial(write, text_model("ar"), num, "fad cab")

    image, dark = numbers(6).randint(0, 256, (8, 8)).astype(np.uint8), np.zeros((8, 8), bool)
    dark[1:6, 3:7] = True
    causal = image_model(own="causal", causal=True)
    for rule in (None, *MASK_RULES):
        name = rule or "the codec's own rule"
        yield f"filling: image, {name}", partial(inpaint, image_model(), image, dark, 3, rule)
        yield (
            f"filling: image, {name}, segments, block 4",
            partial(inpaint, image_model(), image, dark, 3, rule, order="segments", sweeps=2, block=4),
        )
        yield f"filling: causal image, {name}", partial(inpaint, causal, image, dark, 3, rule)
    patch_hole = torch.arange(16).view(GRID) % 4 > 1
    tokens = rows(4, PATCHES, 16).view(-1, *GRID)
    yield "filling: patches on their grid", partial(infill_tokens, image_model(), tokens, patch_hole, 2)


def of_methods() -> Cases:
    """How the others sample."""
    num = 16
    yield "method: ggm, marginal loss", partial(sample, text_model("ggm, marginal loss"), num)
    for told in ("survival", "time"):
        model, name = text_model("ggm, binary loss", told=told), f"method: ggm, binary loss, told the {told}"
        yield name, partial(sample, model, num)
        yield f"{name}, reversal", partial(sample, model, num, kernel="reversal")
        yield f"{name}, top-p", partial(sample, model, num, top_p=0.8)
    some = {
        "ar": {"": {}, ", top-p": {"top_p": 0.8}, ", ban": {"ban": [2]}},
        "mlm": {"": {}, ", temperature": {"temperature": 0.8}},
        "mdlm": {
            "": {},
            ", 4 calls": {"calls": 4},
            ", ancestral, 4 calls": {"calls": 4, "sampler": "ancestral"},
            ", first hitting, ban": {"calls": 5, "sampler": "first-hitting", "ban": [1, 4]},
            ", random": {"calls": 4, "order": "random"},
            ", left-to-right": {"order": "left-to-right"},
            ", right-to-left, 4 calls": {"calls": 4, "order": "right-to-left"},
            ", segments, 3 calls": {"calls": 3, "order": "segments"},
            ", strided, 3 calls": {"calls": 3, "order": "strided"},
        },
        "sedd": {
            "": {},
            ", 4 calls": {"calls": 4},
            ", euler, 4 calls": {"calls": 4, "sampler": "euler"},
            ", ban": {"calls": 4, "ban": [1, 4]},
            ", left-to-right, 6 calls": {"calls": 6, "order": "left-to-right"},
            ", segments, 3 calls": {"calls": 3, "order": "segments"},
        },
        "sedd-uniform": {
            "": {},
            ", tweedie, 4 calls": {"calls": 4, "sampler": "tweedie"},
            ", euler, 4 calls": {"calls": 4, "sampler": "euler"},
            ", ban": {"calls": 4, "ban": [1, 4]},
        },
        "udlm": {"": {}, ", 4 calls": {"calls": 4}, ", ban": {"calls": 4, "ban": [1, 4]}},
        "plaid": {
            "": {},
            ", 4 calls": {"calls": 4},
            ", temperature": {"calls": 4, "temperature": 0.9},
            ", temperature in parts": {"calls": 6, "temperature": (0.8, 1.0)},
            ", ban": {"calls": 4, "ban": [1, 4]},
        },
    }
    for method, plans in some.items():
        for name, options in plans.items():
            yield f"method: {method}{name}", partial(sample, text_model(method), num, **options)


def of_scores() -> Cases:
    x, text = rows(12, seed=7), ["abc def ghij abc", "fad cab", "jig"]
    model, causal = text_model(), text_model(own="causal", causal=True)
    for kernel in KERNELS:
        yield f"score: ggm, {kernel}", partial(score, model, x, kernel=kernel)
        yield f"score: ggm, {kernel}, texts", partial(score, model, text, kernel=kernel, draws=5)
        yield f"score: ggm, {kernel}, 2 sweeps", partial(score, model, x, kernel=kernel, sweeps=2)
    for order in (*ORDERS, EXPLICIT):
        name = order if isinstance(order, str) else "the sites themselves"
        yield f"score: ggm, {name}, block 3", partial(score, model, x, order=order, sweeps=1, block=3, draws=4)
    yield "score: ggm, causal", partial(score, causal, x)
    yield "score: ggm, causal, texts", partial(score, causal, text)
    yield "score: ggm, causal, random", partial(score, causal, x, order="random")
    yield "score: ggm, told the time", partial(score, text_model(told="time"), x)
    yield "score: ggm, images", partial(score, image_model(), numbers(8).randint(0, 256, (4, 8, 8)).astype(np.uint8))
    for method in METHODS:
        if method not in ("ggm", "mlm"):  # Gibbs sampling has no bound
            yield f"score: {method}", partial(score, text_model(method), x)
    yield "score: ggm, binary loss, told the time", partial(score, text_model("ggm, binary loss", told="time"), x)


def of_training() -> Cases:
    x, number = rows(), counts(rows(), LETTERS)
    half = {"clean_fraction": 0.5, "marked_fraction": 0.3, "causal_every": 2}
    some: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        method: (method, {}, {"timesteps": 2}, {}) for method in METHODS
    }
    some |= {
        "ggm, half of the rows causal, muon": ("ggm", {"causal": True}, half | {"optimizer": "muon", "grad_accum": 2}, {}),
        "ggm, a quarter of the rows causal": ("ggm", {"causal": True}, half | {"causal_every": 4}, {"order": "random"}),
        "ggm, no clean sites, all noise marked": ("ggm", {}, {"clean_fraction": 0.0, "marked_fraction": 1.0}, {}),
        "ggm, told the time": ("ggm", {"told": "time"}, {}, {"keep": 0.6}),
        "ggm, binary loss, told the time": ("ggm, binary loss", {"told": "time"}, {}, {}),
        "ggm, three classes": ("ggm", {"classes": 3}, {}, {"noise": "uniform"}),
        "ggm, no clipping, a decay that ends early": (
            "ggm",
            {},
            {"grad_clip": None, "decay": 12, "min_lr": 1e-3, "betas": (0.8, 0.95), "ema_warmup": False, "seed": 5},
            {"sweeps": 2, "last_keep": 0.0, "keep": 0.4},
        ),
        "ar, muon": ("ar", {}, {"optimizer": "muon"}, {}),
    }
    for name, (method, network, train, process) in some.items():
        plan = plan_of(method, LETTERS, SITES, network, train, **process)
        classes = x[:, 0] % 3 if "classes" in network else None
        yield from of_one_training(name, cache(partial(trained, plan, x, number, classes)))
    grid = {"grid": GRID, "learned_positions": True}
    image = plan_of("ggm", PATCHES, 16, grid, {}, noise="uniform")
    yield from of_one_training("ggm, a grid", cache(partial(trained, image, rows(60, PATCHES, 16), torch.ones(PATCHES), None)))
    plan = plan_of("ggm", LETTERS, SITES, {}, {"timesteps": 2})
    yield from of_one_training("ggm, stopped and resumed", cache(partial(trained_in_two, plan, x, number, 10)))
    plan = plan_of("ggm", LETTERS, SITES, {"causal": True}, half | {"optimizer": "muon"})
    folder = cache(partial(trained_in_a_folder, plan, (x[:-12], x[-12:]), number, letters(), 10))
    yield from of_one_training("ggm, a run in a folder, stopped and resumed", folder)
    yield "training: ggm, a run in a folder, stopped and resumed: samples", lambda: folder()[2]


def of_one_training(name: str, work: Callable[[], tuple[Any, ...]]) -> Cases:
    yield f"training: {name}: weights", lambda: work()[0]
    yield f"training: {name}: losses", lambda: work()[1]


def of_the_box() -> Cases:
    """The bundled models; all but their own chains in so large blocks that they make at most 8 calls."""
    novels, fashion = load("novels"), load("fashion")
    yield "novels: as it is", partial(sample, novels, 1)
    yield "novels: 4 calls", partial(sample, novels, 1, calls=4)
    yield (
        "novels: infill, top-p",
        partial(infill, novels, "It was the [[2]] of times, it was the worst of times.", 1, top_p=0.9),
    )
    yield "novels: score", partial(score, novels, ["It was a dark and stormy night."])
    yield "fashion: as it is", partial(sample, fashion, 1)
    yield "fashion: 4 calls", partial(sample, fashion, 1, calls=4)
    yield "fashion: 2 sweeps, random, block 49", partial(sample, fashion, 1, sweeps=2, order="random", block=49)


GROUPS = (of_schedules, of_chains, of_sampling, of_filling, of_methods, of_scores, of_training, of_the_box)

# Making, writing and comparing. ---------------------------------------------------------------------------------------------


def sha(value: Any) -> str:
    """Of a tensor or an array by its type, shape and bytes; of lists of these, of texts, in their order."""
    found = hashlib.sha256()
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str):
            part = each.encode()
        else:
            array = each.detach().numpy() if isinstance(each, Tensor) else each
            found.update(f"{array.dtype} {array.shape}".encode())
            part = np.ascontiguousarray(array).tobytes()
        found.update(f" {len(part)} ".encode() + part)
    return found.hexdigest()


def noted(value: Any) -> str | list[float]:
    """Figures as they are, all else hashed."""
    is_figures = isinstance(value, list) and value and all(isinstance(each, float) for each in value)
    return [float(f"{each:.9g}") for each in value] if is_figures else sha(value)


def made(say: Callable[[str], None]) -> dict[str, Any]:
    """Every case by its name. One that fails holds what it failed with, so that the others are still compared."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for group in GROUPS:
        began = time.process_time()
        before = len(found)
        for name, work in group():
            assert name not in found, name
            try:
                found[name] = noted(work())
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
                say(f"{name}: {found[name]}")
        say(f"{group.__name__}: {len(found) - before} cases in {time.process_time() - began:.1f} s")
    return found


def agree(one: Any, other: Any) -> bool:
    """Whether two values of a case are the same, figures within TOLERANCE."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and bool(np.allclose(one, other, rtol=TOLERANCE, atol=0))
    return bool(one == other)


def main() -> None:
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ENVIRONMENT)
    parser = argparse.ArgumentParser(description="Make every case anew and write them down.")
    parser.add_argument("--out", type=Path, default=FILE)
    out = parser.parse_args().out
    cases = made(lambda words: print(words, flush=True))
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in cases.items())
    out.write_text(f'{{\n "torch": {json.dumps(RELEASE)},\n "cases": {{\n{lines}\n }}\n}}\n')
    print(f"{len(cases)} cases in {out}")


if __name__ == "__main__":
    main()
