"""Fill gaps in a text, and vary a text.

Each given piece of the text is encoded on its own, a gap [[n]] is n free sites, and the result is put together from the input
and the decoded gaps: what was given is never decoded, so it stays as it was to the byte.

Where a tokenizer joins a space with the word that follows (" times" is one token), the space that ends a piece would be a token
that the network has never seen before a word. It is left to the gap, whose first token must then begin with a space. No gap
holds the end-of-text token: a gap of n tokens is n tokens of text. Both are bans at single sites, and like any ban they leave
the exact law P*(gap | given) on purpose.

A text shorter than the model's L stands at the start of a window whose other sites are absent: shown as noise that tells
nothing, and never drawn. That is exact, and what drawing and dropping them would give: the rows of the data begin and end
anywhere. (A classifier cannot be told; there they are drawn and dropped.) The chain stops when the last gap site has had its
last visit. A longer text is filled through a window of L tokens around each
gap, the gaps from left to right; what is filled by then counts as given, and gaps that are not are free.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.chain.driver import OnStep, require_room
from glauber.codec import TextCodec, TokenizerCodec
from glauber.conditional import CLASSIFIERS, StepLaw
from glauber.process import Mask, Schedule, Tokens, as_mask, as_tokens
from glauber.process.draws import uniform

if TYPE_CHECKING:
    from glauber.model import Model

GAP = re.compile(r"\\\[\[|\[\[([0-9]+)\]\]|\[\[(?!\[)")  # an escaped [[, a gap, or a [[ that is neither
CONTEXT = 16  # tokens before a gap that tell how it is decoded
ASKED = 64  # sequences sent through the network at once for the probabilities

_TEXTS: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()  # of a codec that was asked before

SWEEPS = 4
"""Of a variation by a model whose own chain reads."""

OURS = ("clamp", "absent", "start", "stop")
"""Options of `run_chain` that are set here."""

Watch = Callable[[Tensor, int, int], OnStep]
"""Called for each window with the given sites (L,), how many sites are text, and the last step; makes its chain's `on_step`."""


class Gap(NamedTuple):
    """One gap as it was filled."""

    text: str
    tokens: list[int]
    pieces: list[str]
    """The text of each token; "�" where it is a part of a character."""
    probabilities: list[float] | None
    """P(token | all else of the text in the window) by the model, without temperature, truncation or bans."""


class Filled(NamedTuple):
    """A text with its gaps filled in."""

    text: str
    gaps: list[Gap]


@dataclass(frozen=True)
class Template:
    """A text with gaps, as tokens.

    Args:
        pieces: the given text before, between and after the gaps.
        tokens: (n,) those of the pieces, 0 in the gaps.
        gaps: where they are among the tokens.
        held: for each gap, whether the space before it is left to its first token.
    """

    pieces: list[str]
    tokens: Tensor
    gaps: list[slice]
    held: list[bool]

    @property
    def given(self) -> Tensor:
        """(n,) bool."""
        given = torch.ones(len(self.tokens), dtype=torch.bool)
        for gap in self.gaps:
            given[gap] = False
        return given

    def rules(self, codec: TextCodec) -> list[Rule]:
        """What no gap may hold; the sites are those of the text."""
        first = torch.zeros(len(self.tokens), dtype=torch.bool)
        first[[gap.start for gap, held in zip(self.gaps, self.held, strict=True) if held]] = True
        return [(~self.given, only_end(codec)), *([(first, ~begin_with_space(codec))] if any(self.held) else [])]


