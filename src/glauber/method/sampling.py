"""How samples are asked for, how a method then plans them, and what a run of the plan is given and gives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.chain.clamp import Clamp
from glauber.chain.runner import Runner, eager
from glauber.chain.step import Rows
from glauber.process import Mask, Schedule, Tokens
from glauber.process.draws import Generator


@dataclass(frozen=True)
class Request:
    """How a user asks for samples; what is None is the model's own."""

    calls: int | None = None
    """At most so many network calls a sample."""
    sweeps: int | None = None
    block: int | None = None
    order: str | Sequence[int] | Tensor | None = None
    """Of writing: a name, or the sites as they are written."""
    sampler: str | None = None
    class_: int | None = None
    guidance: float = 0.0
    gaps: bool = False
    """Some sites will be given."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `run_chain`."""


@dataclass(frozen=True)
class SamplingPlan:
    """How rows are sampled, decided before the first one is."""

    schedule: Schedule
    calls: int
    """The most network calls of a sample."""
    sampler: str | None = None
    order: Tensor | None = None
    """(L,) the sites as they are written, for a method that is no chain; None for its own order."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `run_chain`."""
    class_: int | None = None
    guidance: float = 0.0
    by_chain: bool = True
    whole_rows: bool = False
    """No site may be given, and the start is noise."""


@dataclass
class Record:
    """What a run notes down for those who ask."""

    alone: bool = False
    """It must be noted: the rows may share no chain with others."""
    log_law: Tensor | None = None
    """(rows,) log-probability of the tokens that were drawn, where the chain draws each site once; else it is not known."""
    calls: float | None = None
    """Network calls of a row, in the mean."""


@dataclass(frozen=True)
class Run:
    """What one run of a plan is given besides its number of rows; see `run_chain`."""

    generator: Generator | None = None
    clamp: Clamp | None = None
    start: tuple[Tokens, int] | None = None
    stop: int = 0
    absent: Mask | None = None
    rules: Sequence[Rule] = ()
    """Tokens that some sites must not hold."""
    on_step: Callable[[int, Tensor], None] | None = None
    progress: bool = False
    runner: Runner = eager
    """Of the chain's steps: see `chain.runner`."""
    rows: Rows | None = None
    """Of a chain that is watched by `on_step`: what it wants to know of each row, and which rows it takes out."""
    record: Record | None = None


class Samples(NamedTuple):
    """Rows, and what they cost."""

    tokens: Tensor  # (rows, L) int64
    calls: float  # network calls of a row, in the mean


def one_permutation() -> torch.Generator:
    """For the order "random" of a schedule: the same permutation each time."""
    return torch.Generator().manual_seed(0)


def as_noised(order: Any) -> Tensor:
    """Sites as they are written, in the order in which noise falls on them."""
    try:
        return torch.as_tensor(order).flip(0)
    except (TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
        raise ValueError("an order is a name, or made of whole numbers, the sites as they are written") from error


def class_number(class_: str | int | None, known: Sequence[str]) -> int | None:
    """Of a class by its name or number; None for none."""
    if class_ is None:
        return None
    if not known:
        raise ValueError("this model was not trained on classes; leave the class out")
    if isinstance(class_, str) and class_ in known:
        return known.index(class_)
    number = int(class_) if str(class_).isdecimal() else -1
    if not 0 <= number < len(known):
        few = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        raise ValueError(f"there is no class {class_!r}; choose one of {few}")
    return number
