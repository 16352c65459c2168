"""Tokens that some sites must not hold: a ban that depends on the site.

Like any ban it is a truncation of the clean conditional (or of the step law), site by site, and not the exact law of the chain
given that no barred token occurs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from glauber.conditional import Conditional, StepLaw

Rule = tuple[Tensor, Tensor]
"""Sites (L,) and the tokens (V,) that they must not hold, both bool."""


def restrict(conditional: Conditional | StepLaw, rules: Sequence[Rule]) -> Conditional | StepLaw:
    """The conditional without the tokens that the rules bar, its answers normalised again."""
    if not rules:
        return conditional
    return _StepLaw(conditional, rules) if isinstance(conditional, StepLaw) else WithoutBanned(conditional, rules)


class WithoutBanned:
    """A clean conditional under rules."""

    def __init__(self, conditional: Conditional, rules: Sequence[Rule]):
        self.conditional, self.rules = conditional, list(rules)

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        self.rules = [(places.to(x.device), barred.to(x.device)) for places, barred in self.rules]  # moved once
        return _without(self.conditional(x, t, survival, sites), sites, self.rules)


class _StepLaw:
    def __init__(self, conditional: StepLaw, rules: Sequence[Rule]):
        self.conditional, self.rules = conditional, rules
        if hasattr(conditional, "process"):  # a classifier's answers are about one process
            self.process = conditional.process

    def step_law(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        return _without(self.conditional.step_law(x, t, survival, sites), sites, self.rules)


def _without(log_law: Tensor, sites: Tensor, rules: Sequence[Rule]) -> Tensor:
    """(B, b, V) log-probabilities at the sites (B, b)."""
    for places, barred in rules:
        here = places.to(sites.device)[sites]
        log_law = log_law.masked_fill(here[..., None] & barred.to(sites.device), -torch.inf)
    return log_law.log_softmax(-1)
