"""A label at every site, some rows taken apart: before, behind, and in the middle what is missing between them.

A causal network that has learned such rows fills a gap by going on behind "before | behind |": it has seen both sides. The row
loses its last three tokens, to hold two marks and the end of the middle. A mark is what the first slot of a causal network
holds. (Bavarian et al., 2022, where it is called fill-in-the-middle, in the order prefix, suffix, middle.)
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.conditional import Transformer
from glauber.objective.cross_entropy import linear_cross_entropy
from glauber.process import Process, Tokens, as_tokens
from glauber.process.draws import Generator, uniform

ADDED = 3
"""Sites of a row that marks and the end of the middle take."""
MARK, END = -1, -2


def middle(
    network: Transformer,
    process: Process,
    x0: Tokens,
    share: float,
    end: int,
    check: bool = True,
    generator: Generator | None = None,
) -> Tensor:
    """Predict every token of rows (B, L) from those before it, a `share` of the rows taken apart: mean cross-entropy.

    Args:
        end: the token that ends a middle, that of the end of a text. No middle goes on behind one.
    """
    x0 = process.check_tokens(x0) if check else as_tokens(x0)
    if x0.shape[1] <= ADDED:
        raise ValueError(f"rows to learn the middle of need more than {ADDED} tokens, not {x0.shape[1]}")
    x, counted = taken_apart(x0, share, end, process.vocab + 1, generator)

    def readout(h: Tensor, head: nn.Linear) -> Tensor:
        target = torch.where(counted, x, 0).flatten()
        none = torch.zeros_like(target)
        scale = counted.double().flatten() / x.numel()
        return linear_cross_entropy(h.flatten(0, 1), head.weight, head.bias, none, none.double(), target, scale)

    clean = torch.ones_like(x, dtype=torch.float64)
    loss: Tensor = network(x, torch.zeros_like(x[:, 0]), clean, readout=readout, causal_rows=len(x))
    return loss


def taken_apart(x0: Tensor, share: float, end: int, mark: int, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
    """Rows (B, L) of which a `share` is before, mark, behind, mark, middle, end; and which tokens are to be predicted."""
    B, L = x0.shape
    n = L - ADDED
    u = uniform((B, 3), generator, x0.device)
    first, last = ((u[:, 1:] * (n + 1)).long().clamp_max(n)).sort(1).values.T[..., None]
    site = torch.arange(L, device=x0.device)
    ends = torch.where((x0 == end) & (site >= first), site, n).amin(1, keepdim=True)
    last = torch.minimum(last, torch.maximum(ends, first))
    second = first + 1 + n - last  # where the second mark stands
    source = torch.where(site < first, site, last + site - first - 1)
    source = torch.where(site > second, first + site - second - 1, source)
    source = torch.where((site == first) | (site == second), MARK, source)
    source = F.pad(source[:, :-1], (0, 1), value=END)
    moved = x0.gather(1, source.clamp_min(0))
    moved = torch.where(source == MARK, mark, torch.where(source == END, end, moved))
    chosen = u[:, :1] < share
    return torch.where(chosen, moved, x0), ~chosen | (source != MARK)
