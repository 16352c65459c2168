"""Fill gaps in texts and rows of tokens, and continue a beginning; `template` says how a text with gaps becomes tokens.

A text shorter than the model's L stands at the start of a window whose other sites are absent: shown as noise that tells
nothing, and never drawn. That is exact, and what drawing and dropping them would give: the rows of the data begin and end
anywhere. (A classifier cannot be told; there they are drawn and dropped.) The chain stops when the last gap site has had its
last visit. A longer text is filled through a window of L tokens around each gap, the gaps from left to right; what is filled by
then counts as given, and gaps that are not are free.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.chain.driver import OnStep, require_room
from glauber.codec import TextCodec
from glauber.conditional import StepLaw
from glauber.method import Run
from glauber.process import Mask, Tokens, as_mask, as_tokens
from glauber.process.draws import Generator
from glauber.sampler import Sampler
from glauber.tasks.steps import Draw, Steps, run_alone
from glauber.tasks.template import Filled, Template, added_text, begin_with_space, join, read_template, template_of

ROWS = 64  # sequences sent through the network at once for the probabilities

Watch = Callable[[Tensor, int, int], OnStep]
"""Called for each window with the given sites (L,), how many sites are text, and the last step; makes its chain's `on_step`."""


def filling(
    sampler: Sampler,
    codec: TextCodec,
    text: str,
    num: int = 1,
    generator: Generator | None = None,
    probabilities: bool = False,
    watch: Watch | None = None,
    progress: bool = False,
) -> Steps[list[Filled]]:
    """The text with its gaps [[n]] filled in, `num` times; with the `probabilities` of the tokens there, if asked for."""
    template, L = read_template(text, codec, sampler.length), sampler.length
    if num < 0:
        raise ValueError(f"cannot make {num} fills; ask for a whole number, 0 or more")
    require_room(num, sampler.process)
    x, given = template.tokens.repeat(num, 1), template.given
    likely = torch.zeros(x.shape, dtype=torch.float64)
    for start, gaps in windows(len(template.tokens), L, template.gaps):
        window = Window(template, codec, given, start, gaps, L)
        on_step = None if watch is None else watch(window.given, window.size, sampler.schedule.settled(window.wanted))
        run = Run(generator, rules=window.rules, on_step=on_step, progress=progress)
        filled = yield from fill(sampler, window.given, window.rows(x), window.wanted, window.size, run)
        if probabilities:
            sites = window.wanted.nonzero().flatten().tolist()
            law = site_probabilities(sampler, filled, window.given | window.wanted, sites)
            likely[:, torch.cat([torch.arange(gap.start, gap.stop) for gap in gaps])] = law
        for gap in gaps:
            x[:, gap] = filled[:, gap.start - start : gap.stop - start]
            given[gap] = True
    return [join(template, codec, row, law if probabilities else None) for row, law in zip(x, likely, strict=True)]


class Window:
    """L sites of a text with gaps, from `start` on, of which some gaps are wanted.

    Attributes:
        size: how many sites are text; those beyond are absent.
        given, wanted: (L,) bool.
        rules: what the gaps may not hold.
    """

    def __init__(self, template: Template, codec: TextCodec, given: Tensor, start: int, gaps: Sequence[slice], length: int):
        self.here = slice(start, start + length)
        self.size = len(given[self.here])
        self.missing = length - self.size
        self.given = F.pad(given[self.here], (0, self.missing))
        self.rules = [(F.pad(sites[self.here], (0, self.missing)), barred) for sites, barred in template.rules(codec)]
        self.wanted = torch.zeros(length, dtype=torch.bool)
        for gap in gaps:
            self.wanted[gap.start - start : gap.stop - start] = True

    def rows(self, x: Tensor) -> Tensor:
        """(rows, L) of tokens of the whole text."""
        return F.pad(x[:, self.here], (0, self.missing))


def fill(sampler: Sampler, given: Tensor, x: Tensor, wanted: Tensor, size: int, run: Run) -> Steps[Tensor]:
    """(rows, L) tokens x with the sites that are not `given` drawn, until none of the `wanted` (L,) is visited any more.

    size: how many sites, from the first, are there at all.
    """
    stop = sampler.schedule.settled(wanted)
    rows = yield Draw(sampler, len(x), replace(run, clamp=(given, x), stop=stop, absent=beyond(sampler, size)))
    return rows.cpu()


def beyond(sampler: Sampler, size: int) -> Tensor | None:
    """(L,) bool, the absent sites of a row of so many tokens; None where the network cannot be told."""
    return torch.arange(sampler.length) >= size if sampler.knows_absent else None


