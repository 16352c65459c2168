"""What a method is: all that depends on how a model is trained and sampled, in one object that is looked up by its name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from glauber.conditional import Conditional, Layout, StepLaw, Transformer, TransformerConfig
from glauber.method.sampling import Request, Run, Samples, SamplingPlan
from glauber.process import Process, Schedule, Tokens
from glauber.process.draws import Generator
from glauber.recipe import Recipe, TrainSpec


@dataclass(frozen=True)
class Capabilities:
    """What a method can do. What it cannot is refused in one sentence."""

    any_schedule: bool = False
    """Sampled by another schedule than the model's own: other sweeps, blocks, orders."""
    fill_gaps: bool = False
    orders: bool = False
    """Writes the sites in an order that can be chosen."""
    classes: bool = False
    causal_rows: bool = False
    """Learns some rows causally (`train.causal_every`), and then samples from left to right unless told otherwise."""
    samplers: tuple[str, ...] = ()
    """By their names, the default one first; none to choose where it is empty."""
    fewer_calls: bool = False
    """Than there are sites."""
    bounded: bool = True
    """Has a bound on the likelihood."""
    clean_conditional: bool = True
    """Knows P(X_0[site] | the others), and not only the law of a step with its noise."""
    site_vocabularies: bool = False
    """Keeps to tokens that each site may hold."""


@dataclass(frozen=True)
class LossOptions:
    """What a loss is given besides a network, a process and clean rows."""

    spec: TrainSpec | None = None
    """Of a training run, whose network is a `Transformer`: the logits are then not held all at once."""
    config: TransformerConfig | None = None
    """Of that network, which may be behind another module."""
    check: bool = True
    """Look at the tokens first, which makes a GPU wait."""
    generator: Generator | None = None


@dataclass(frozen=True)
class BoundOptions:
    """What a bound is given besides."""

    kernels: Sequence[str] = ("reversal",)
    """Whose law, of a chain; another method has one bound whatever they are."""
    draws: int = 8
    """Network calls of each row, unless fewer are exact."""
    known: Tensor | None = None
    """(B, L) bool, the sites that hold a token; all of them if None."""
    generator: Generator | None = None
    progress: bool = False


class Bounds(NamedTuple):
    """Upper bounds on -log p of some rows."""

    nats: dict[str, Tensor]  # (B,) each, by whose law it is: a chain's kernels, or the method
    calls: int  # network calls of a row
    exact: bool  # whether they are -log p itself


class Compared(NamedTuple):
    """A row of `bench table1`: how a method samples there."""

    calls: int
    order: str | None  # "random", "best" (from left to right) or, all sites at once, none
    request: Request


class Method(ABC):
    """One object a method, without state. Networks are called as `Transformer` is, but for those that a method makes itself."""

    name: str
    can: Capabilities
    sampling: ClassVar[Mapping[str, Any]] = {}
    """Options of `run_chain` that it needs unless told otherwise."""
    tags: ClassVar[tuple[str, ...]] = ()
    """What else a model's card says of the method."""
    fp32 = False
    """Sampled in float32 on a GPU, too, unless told otherwise."""

    def resolve(self, recipe: Recipe) -> Recipe:
        """The recipe with what the method fixes: sweeps, keep, noise, causal attention."""
        return recipe

    def network(self, config: TransformerConfig) -> Transformer:
        """A new one."""
        return Transformer(config)

    def layout(self, config: TransformerConfig) -> Layout:
        """The parameters that `network` would have."""
        return Layout.of(config)

    def require(self, process: Process) -> None:  # noqa: B027  (most learn any)
        """Refuse a process that this method cannot learn."""

    def require_vocabularies(self, process: Process) -> None:
        """Refuse sites with vocabularies of their own where this method cannot keep to them."""
        if process.noise.allowed is not None and not self.can.site_vocabularies:
            raise ValueError(
                f"the method {self.name} has one vocabulary for all sites, and this codec one for each; take method=ggm"
            )

    def examples(self, spec: TrainSpec) -> int:
        """How many rows the network sees for each row of a batch."""
        return 1

    def sampled_by(self, recipe: Recipe, process: Process) -> Process:
        """How a model of this recipe samples unless told otherwise; `process` is the one that it is trained on."""
        return process

    @abstractmethod
    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """The mean over all tokens of clean rows (B, L), to be minimised."""

    @abstractmethod
    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """What the network knows, for a chain of this process; `both_ways` of a site, as filling gaps needs it.

        `class_` and `guidance` as for `Denoiser`.
        """

    @abstractmethod
    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """How a model with this schedule of its own samples, for this request; what cannot be is refused."""

    @abstractmethod
    def sample(self, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run = Run()) -> Samples:
        """Rows by the plan, with the noise law of the process."""

    @abstractmethod
    def bounds(self, network: Any, process: Process, x0: Tokens, how: BoundOptions = BoundOptions()) -> Bounds:
        """Of rows x0 (B, L)."""

    def bound(self, network: Any, process: Process, x0: Tokens, draws: int = 8, generator: Generator | None = None) -> Tensor:
        """(B,) nats: the first of `bounds`."""
        return next(iter(self.bounds(network, process, x0, BoundOptions(draws=draws, generator=generator)).nats.values()))

    def plan_bound(
        self, network: Any, process: Process, plan: SamplingPlan, x0: Tensor, how: BoundOptions = BoundOptions()
    ) -> Tensor | None:
        """(B,) nats: the bound for the law that `sample` draws from by this very plan; None where none is known."""
        return None

    def compared(self, length: int) -> list[Compared]:
        """Its rows of `bench table1`; none for a method that the table leaves out."""
        return []


PARTS = (16, 4, 1)
"""Budgets of network calls in that table are L over these."""
