"""A recipe for data that nobody has tuned one for: from what the data is, and from how fast this machine is at it.

The rules are few, and each is printed with what it chose:

size       the largest network that sees RATIO tokens for each of its parameters in the time, and has no more of them than there
           are tokens to train on
batch      as many tokens a step as leave STEPS steps, between a smallest and a largest batch
rate       Muon's, lower for wider networks
shares     half of the rows causal; none where the network is told classes
schedule   a linear one with the noise law of the kind of data; the rate falls by the clock
"""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from glauber.codec import is_image_codec
from glauber.conditional import Layout, TransformerConfig
from glauber.method import find_method
from glauber.model import Model
from glauber.recipe import ProcessSpec, Recipe, TrainSpec
from glauber.train.data import Data
from glauber.train.measure import Speed, as_many_threads_as_pay, speed, step_seconds
from glauber.train.overrides import apply_settings
from glauber.train.parallel import ALONE
from glauber.train.recipes import MIXED
from glauber.train.run import check_plan, fit

SIZES = (
    *((32, 2, 2), (64, 3, 2), (96, 4, 3), (128, 4, 4), (192, 6, 3), (256, 6, 4)),
    *((384, 8, 6), (512, 12, 8), (768, 12, 12), (1024, 24, 16)),
)
"""Width, layers and heads."""
RATIO = 12
"""Tokens that a network must see for each parameter of its blocks."""
STEPS, FEW_STEPS = 3000, 300
"""With more of them, a larger batch is better; with fewer than these, one that is smaller than usual."""
SMALLEST_BATCH, LARGEST_BATCH = 2**11, 2**17
"""Tokens of a step."""
GPU_BATCH = 2**15
"""On a GPU sizes are timed with so many tokens a step, since fewer leave it idle."""
TUNED_WIDTH, TUNED_LR = 96, 1e-2
"""The width that this rate of Muon was found for; a wider network bears less."""
LOOKS, LOOKING, PATIENCE = 12, 0.1, 4
"""Validations of a run, if they take no more than this share of the time; and how many may pass without a better bound."""
CALLS_OF_A_LOOK, FORWARD = 9, 1 / 3
"""Passes over each row that a validation takes, and what a pass costs beside a step of training."""
CHOOSING = 0.15
"""After this share of the time no more is tried."""
FEWEST_ROWS = 4
"""Of a validation."""
ROWS_OF_A_CLASS = 8
"""Fewer rows than that teach nothing of a class."""
FINE_LR = 3e-4
"""Of AdamW, for weights that are good already."""
SPARE = 10
"""It is the clock that ends a run, and never the steps, of which there are so many times those that are foreseen."""
LEAST, CHECKPOINT = 0.5, 30.0
"""Seconds: the shortest training, and between checkpoints."""


class Forecast(NamedTuple):
    """What a run will come to on this machine."""

    steps: int
    seconds: float
    """Until the model is there, from when the choosing began."""
    times: float
    """How often each row is seen."""


class Choice(NamedTuple):
    """A recipe, what it rests on, and what it will come to."""

    plan: Recipe
    size: str
    """Why the network is as large as it is."""
    threads: int
    taken: Speed
    forecast: Forecast
    spent: float
    """Seconds that the choosing took, which the forecast counts."""
    settings: Mapping[str, Any]
    """What the user chose."""
    started: bool
    """Whether it starts from a model."""


