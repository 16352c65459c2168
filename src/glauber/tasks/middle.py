"""Fill a gap with an autoregressive model that learned the middle last (`train.fim`).

It is shown what stands before and what stands behind, and writes the middle from left to right, until it ends it or until the
middle has the length that is wanted.
"""

import torch
from torch import Tensor

from glauber.chain.options import ChainOptions
from glauber.conditional import CausalConditional
from glauber.conditional.transformer import Cache
from glauber.process.draws import Generator, categorical, uniform
from glauber.sampler import Sampler


@torch.no_grad()
def fill_middle(
    sampler: Sampler,
    before: Tensor,
    behind: Tensor,
    end: int,
    size: int | None = None,
    generator: Generator | None = None,
) -> list[list[int]]:
    """The middle of each row, as tokens without the `end`; of `size` tokens each, or as long as the model makes them.

    Args:
        before, behind: (rows, n) and (rows, m) given tokens. They must leave room for a middle in the model's L.
    """
    causal = sampler.conditional()
    if not isinstance(causal, CausalConditional):
        raise ValueError("this model has not learned the middle of a text; train one with method=ar and train.fim=0.5")
    network, num = causal.network, len(before)
    room = sampler.length - before.shape[1] - behind.shape[1] - 2  # for two marks
    if (size or 1) > room:
        raise ValueError(f"the text leaves {max(0, room)} of this model's {sampler.length} tokens; give less around the gap")
    device = sampler.schedule.order.device
    mark = torch.full((num, 1), network.begin)
    slots = torch.cat([mark, before, mark, behind, mark], dim=1).to(device)
    truncation = ChainOptions(**sampler.plan.options).truncation
    cache, made = Cache(network, num), torch.zeros(num, 0, dtype=torch.int64, device=device)
    with sampler.evaluating():
        for step in range(room if size is None else size):
            law = network.extend(slots, cache).double().log_softmax(-1)
            if size is not None:
                law[:, end] = -torch.inf
            weights = truncation(law, step, room)
            slots = categorical(weights, uniform((num,), generator, device))[:, None]
            made = torch.cat([made, slots], dim=1)
            if size is None and bool((made == end).any(1).all()):
                break
    return [_until(row, end) for row in made]


def _until(row: Tensor, end: int) -> list[int]:
    """The tokens before the first end."""
    tokens: list[int] = row.tolist()
    return tokens[: tokens.index(end)] if end in tokens else tokens
