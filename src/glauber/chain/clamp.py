"""Sites that the chain must not touch."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from glauber.process import Process

RULES = ("exact", "paper")

Clamp = Mapping[int, int] | tuple[Tensor | Sequence[bool], Tensor | Sequence[int]]
"""{site: token}, or a mask and tokens of shape (L,) or (rows, L)."""


def is_beginning(clamp: Clamp) -> bool:
    """Whether what is given stands before all that is not, so that reading on is enough."""
    if isinstance(clamp, Mapping):
        return set(clamp) == set(range(len(clamp)))
    given = torch.as_tensor(clamp[0]).long()
    return torch.equal(given.cummin(-1).values, given)


def clamped_sites(clamp: Clamp | None, process: Process, rows: int) -> tuple[Tensor, Tensor]:
    """Which sites are given, bool (rows, L), and the tokens given there, int64 (rows, L), 0 elsewhere."""
    L, device = process.length, process.noise.probs.device
    given = torch.zeros(rows, L, dtype=torch.bool, device=device)
    tokens = torch.zeros(rows, L, dtype=torch.int64, device=device)
    if clamp is None:
        return given, tokens
    if isinstance(clamp, Mapping):
        for site, token in clamp.items():
            if not isinstance(site, int) or not 0 <= site < L:
                raise ValueError(f"clamped site {site} is outside the sequence 0..{L - 1}")
            if not isinstance(token, int):
                raise ValueError(f"the token clamped at site {site} must be a whole number, not {token}")
            given[:, site], tokens[:, site] = True, token
    else:
        mask, values = (torch.as_tensor(part).to(device) for part in clamp)
        for part in (mask, values):
            if part.shape not in ((L,), (rows, L)):
                raise ValueError(f"clamp needs a mask and tokens of shape ({L},) or ({rows}, {L}), not {tuple(part.shape)}")
        if mask.dtype != torch.bool or values.is_floating_point():
            raise ValueError("clamp needs a mask of booleans and tokens of whole numbers")
        given = mask.expand(rows, L)
        tokens = torch.where(given, values.long(), 0)
    process.check_tokens(tokens)
    return given, tokens
