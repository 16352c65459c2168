"""Tokens that some sites must not hold: a ban that depends on the site, and on the row if need be.

Like any ban it is a truncation of the clean conditional (or of the step law), site by site, and not the exact law of the chain
given that no barred token occurs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Rule = tuple[Tensor, Tensor]
"""Sites, (L,) or (rows, L), and the tokens (V,) that they must not hold, both bool."""


def without_barred(log_law: Tensor, sites: Tensor, rules: Sequence[Rule], rows: Tensor) -> Tensor:
    """(R, b, V) log-probabilities at the sites (R, b) of the rows (R,), normalised again."""
    if not rules:
        return log_law
    for places, barred in rules:
        here = places[sites] if places.dim() == 1 else places[rows].gather(1, sites)
        log_law = log_law.masked_fill(here[..., None] & barred, -torch.inf)
    return log_law.log_softmax(-1)


def rules_on(device: torch.device, rules: Sequence[Rule]) -> list[Rule]:
    """The rules, there."""
    return [(places.to(device), barred.to(device)) for places, barred in rules]
