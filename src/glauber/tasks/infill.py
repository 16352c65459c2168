"""Fill gaps in texts and rows of tokens, and continue a beginning; `template` says how a text with gaps becomes tokens.

A text shorter than the model's L stands at the start of a window whose other sites are absent: shown as noise that tells
nothing, and never drawn. That is exact, and what drawing and dropping them would give: the rows of the data begin and end
anywhere. (A classifier cannot be told; there they are drawn and dropped.) The chain stops when the last gap site has had its
last visit. A longer text is filled through a window of L tokens around each gap, the gaps from left to right; what is filled by
then counts as given, and gaps that are not are free.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.chain.driver import require_room
from glauber.codec import TextCodec
from glauber.method import Run
from glauber.process import Mask, Tokens, as_mask, as_tokens
from glauber.process.draws import Generator
from glauber.sampler import Sampler
from glauber.tasks.constraints import Choice, Constraints, Filling
from glauber.tasks.lengths import choosing
from glauber.tasks.queries import site_probabilities, text_nats
from glauber.tasks.steps import Draw, Steps, run_alone
from glauber.tasks.template import Filled, Pattern, Template, added_text, begin_with_space, join, read_pattern, template_of
from glauber.tasks.windows import Chosen, Watch, fill, through_windows, windows

JOINED, ONE_EACH = Constraints(), Choice()


def filling(
    sampler: Sampler,
    codec: TextCodec,
    text: str | Pattern,
    num: int = 1,
    generator: Generator | None = None,
    probabilities: bool = False,
    watch: Watch | None = None,
    progress: bool = False,
    constraints: Constraints = JOINED,
    choice: Choice = ONE_EACH,
) -> Steps[list[Filled]]:
    """The text with its gaps filled in, `num` times.

    Args:
        probabilities: of the tokens there, given all others and given those before.
        constraints: what a fill has to be.
        choice: among how many each is chosen.
    """
    pattern = text if isinstance(text, Pattern) else read_pattern(text, codec, sampler.length)
    made = choice.made(num)
    _require_ranked(sampler, made, choice)
    pattern = pattern.of_words(codec) if constraints.joined else pattern
    job = Filling(sampler, codec, constraints, generator, progress)
    if pattern.fixed:
        chosen = yield from through_windows(job, pattern, made, watch)
    elif watch is not None:
        raise ValueError("a gap of unknown length is filled many times at once, which cannot be watched; give its length")
    else:
        chosen = yield from choosing(job, pattern, made, choice.draws)
    weighed = (probabilities or choice.best_of is not None) and sampler.knows_likelihood
    filled = [_finished(sampler, codec, each, probabilities, weighed) for each in chosen]
    return filled if choice.best_of is None else sorted(filled, key=nats_per_character)[:num]


def nats_per_character(filled: Filled) -> float:
    """Of a text whose likelihood was worked out."""
    assert filled.nats is not None
    return filled.nats / max(1, len(filled.text))


def _require_ranked(sampler: Sampler, made: int, choice: Choice) -> None:
    """Refuse more fills than there is room for, or a rank by what the model does not know."""
    if choice.best_of is not None and not sampler.knows_likelihood:
        raise ValueError(
            "fills are ranked by the likelihood from left to right, which this model did not learn; leave best-of out"
        )
    require_room(made, sampler.process)


def _finished(sampler: Sampler, codec: TextCodec, chosen: Chosen, probabilities: bool, weighed: bool) -> Filled:
    """A chosen row as a text, with what was asked of its tokens."""
    template, row = chosen.template, chosen.row
    likely = _probabilities(sampler, template, row) if probabilities else None
    nats = text_nats(sampler, row[None])[0] if weighed else None
    joined = join(template, codec, row, likely, nats)
    return joined._replace(calls=chosen.calls, effective=chosen.effective)


def _probabilities(sampler: Sampler, template: Template, row: Tensor) -> Tensor:
    """(n,) P(token | every other token of its window) of the tokens in gaps; 0 elsewhere."""
    likely, L = torch.zeros(len(row), dtype=torch.float64), sampler.length
    for start, gaps in windows(len(row), L, template.gaps):
        x = row[start : start + L]
        padded, text = F.pad(x, (0, L - len(x))), torch.arange(L) < len(x)
        sites = [site for gap in gaps for site in range(gap.start, gap.stop)]
        likely[sites] = site_probabilities(sampler, padded[None], text, [site - start for site in sites])[0]
    return likely


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
