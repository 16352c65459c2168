"""The autoregressive model: one sweep from left to right with keep 0, a corner of the same chain."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from glauber.conditional import CausalConditional, Conditional, StepLaw, TransformerConfig, check_guidance
from glauber.method.base import Capabilities, Compared, LossOptions
from glauber.method.chain import ChainMethod
from glauber.method.sampling import Request
from glauber.objective import causal, middle
from glauber.process import Process, Schedule, Tokens
from glauber.recipe import Recipe


class Autoregressive(ChainMethod):
    """Every token given those before it. Its bound is the likelihood itself."""

    name = "ar"
    can = Capabilities(site_vocabularies=True)

    def resolve(self, recipe: Recipe) -> Recipe:
        """Causal attention, and the schedule that it means."""
        process = replace(recipe.process, sweeps=1, keep=0.0, last_keep=None, order="left-to-right")
        return replace(recipe, process=process, network=replace(recipe.network, causal=True))

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """See `causal`, and `middle` for a share of the rows."""
        spec = how.spec
        if spec is None or not spec.fim:
            return causal(network, process, x0, spec is not None, how.check)
        if spec.fim_end is None:
            raise ValueError("train.fim needs data with a codec that has an end of text; leave it out, or prepare text")
        return middle(network, process, x0, spec.fim, spec.fim_end, how.check, how.generator)

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """Of the sites before it alone."""
        check_guidance(class_, guidance)
        if both_ways:
            raise ValueError("an autoregressive model looks to the left alone and cannot fill gaps; use one of another method")
        return CausalConditional(network)

    def within(self, own: Schedule, config: TransformerConfig, calls: int) -> Schedule:
        """Its own, which has a call for each site."""
        if calls != own.length:
            raise ValueError(f"the method {self.name} makes {own.length} calls, one a site, not {calls}; leave calls out")
        return own

    def compared(self, length: int) -> list[Compared]:
        """As in `Method`."""
        return [Compared(length, "best", Request())]
