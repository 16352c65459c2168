"""The options of `run_chain`: which law a chain draws from, checked once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from glauber.chain.clamp import RULES
from glauber.chain.kernels import KERNELS
from glauber.chain.truncation import Truncation
from glauber.conditional import Conditional, StepLaw
from glauber.process import Process


@dataclass(frozen=True)
class ChainOptions:
    """What `run_chain` takes by these names and says of them; all but the rows, their conditions and what is shown of them."""

    kernel: str = "heat-bath"
    clamp_rule: str = "exact"
    truncate: str = "clean"
    temperature: float | Sequence[float] = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    ban: Sequence[int] = ()
    skip: bool = True
    mark_noise: bool = False

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel is 'heat-bath' or 'reversal', not {self.kernel!r}")
        if self.clamp_rule not in RULES:
            raise ValueError(f"clamp_rule is 'exact' or 'paper', not {self.clamp_rule!r}")
        _ = self.truncation  # which refuses what it cannot do

    @cached_property
    def truncation(self) -> Truncation:
        """How the law is truncated before a token is drawn from it."""
        return Truncation(self.temperature, self.top_p, self.top_k, self.ban, self.truncate)

    @property
    def on_mixture(self) -> bool:
        """Whether the step law is truncated, and not the clean conditional."""
        return self.truncation.active and self.truncation.place == "mixture"

    def may_skip(self, conditional: Conditional | StepLaw) -> bool:
        """Whether calls are left out; where that would change the law, all are made."""
        return self.skip and not self.on_mixture and not isinstance(conditional, StepLaw)

    def require_fit(self, conditional: Conditional | StepLaw, process: Process) -> None:
        """Refuse what this conditional, or a chain of this process, cannot do."""
        self.truncation.check_vocab(process.vocab)
        if self.mark_noise and self.on_mixture:
            raise ValueError("marked noise is never mixed in, so there is no mixture to truncate; use truncate='clean'")
        if not isinstance(conditional, StepLaw):
            return
        if self.mark_noise:
            raise ValueError("marked noise needs the clean conditional, and this one knows only the step law")
        if self.truncation.active and not self.on_mixture:
            raise ValueError("this conditional knows only the step law; truncate it with truncate='mixture'")
        own = getattr(conditional, "process", process)  # a classifier's answers are about one process
        if not (torch.equal(own.schedule.keep, process.schedule.keep) and torch.equal(own.noise.probs, process.noise.probs)):
            raise ValueError("the classifier was made for another process than the chain's; give it this one")


def check_options(options: Mapping[str, Any], vocab: int) -> None:
    """Refuse options that `run_chain` does not have or would refuse; for those that are kept with a model."""
    try:
        ChainOptions(**options).truncation.check_vocab(vocab)
    except TypeError as error:
        raise ValueError(f"the sampling options do not fit: {error}") from error