def choose(
    data: Data,
    minutes: float,
    init: Model | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Choice:
    """The recipe for this data, to be trained within so many minutes on the device that is there.

    Args:
        init: the model that it will start from, whose shape it then has.
        settings: what the user has chosen, by the names that `--set` takes.
    """
    if not 0 < minutes < math.inf:
        raise ValueError(f"the time is a number of minutes above 0, not {minutes:g}")
    began = time.perf_counter()
    first = fit(_plan(data, SIZES[0], init), data)
    check_plan(first, data)
    with as_many_threads_as_pay(first, data) as threads:
        until = began + CHOOSING * 60 * minutes
        plan, each, size = _sized(data, 60 * minutes, init, until)
        timed, plan = plan, _looking(_batched(plan, data, 60 * minutes / each), each, 60 * minutes)
        plan = fit(apply_settings(plan, settings), data)
        check_plan(plan, data)
        step = each * plan.train.batch * data.length
        known = not settings and plan.train.batch == timed.train.batch
        late = not settings and time.perf_counter() > until
        taken = Speed(step, _look(plan, each)) if late else speed(plan, data, step if known else None)
    spent = time.perf_counter() - began
    plan = apply_settings(_scheduled(plan, 60 * minutes - spent, taken, settings.get("train.seconds")), settings)
    forecast = foresee(plan.train, len(data.train), taken, spent)
    return Choice(plan, size, threads, taken, forecast, spent, settings, init is not None)


def foresee(spec: TrainSpec, rows: int, taken: Speed, spent: float = 0.0) -> Forecast:
    """What a run of this speed comes to, unless its bound stops falling before."""
    seconds = min(spec.steps * taken.step, math.inf if spec.seconds is None else spec.seconds)
    steps = max(1, min(spec.steps, round(seconds / taken.step)))
    looks = -(-steps // spec.evaluate_every)
    return Forecast(steps, spent + seconds + looks * taken.look, steps * spec.batch / rows)


def _plan(data: Data, size: tuple[int, int, int], init: Model | None) -> Recipe:
    """For a network of this size, or of the model's; its time and its batch are yet to be chosen."""
    image = is_image_codec(data.codec)
    width, layers, heads = size
    network = TransformerConfig(
        2, 1, width, layers, heads, learned_positions=image, cond_dim=32 if width < 256 else 64, causal=not tells_classes(data)
    )
    train = TrainSpec(
        steps=STEPS, batch=2, optimizer="muon", lr=_rate(width), warmup=50, ema_decay=0.99, patience=PATIENCE, **MIXED
    )
    process, method = ProcessSpec(keep="linear", noise="uniform" if image else "unigram"), "ggm"
    if init is not None:
        network, process, method = init.network.config, _process_of(init, process), init.method.name
        train = replace(train, optimizer="adamw", lr=FINE_LR)
    if not (network.causal and find_method(method).can.causal_rows):
        train = replace(train, causal_every=0)
    on_gpu = ALONE.device.type == "cuda"
    train = replace(train, batch=_rows(GPU_BATCH if on_gpu else SMALLEST_BATCH, data), precision="bf16" if on_gpu else "fp32")
    return Recipe("chosen", "chosen for this data, machine and time", "those of the data", network, process, train, method)


def _process_of(init: Model, other: ProcessSpec) -> ProcessSpec:
    """The process that a model was trained on, with the other's noise."""
    said = (init.trained or init.process.schedule).to_dict()
    keep = tuple(said["keep"]) if isinstance(said["keep"], list) else said["keep"]
    order = said["order"] if isinstance(said["order"], str) else other.order
    return replace(other, sweeps=said["steps"] // said["length"], keep=keep, order=order)


def tells_classes(data: Data) -> bool:
    """Whether there are classes, and enough rows of each in the mean to learn what it is."""
    return 0 < len(data.classes) * ROWS_OF_A_CLASS <= len(data.train)


def _rate(width: int) -> float:
    """As 1/width to the power ⅔, from a width that was tried; one digit of it."""
    return float(f"{TUNED_LR * min(1.0, (TUNED_WIDTH / width) ** (2 / 3)):.0e}")


def _rows(tokens: float, data: Data) -> int:
    """An even number of rows, about so many tokens, and no more rows than there are."""
    return max(2, min(int(tokens) // data.length, len(data.train)) // 2 * 2)


def blocks(network: TransformerConfig) -> int:
    """The parameters of its blocks."""
    layout = Layout.of(network)
    return layout.layers * sum(map(math.prod, layout.block.values()))


def _sized(data: Data, seconds: float, init: Model | None, until: float) -> tuple[Recipe, float, str]:
    """The recipe of the size for the time, the seconds that a token takes, and why it is that size; none is tried too late."""
    plan = fit(_plan(data, SIZES[0], init), data)
    each = step_seconds(plan, data) / (plan.train.batch * data.length)
    if init is not None:
        return plan, each, "that of the model it starts from"
    for size in SIZES[1:]:
        if time.perf_counter() > until:
            return plan, each, "this machine is so slow now that there is no time to try the next one"
        larger = fit(_plan(data, size, None), data)
        if (why := _too_large(larger, data, seconds / each)) is not None:
            return plan, each, why
        took = step_seconds(larger, data) / (larger.train.batch * data.length)
        if (why := _too_large(larger, data, seconds / took)) is not None:
            return plan, each, why
        plan, each = larger, took
    return plan, each, "the largest that is tried"


def _too_large(plan: Recipe, data: Data, tokens: float) -> str | None:
    """Why a network is too large for what there is: data, time for so many tokens, memory."""
    parameters, there = blocks(plan.network), len(data.train) * data.length
    if parameters > there:
        return f"the next one has {parameters:,} parameters in its blocks, more than the {there:,} tokens to train on"
    if tokens < RATIO * parameters:
        seen = tokens / parameters
        return f"the next one would see {seen:.1f} tokens for each parameter of its blocks in the time, and needs {RATIO}"
    if (why := _refused(plan, data)) is not None:
        return f"the next one is refused: {why}"
    return None


def _refused(plan: Recipe, data: Data) -> str | None:
    """What is said against a plan, such as that the memory cannot hold it."""
    try:
        check_plan(plan, data)
    except ValueError as error:
        return str(error)
    return None


def _batched(plan: Recipe, data: Data, tokens: float) -> Recipe:
    """With the batch for so many tokens in all; in parts, if the memory cannot hold it."""
    least = SMALLEST_BATCH if tokens >= FEW_STEPS * SMALLEST_BATCH else SMALLEST_BATCH // 4
    size = 2 ** math.floor(math.log2(max(1.0, tokens / STEPS)))
    rows, parts = _rows(min(max(size, least), LARGEST_BATCH), data), 1
    while True:
        tried = replace(plan, train=replace(plan.train, batch=rows // (2 * parts) * 2 * parts, grad_accum=parts))
        if 4 * parts > rows or _refused(tried, data) is None:
            return tried
        parts *= 2


def _looking(plan: Recipe, each: float, seconds: float) -> Recipe:
    """With validations on so few rows, and without samples, that there is time for LOOKS of them."""
    row = _look(plan, each) / plan.train.valid_rows
    rows = int(min(max(FEWEST_ROWS, LOOKING * seconds / LOOKS / row), plan.train.valid_rows))
    few = rows < plan.train.valid_rows
    return replace(plan, train=replace(plan.train, valid_rows=rows, samples=0 if few else plan.train.samples))


def _look(plan: Recipe, each: float) -> float:
    """About the seconds of a validation, from those that a token takes in training."""
    return CALLS_OF_A_LOOK * FORWARD * each * plan.network.length * plan.train.valid_rows


def _scheduled(plan: Recipe, left: float, taken: Speed, asked: float | None) -> Recipe:
    """With the seconds that were asked for, else those that are left but for the validations; and all that counts in steps."""
    looks = int(min(max(1, LOOKING * (asked or left) / taken.look), LOOKS))
    seconds = asked or max(LEAST, left - looks * taken.look)
    steps = max(1, round(seconds / taken.step))
    train = replace(
        plan.train,
        seconds=round(seconds, 1),
        steps=SPARE * steps,
        warmup=min(200, max(1, steps // 50)),
        ema_decay=round(min(0.999, max(0.9, 1 - 20 / steps)), 4),
        evaluate_every=-(-steps // looks),
        checkpoint_every=max(1, round(CHECKPOINT / taken.step)),
    )
    return replace(plan, train=train)