def fill_text(
    model: "Model",
    text: str,
    num: int = 1,
    seed: int | None = None,
    probabilities: bool = False,
    watch: Watch | None = None,
    **options: Any,
) -> list[Filled]:
    """The text with its gaps [[n]] filled in, `num` times. Options as for `Model.sample_tokens`."""
    codec = require_text_codec(model)
    template = read_template(text, codec, model.process.length)
    refuse_own(options, "infill", OURS)
    generator, schedule = new_generator(seed), _schedule(model, options)
    L, n = model.process.length, len(template.tokens)
    if num < 0:
        raise ValueError(f"cannot make {num} fills; ask for a whole number, 0 or more")
    require_room(num, model.process)
    x, given = template.tokens.repeat(num, 1), template.given
    likely = torch.zeros(x.shape, dtype=torch.float64)
    for start, gaps in windows(n, L, template.gaps):
        here = slice(start, start + L)
        missing = L - len(given[here])  # sites of the window beyond the text
        fixed = F.pad(given[here], (0, missing))
        rules = [(F.pad(sites[here], (0, missing)), barred) for sites, barred in template.rules(codec)]
        wanted = torch.zeros(L, dtype=torch.bool)
        for gap in gaps:
            wanted[gap.start - start : gap.stop - start] = True
        stop = schedule.settled(wanted)
        if watch is not None:
            options["on_step"] = watch(fixed, L - missing, stop)
        clamp = fixed, F.pad(x[:, here], (0, missing))
        filled = model.run(num, generator, rules, clamp=clamp, stop=stop, **_beyond_text(model, L - missing), **options).cpu()
        if probabilities:
            law = site_probabilities(model, filled, fixed | wanted, wanted.nonzero().flatten().tolist())
            likely[:, torch.cat([torch.arange(gap.start, gap.stop) for gap in gaps])] = law
        for gap in gaps:
            x[:, gap] = filled[:, gap.start - start : gap.stop - start]
            given[gap] = True
    return [join(template, codec, row, law if probabilities else None) for row, law in zip(x, likely, strict=True)]


def continue_text(
    model: "Model", prompt: str, num: int = 1, seed: int | None = None, watch: Watch | None = None, **options: Any
) -> tuple[list[str], Tensor]:
    """Samples that begin with the prompt, and their tokens (num, L): a row of which the first tokens are given.

    The end of a text may come, and what follows it, as in any sample. Options as for `Model.sample_tokens`.
    """
    codec, L = require_text_codec(model), model.process.length
    refuse_own(options, "a prompt", OURS)
    if not prompt:
        raise ValueError("the prompt is empty; write how the samples begin, or leave it out")
    begun = _template([prompt, ""], [1], codec)
    n = len(begun.tokens) - 1
    if n >= L:
        raise ValueError(f"the prompt has {n} tokens, and this model's rows only {L}; give a shorter one")
    tokens, given = F.pad(begun.tokens, (0, L - n - 1)), torch.arange(L) < n
    if watch is not None:
        options["on_step"] = watch(given, L, 0)
    rules = [(torch.arange(L) == n, ~begin_with_space(codec))] if begun.held[0] else []
    rows = model.run(num, new_generator(seed), rules, clamp=(given, tokens), **options).cpu()
    texts = []
    for ids in rows.tolist():
        fill = _beyond(codec.decode(ids), codec.decode(ids[:n]), codec, ids[n:])
        texts.append(prompt + (fill.removeprefix(" ") if begun.held[0] else fill))
    return texts, rows