def continuing(
    sampler: Sampler,
    codec: TextCodec,
    prompt: str,
    num: int = 1,
    generator: Generator | None = None,
    watch: Watch | None = None,
    progress: bool = False,
) -> Steps[tuple[list[str], Tensor]]:
    """Samples that begin with the prompt, and their tokens (num, L): a row of which the first tokens are given.

    The end of a text may come, and what follows it, as in any sample.
    """
    L = sampler.length
    if not prompt:
        raise ValueError("the prompt is empty; write how the samples begin, or leave it out")
    begun = template_of([prompt, ""], [1], codec)
    n = len(begun.tokens) - 1
    if n >= L:
        raise ValueError(f"the prompt has {n} tokens, and this model's rows only {L}; give a shorter one")
    tokens, given = F.pad(begun.tokens, (0, L - n - 1)), torch.arange(L) < n
    on_step = None if watch is None else watch(given, L, 0)
    rules = [(torch.arange(L) == n, ~begin_with_space(codec))] if begun.held[0] else []
    run = Run(generator, (given, tokens), rules=rules, on_step=on_step, progress=progress)
    rows = (yield Draw(sampler, num, run)).cpu()
    texts = []
    for ids in rows.tolist():
        added = added_text(codec.decode(ids), codec.decode(ids[:n]), codec, ids[n:])
        texts.append(prompt + (added.removeprefix(" ") if begun.held[0] else added))
    return texts, rows


def fill_tokens(
    sampler: Sampler,
    tokens: Tokens,
    mask: Mask,
    num: int | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Tensor:
    """Tokens with those where the mask is true drawn anew, see `Model.infill_tokens`."""
    L, grid = sampler.length, sampler.network.config.grid
    tokens, mask = as_tokens(tokens).cpu(), as_mask(mask, "infilling").cpu()
    rows, hole = _flat(tokens, grid), _flat(mask, grid)
    if rows.dim() not in (1, 2) or not 0 < rows.shape[-1] <= L or not len(rows):
        raise ValueError(f"this model takes rows of at most {L} tokens, not an array of shape {tuple(tokens.shape)}")
    if hole.shape not in (rows.shape, rows.shape[-1:]):
        raise ValueError(f"the mask has shape {tuple(mask.shape)}, the tokens {tuple(tokens.shape)}; they must agree")
    if not bool(mask.any()):
        raise ValueError("the mask is nowhere true, so there is nothing to fill in")
    hole, fills = hole.expand(rows.shape).reshape(-1, rows.shape[-1]), 1 if num is None else num
    rows = rows.reshape(hole.shape)
    require_room(fills * len(rows), sampler.process)
    size, missing = rows.shape[-1], L - rows.shape[-1]
    given, x = F.pad(~hole, (0, missing)).repeat(fills, 1), F.pad(rows, (0, missing)).repeat(fills, 1)
    wanted = F.pad(hole.any(0), (0, missing))
    filled = run_alone(fill(sampler, given, x, wanted, size, Run(generator, progress=progress)))
    return filled[:, :size].reshape(tokens.shape if num is None else (num, *tokens.shape))


def _flat(x: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """What lies on the grid, line by line."""
    return x.flatten(-2) if grid is not None and x.shape[-2:] == tuple(grid) else x


def windows(n: int, length: int, gaps: Sequence[slice]) -> list[tuple[int, list[slice]]]:
    """Where each window of L tokens starts, and the gaps that are filled through it."""
    if n <= length:
        return [(0, list(gaps))]
    return [(min(max((gap.start + gap.stop - length) // 2, 0), n - length), [gap]) for gap in gaps]


def site_probabilities(sampler: Sampler, x: Tensor, text: Tensor, sites: Sequence[int]) -> Tensor:
    """(rows, sites) P(x_site | every other site of the text), one network call for each; text (L,) bool says which are."""
    found = [law.gather(1, token).squeeze(1) for law, token in site_laws(sampler, x, text, sites)]
    return torch.cat([torch.zeros(0, dtype=torch.float64), *found]).view(len(x), len(sites))


@torch.no_grad()
def site_laws(sampler: Sampler, x: Tensor, text: Tensor, sites: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """The law (V,) of each of the sites in each row given the others, and the token (1,) there: so many of them at a time."""
    schedule, conditional = sampler.process.schedule, sampler.conditional(both_ways=True)
    knows = conditional.step_law if isinstance(conditional, StepLaw) else conditional
    rank = schedule.order.argsort()  # the step of each site's first visit
    device = schedule.order.device
    every = torch.meshgrid(torch.arange(len(x)), torch.tensor(sites), indexing="ij")
    row, site = (part.flatten().to(device) for part in every)
    for part in range(0, len(row), ROWS):
        r, s = row[part : part + ROWS], site[part : part + ROWS, None]
        state = x.to(device)[r]
        clean = text.to(device).double().expand(state.shape)
        with sampler.evaluating():
            law = knows(state, rank[s[:, 0]], clean, s).double().softmax(-1)[:, 0]
        yield law.cpu(), state.gather(1, s).cpu()
