"""The Glauber Generative Model: by the dense loss, and by the paper's classifiers of signal and noise."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from glauber.conditional import (
    CausalConditional,
    Classifier,
    Conditional,
    Denoiser,
    StepLaw,
    check_guidance,
    require_classifiable,
)
from glauber.method.base import PARTS, Capabilities, Compared, LossOptions
from glauber.method.chain import ChainMethod
from glauber.method.sampling import Request
from glauber.objective import dense
from glauber.process import Process, Schedule, Tokens
from glauber.recipe import Recipe, TrainSpec


class GGM(ChainMethod):
    """A label at every site of one pass (identity 4): the clean conditional, for any schedule. Some rows may be causal."""

    name = "ggm"
    tags = ("glauber-generative-model",)
    can = Capabilities(
        any_schedule=True, fill_gaps=True, orders=True, classes=True, causal_rows=True, fewer_calls=True, site_vocabularies=True
    )

    def sampled_by(self, recipe: Recipe, process: Process) -> Process:
        """From left to right in one sweep, if it has learned that: it takes one pass over a row."""
        return causal_process(process) if recipe.train.causal_every and recipe.network.causal else process

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """See `dense`."""
        spec = how.spec
        if spec is None:
            return dense(network, process, x0, check=how.check, generator=how.generator)
        timed = how.config is not None and how.config.conditioning == "time"  # it can know no order but its own
        return dense(
            network,
            process,
            x0,
            any_order=not timed,
            clean_fraction=0.0 if timed else spec.clean_fraction,
            marked_fraction=spec.marked_fraction,
            causal_every=spec.causal_every,
            chunked=True,
            check=how.check,
            generator=how.generator,
        )

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """Causal, where the network is and the schedule asks for no more."""
        check_guidance(class_, guidance)
        config = getattr(network, "config", None)
        if not both_ways and config is not None and config.causal and process.schedule.causal:
            return CausalConditional(network)
        return Denoiser(network, class_, guidance)

    def compared(self, length: int) -> list[Compared]:
        """In random order by one sweep, and as a number of calls chooses."""
        rows = []
        for part in PARTS:
            calls = length // part
            rows.append(Compared(calls, "random", Request(sweeps=1, block=part, order="random")))
            rows.append(Compared(calls, "best", Request(calls=calls)))
        return rows


class ClassifierGGM(ChainMethod):
    """The paper's: a classifier of signal and noise at one site of a pass. It knows the law of a step alone."""

    can = Capabilities(fill_gaps=True, clean_conditional=False)
    sampling = {"truncate": "mixture"}  # noqa: RUF012  (all that it knows)
    tags = ("glauber-generative-model",)
    fp32 = True

    def __init__(self, name: str, objective: Callable[..., Tensor]):
        self.name, self.objective = name, objective

    def require(self, process: Process) -> None:
        require_classifiable(process)

    def examples(self, spec: TrainSpec) -> int:
        """One for each time that is drawn."""
        return spec.timesteps

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """See `binary` and `marginal`."""
        times = 1 if how.spec is None else how.spec.timesteps
        return self.objective(network, process, x0, times, how.check, how.generator)

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """As in `Method`."""
        check_guidance(class_, guidance)
        if class_ is not None:
            raise ValueError("a model of the paper's losses knows no clean conditional of a class; train with method=ggm")
        return Classifier(network, process)


def causal_process(process: Process) -> Process:
    """One sweep from left to right with keep 0, and the same noise: autoregressive generation."""
    return Process(Schedule.round_robin(process.length, process.length, 0.0, "left-to-right"), process.noise)