def fill_tokens(
    model: "Model", tokens: Tokens, mask: Mask, num: int | None = None, seed: int | None = None, **options: Any
) -> Tensor:
    """Tokens with those where the mask is true drawn anew, see `Model.infill_tokens`."""
    L = model.process.length
    tokens, mask = as_tokens(tokens).cpu(), as_mask(mask, "infilling").cpu()
    grid = model.network.config.grid
    rows, hole = _flat(tokens, grid), _flat(mask, grid)
    if rows.dim() not in (1, 2) or not 0 < rows.shape[-1] <= L or not len(rows):
        raise ValueError(f"this model takes rows of at most {L} tokens, not an array of shape {tuple(tokens.shape)}")
    if hole.shape not in (rows.shape, rows.shape[-1:]):
        raise ValueError(f"the mask has shape {tuple(mask.shape)}, the tokens {tuple(tokens.shape)}; they must agree")
    if not bool(mask.any()):
        raise ValueError("the mask is nowhere true, so there is nothing to fill in")
    refuse_own(options, "infill", OURS)
    hole, fills = hole.expand(rows.shape).reshape(-1, rows.shape[-1]), 1 if num is None else num
    rows = rows.reshape(hole.shape)
    require_room(fills * len(rows), model.process)
    missing = L - rows.shape[-1]
    given = F.pad(~hole, (0, missing))
    clamp = given.repeat(fills, 1), F.pad(rows, (0, missing)).repeat(fills, 1)
    wanted = ~given.all(0) & (torch.arange(L) < rows.shape[-1])
    stop = _schedule(model, options).settled(wanted)
    away = _beyond_text(model, rows.shape[-1])
    filled = model.run(fills * len(rows), new_generator(seed), clamp=clamp, stop=stop, **away, **options).cpu()
    return filled[:, : rows.shape[-1]].reshape(tokens.shape if num is None else (num, *tokens.shape))


