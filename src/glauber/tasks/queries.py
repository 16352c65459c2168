"""What a model says of single sites, and of whole rows, beside drawing them."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from glauber.conditional import CausalConditional, StepLaw
from glauber.sampler import Sampler

ROWS = 64  # sequences sent through the network at once


@torch.no_grad()
def row_laws(sampler: Sampler, x: Tensor, text: Tensor, site: Tensor, before: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """The law (r, V) of one site of each row given the others, and the token (r, 1) there; so many rows at a time.

    Args:
        x, text: (R, L) tokens, and which sites are there.
        site: (R,) of each row.
        before: given the sites before it alone, for a sampler that knows the likelihood.
    """
    schedule, conditional = sampler.process.schedule, sampler.conditional(both_ways=not before)
    rank, device = schedule.order.argsort(), schedule.order.device  # the step of each site's first visit
    for first in range(0, len(x), ROWS):
        part = slice(first, first + ROWS)
        state, clean, s = x[part].to(device), text[part].to(device).double(), site[part, None].to(device)
        with sampler.evaluating():
            if before:
                assert isinstance(conditional, CausalConditional)
                law = conditional.laws(state, s)
            else:
                knows = conditional.step_law if isinstance(conditional, StepLaw) else conditional
                law = knows(state, rank[s[:, 0]], clean, s)
        yield law.double().softmax(-1)[:, 0].cpu(), state.gather(1, s).cpu()


def site_laws(sampler: Sampler, x: Tensor, text: Tensor, sites: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """The law (V,) of each of the sites in each row given the others, and the token (1,) there: so many of them at a time."""
    row, site = (part.flatten() for part in torch.meshgrid(torch.arange(len(x)), torch.tensor(sites), indexing="ij"))
    row = row.to(x.device)
    return row_laws(sampler, x[row], text.expand(x.shape).to(x.device)[row], site)


def site_probabilities(sampler: Sampler, x: Tensor, text: Tensor, sites: Sequence[int]) -> Tensor:
    """(rows, sites) P(x_site | every other site of the text), one network call for each; text (L,) bool says which are."""
    found = [law.gather(1, token).squeeze(1) for law, token in site_laws(sampler, x, text, sites)]
    return torch.cat([torch.zeros(0, dtype=torch.float64), *found]).view(len(x), len(sites))


def text_nats(sampler: Sampler, x: Tensor) -> Tensor:
    """(rows, n) -log P of each token of texts (rows, n) given those before it, in windows of L where the text is longer."""
    L, n = sampler.length, x.shape[1]
    windows = torch.nn.functional.pad(x, (0, -n % L)).view(-1, L)
    return -sampler.log_likelihoods(windows).view(len(x), -1)[:, :n]
