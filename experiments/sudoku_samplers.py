"""Ways to fill a puzzle in that the library does not have: the most certain cell first, and UDLM with the givens put back.

Shapes: B puzzles, L cells, V digits. `given` (B, L) bool, `tokens` (B, L).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.method.udlm import UDLM
from glauber.model import Model
from glauber.process.draws import Generator, categorical, uniform


class Filled(NamedTuple):
    """Whole grids, and the network calls of each."""

    tokens: Tensor
    calls: float


@torch.no_grad()
def certain_first(
    model: Model, given: Tensor, tokens: Tensor, sweeps: int, block: int, generator: Generator | None = None
) -> Filled:
    """Sweeps with marked noise, each of which visits the cells that are surest now, `block` of them a call.

    A visit of sweep r of K redraws the cell given all others, and leaves it noise with probability 1 - r/K. One sweep is masked
    diffusion that unmasks where it is most certain.
    """
    mask = model.process.noise.mask
    x = torch.where(given, tokens, mask)
    most, calls = int((~given).sum(1).max()), 0
    for sweep in range(1, sweeps + 1):
        due = ~given
        for _ in range(0, most, block):
            law = all_laws(model, x)
            calls += 1
            sure = torch.where(due, law.amax(-1), -1.0)
            value, sites = sure.topk(min(block, x.shape[1]))
            coin, draw = uniform((2, *sites.shape), generator, x.device, rows=1)
            drawn = categorical(law.gather(1, sites[..., None].expand(-1, -1, law.shape[-1])), draw)
            new = torch.where(coin < sweep / sweeps, drawn, mask)
            x = x.scatter(1, sites, torch.where(value >= 0, new, x.gather(1, sites)))
            due = due.scatter(1, sites, False)
    return Filled(x, float(calls))


def all_laws(model: Model, x: Tensor) -> Tensor:
    """(B, L, V) of every cell given the others: what the network says of a cell without its own token as evidence."""
    survival = (x != model.process.noise.mask).double()
    logits = model.network(x, torch.zeros_like(x[:, 0]), survival)
    law: Tensor = logits.double().softmax(-1)
    return law


@torch.no_grad()
def udlm_with_givens(model: Model, given: Tensor, tokens: Tensor, calls: int, generator: Generator | None = None) -> Filled:
    """UDLM's own steps, after each of which the givens stand as they were. Nothing says that this has the exact law."""
    method: Any = model.method
    assert isinstance(method, UDLM)
    x = torch.where(given, tokens, method.start(model.process, len(given), generator))
    for k in range(calls):
        law = method.law(model.network, model.process, x, 1 - k / calls, (calls - k - 1) / calls, "ancestral")
        x = torch.where(given, tokens, categorical(law, uniform(x.shape, generator, x.device)))
    return Filled(x, float(calls))