def _flat(x: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """What lies on the grid, line by line."""
    return x.flatten(-2) if grid is not None and x.shape[-2:] == tuple(grid) else x


def vary_text(
    model: "Model",
    text: str,
    t: int,
    num: int = 1,
    seed: int | None = None,
    sweeps: int | None = None,
    block: int | None = None,
    order: str | None = None,
    **options: Any,
) -> list[str]:
    """`num` variations of a text: it is noised as far as step t of the schedule, and the chain runs back from there.

    The sites beyond a text shorter than L are absent; a classifier, which cannot be told, first gives the text a continuation,
    which is noised with it and dropped in the end. A model whose own chain reads uses SWEEPS sweeps instead.

    The kernel is "reversal" if not told: it weighs the token that stands at a site, where the heat bath forgets it, so that
    much of the text comes back.
    """
    codec = require_text_codec(model)
    refuse_own(options, "vary", OURS)
    if model.objective not in CLASSIFIERS:
        options = {"kernel": "reversal"} | model.sampling | options
    tokens = torch.tensor(codec.encode(text), dtype=torch.int64)
    L, n = model.process.length, len(tokens)
    if not n:
        raise ValueError("the text is empty; give one to vary")
    if n > L:
        raise ValueError(f"the text has {n} tokens, more than this model's {L}; vary a shorter piece of it")
    if num < 0:
        raise ValueError(f"cannot make {num} variations; ask for a whole number, 0 or more")
    require_room(num, model.process)
    sweeps = sweeps_to_vary(model, sweeps)
    generator, schedule = new_generator(seed), model.schedule(sweeps, block, order)
    times = model.process.check_times(t, num, schedule.steps)
    x, away = F.pad(tokens, (0, L - n)).repeat(num, 1).to(model.device), _beyond_text(model, n)
    if n < L and not away:
        site = torch.arange(L)
        unseen = {name: value for name, value in options.items() if name != "on_step"}
        clamp = site < n, F.pad(tokens, (0, L - n))
        x = model.run(num, generator, (), sweeps, block, order, clamp=clamp, **unseen)
    alive = uniform(x.shape, generator, x.device) < schedule.survival(times)
    noise = model.process.noise
    mark_noise = (model.sampling | options).get("mark_noise", False)
    x = torch.where(alive, x, noise.mask if mark_noise else noise.sample(x.shape, generator))
    x = model.run(
        None, generator, [(torch.arange(L) < n, only_end(codec))], sweeps, block, order, start=(x, t), **away, **options
    )
    return [codec.decode(row[:n]) for row in x.tolist()]


def sweeps_to_vary(model: "Model", sweeps: int | None) -> int | None:
    """Those asked for; else the model's own, or some where its own chain reads, which would noise the end of the row alone."""
    return SWEEPS if sweeps is None and model.process.schedule.causal else sweeps


def read_template(text: str, codec: TextCodec, length: int) -> Template:
    """The pieces and gaps of a text, as tokens; no gap may be longer than `length`."""
    pieces, sizes = split_gaps(text)
    if max(sizes) > length:
        raise ValueError(f"a gap of {max(sizes)} tokens is longer than this model's {length}; ask for at most {length}")
    return _template(pieces, sizes, codec)


def _template(pieces: list[str], sizes: list[int], codec: TextCodec) -> Template:
    """The pieces as tokens, with gaps of these sizes between."""
    bodies, held = list(pieces), []
    for k, piece in enumerate(pieces[:-1]):
        joins = piece.endswith(" ") and joins_spaces(codec)
        bodies[k] = piece[:-1] if joins else piece
        # A tokenizer may also drop the whitespace at the end of a piece; then the gap's first token stands for it.
        held.append(joins or (piece[-1:].isspace() and not codec.decode(codec.encode(piece))[-1:].isspace()))
    tokens: list[int] = []
    gaps = []
    for ids, size in zip(codec.encode_batch(bodies), [*sizes, 0], strict=True):
        gaps.append(slice(len(tokens) + len(ids), len(tokens) + len(ids) + size))
        tokens += [*ids, *[0] * size]
    return Template(pieces, torch.tensor(tokens, dtype=torch.int64), gaps[:-1], held)


def split_gaps(text: str) -> tuple[list[str], list[int]]:
    r"""The given pieces, one more than there are gaps, and the sizes of the gaps. A plain [[ is written \[[.

    Gaps with nothing between them are one gap.
    """
    if not text:
        raise ValueError("the text is empty; write some, with [[12]] where 12 tokens are missing")
    pieces, last = [""], 0
    sizes: list[int] = []
    for found in GAP.finditer(text):
        pieces[-1] += text[last : found.start()]
        last = found.end()
        if found[0] == "\\[[":
            pieces[-1] += "[["
        elif found[1] is None:
            around = text[found.start() : found.start() + 12]
            raise ValueError(rf"{around!r} is no gap; write [[12]] where 12 tokens are missing, and \[[ for a plain [[")
        elif len(found[1]) > 18:
            raise ValueError("a gap of so many tokens is longer than any text; write [[12]] where 12 tokens are missing")
        elif int(found[1]) == 0:
            raise ValueError("a gap has at least one token; write [[1]] or more, not [[0]]")
        elif sizes and not pieces[-1]:
            sizes[-1] += int(found[1])
        else:
            sizes.append(int(found[1]))
            pieces.append("")
    pieces[-1] += text[last:]
    if not sizes:
        raise ValueError("the text has no gap; write [[12]] where 12 tokens are missing")
    return pieces, sizes


def windows(n: int, length: int, gaps: Sequence[slice]) -> list[tuple[int, list[slice]]]:
    """Where each window of L tokens starts, and the gaps that are filled through it."""
    if n <= length:
        return [(0, list(gaps))]
    return [(min(max((gap.start + gap.stop - length) // 2, 0), n - length), [gap]) for gap in gaps]


def join(template: Template, codec: TextCodec, row: Tensor, likely: Tensor | None) -> Filled:
    """The given pieces, with what the gaps' tokens say in their context between them."""
    ids: list[int] = row.tolist()
    text, gaps = template.pieces[0], []
    for k, gap in enumerate(template.gaps):
        since = max(0, gap.start - CONTEXT)
        said = [codec.decode(ids[since:stop]) for stop in range(gap.start, min(gap.stop + 2, len(ids) + 1))]
        parts = [_beyond(now, before, codec, [token]) for before, now, token in zip(said, said[1:], ids[gap], strict=False)]
        before, through, after = said[0], said[gap.stop - gap.start], said[-1]
        fill = _beyond(through, before, codec, ids[gap])
        if template.held[k]:
            fill = fill.removeprefix(" ")
        given = template.pieces[k + 1]
        if after.removeprefix(through)[:1] == " " and given and not given[0].isspace():
            fill += " "  # the tokenizer says a space where the given piece has none
        gaps.append(Gap(fill, ids[gap], parts, None if likely is None else likely[gap].tolist()))
        text += fill + given
    return Filled(text, gaps)


def _beyond(text: str, before: str, codec: TextCodec, ids: list[int]) -> str:
    """What the tokens add to the text before them; what they say alone where they change it."""
    return text.removeprefix(before) if text.startswith(before) else codec.decode(ids)


@torch.no_grad()
def site_probabilities(model: "Model", x: Tensor, text: Tensor, sites: Sequence[int]) -> Tensor:
    """(rows, sites) P(x_site | every other site of the text), one network call for each; text (L,) bool says which are."""
    schedule, conditional = model.process.schedule, model.conditional_for(model.process, gaps=True)
    knows = conditional.step_law if isinstance(conditional, StepLaw) else conditional
    rank = schedule.order.argsort()  # the step of each site's first visit
    row, site = (
        part.flatten().to(model.device) for part in torch.meshgrid(torch.arange(len(x)), torch.tensor(sites), indexing="ij")
    )
    found = []
    with model.evaluating():
        for part in range(0, len(row), ASKED):
            r, s = row[part : part + ASKED], site[part : part + ASKED, None]
            state = x.to(model.device)[r]
            clean = text.to(state.device).double().expand(state.shape)
            law = knows(state, rank[s[:, 0]], clean, s).double().softmax(-1)[:, 0]
            found.append(law.gather(1, state.gather(1, s)).squeeze(1).cpu())
    return torch.cat([torch.zeros(0, dtype=torch.float64), *found]).view(len(x), len(sites))


def token_texts(codec: TextCodec) -> tuple[str, ...]:
    """The text of each token, as it stands after a word."""
    if codec not in _TEXTS:
        before = codec.encode("a") if isinstance(codec, TokenizerCodec) else []
        word = codec.decode(before)
        _TEXTS[codec] = tuple(codec.decode([*before, token]).removeprefix(word) for token in range(codec.vocab))
    return _TEXTS[codec]


def joins_spaces(codec: TextCodec) -> bool:
    """Whether some token is a space with something after it."""
    return any(text.startswith(" ") and text.strip() for text in token_texts(codec))


def begin_with_space(codec: TextCodec) -> Tensor:
    """(V,) bool, those tokens that do."""
    return torch.tensor([text.startswith(" ") for text in token_texts(codec)])


def only_end(codec: TextCodec) -> Tensor:
    """(V,) bool, the end-of-text token."""
    return torch.arange(codec.vocab) == codec.end


def require_text_codec(model: "Model") -> TextCodec:
    """The model's text codec; refused where it has none."""
    codec = model.text_codec
    if codec is None:
        raise ValueError("this model has no text codec; give it images or tokens instead")
    return codec


def _beyond_text(model: "Model", size: int) -> dict[str, Any]:
    """The option of `run_chain` for a text of so many tokens at the start of the row."""
    if model.objective in CLASSIFIERS or model.network.config.conditioning == "time":
        return {}
    return {"absent": torch.arange(model.process.length) >= size}


def _schedule(model: "Model", options: dict[str, Any]) -> Schedule:
    return model.schedule(options.get("sweeps"), options.get("block"), options.get("order"))


def refuse_own(options: dict[str, Any], what: str, names: Sequence[str]) -> None:
    """Some options of `run_chain` are set here."""
    for name in names:
        if name in options:
            raise ValueError(f"{what} sets the chain's {name} itself; run_chain takes one of your own")


def new_generator(seed: int | None) -> torch.Generator | None:
    """None for fresh randomness."""
    if seed is None:
        return None
    if not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, or None for fresh randomness, not {seed}")
    return torch.Generator().manual_seed(int(seed))
