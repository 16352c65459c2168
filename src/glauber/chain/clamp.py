"""Sites that the chain must not touch."""

from collections.abc import Mapping
from numbers import Integral

import torch
from torch import Tensor

from glauber.process import Mask, Process, Tokens, as_mask, as_tokens

RULES = ("exact", "paper")

Clamp = Mapping[int, int] | tuple[Mask, Tokens]
"""{site: token}, or a mask and tokens of shape (L,) or (rows, L)."""


def is_beginning(clamp: Clamp) -> bool:
    """Whether what is given stands before all that is not, so that a causal conditional is enough."""
    if isinstance(clamp, Mapping):
        return set(clamp) == set(range(len(clamp)))
    given = as_mask(clamp[0], "clamp").long()
    return torch.equal(given.cummin(-1).values, given)


def clamped_sites(clamp: Clamp | None, process: Process, rows: int) -> tuple[Tensor, Tensor]:
    """Which sites are given, bool (rows, L), and the tokens given there, int64 (rows, L), elsewhere the least of the site."""
    L, device = process.length, process.noise.probs.device
    given = torch.zeros(rows, L, dtype=torch.bool, device=device)
    least = torch.zeros(L, dtype=torch.int64, device=device)
    if process.noise.allowed is not None:
        least = process.noise.allowed.int().argmax(1)
    tokens = least.repeat(rows, 1)
    if clamp is None:
        return given, tokens
    if isinstance(clamp, Mapping):
        for site, token in clamp.items():
            if not isinstance(site, Integral) or not 0 <= site < L:
                raise ValueError(f"clamped site {site} is outside the sequence 0..{L - 1}")
            if not isinstance(token, Integral):
                raise ValueError(f"the token clamped at site {site} must be a whole number, not {token}")
            given[:, int(site)], tokens[:, int(site)] = True, int(token)
    else:
        mask, values = as_mask(clamp[0], "clamp").to(device), as_tokens(clamp[1]).to(device)
        for part in (mask, values):
            if part.shape not in ((L,), (rows, L)):
                raise ValueError(f"clamp needs a mask and tokens of shape ({L},) or ({rows}, {L}), not {tuple(part.shape)}")
        given = mask.expand(rows, L)
        tokens = torch.where(given, values, least)
    return given, process.check_tokens(tokens)
