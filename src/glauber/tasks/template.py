"""A text with gaps, as tokens: how it is read, and how the gaps' tokens become text again.

Each given piece of the text is encoded on its own, a gap [[n]] is n free sites, and the result is put together from the input
and the decoded gaps: what was given is never decoded, so it stays as it was to the byte.

Where a tokenizer joins a space with the word that follows (" times" is one token), the space that ends a piece would be a token
that the network has never seen before a word. It is left to the gap, whose first token must then begin with a space. No gap
holds the end-of-text token: a gap of n tokens is n tokens of text. Both are bans at single sites, and like any ban they leave
the exact law P*(gap | given) on purpose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.codec import TextCodec, TokenizerCodec
from glauber.tasks.gaps import Size, split_gaps

CONTEXT = 16  # tokens before a gap that tell how it is decoded

Found = TypeVar("Found")


def once_a_codec(function: Callable[[TextCodec], Found]) -> Callable[[TextCodec], Found]:
    """Work that out once for each codec, for as long as there is that codec."""
    known: WeakKeyDictionary[Any, Found] = WeakKeyDictionary()

    @wraps(function)
    def remembered(codec: TextCodec) -> Found:
        if codec not in known:
            known[codec] = function(codec)
        return known[codec]

    return remembered


class Gap(NamedTuple):
    """One gap as it was filled."""

    text: str
    tokens: list[int]
    pieces: list[str]
    """The text of each token; "�" where it is a part of a character."""
    probabilities: list[float] | None
    """P(token | all else of the text in the window) by the model, without temperature, truncation or bans."""
    nats: list[float] | None = None
    """-log P(token | all before it) by the model, of each token; None where it does not know that."""


class Filled(NamedTuple):
    """A text with its gaps filled in."""

    text: str
    gaps: list[Gap]
    nats: float | None = None
    """-log P of the whole text, each token given those before it; None where the model does not know it, or nobody asked."""
    calls: float | None = None
    """Network calls that were made for this fill."""
    effective: float | None = None
    """The effective sample size of the draws among which this fill was chosen, where a gap's length was drawn."""


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


@dataclass(frozen=True)
class Pattern:
    """A text with gaps, the tokens of its given pieces, and how long each gap may be.

    Args:
        bodies: the tokens of each piece.
        sizes: of each gap, the lengths that it may have.
        room: the most tokens that all gaps have together.
    """

    pieces: list[str]
    bodies: list[list[int]]
    held: list[bool]
    sizes: list[range]
    room: int

    def of_words(self, codec: TextCodec) -> "Pattern":
        """The same, where a gap at the very beginning begins with a word: its first token joins a space, which is dropped."""
        return replace(self, held=[(not self.pieces[0] and joins_spaces(codec)) or self.held[0], *self.held[1:]])

    @property
    def fixed(self) -> bool:
        """Whether each gap has one length."""
        return all(len(size) == 1 for size in self.sizes)

    def template(self, sizes: Sequence[int]) -> Template:
        """With gaps of these sizes."""
        tokens: list[int] = []
        gaps = []
        for ids, size in zip(self.bodies, [*sizes, 0], strict=True):
            gaps.append(slice(len(tokens) + len(ids), len(tokens) + len(ids) + size))
            tokens += [*ids, *[0] * size]
        return Template(self.pieces, torch.tensor(tokens, dtype=torch.int64), gaps[:-1], self.held)


def read_pattern(text: str, codec: TextCodec, length: int) -> Pattern:
    """The pieces and gaps of a text. No gap may be longer than `length`; with gaps of unknown length no text may be, either."""
    return pattern_of(*split_gaps(text), codec, length)


def pattern_of(pieces: list[str], sizes: Sequence[Size], codec: TextCodec, length: int) -> Pattern:
    """The same of pieces, one more than gaps, in which nothing is a gap."""
    for size in sizes:
        if (size.most or size.least) > length:
            of = f"{size.most or size.least} tokens"
            raise ValueError(f"a gap of {of} is longer than this model's {length}; ask for at most {length}")
    bodies, held = encode_pieces(pieces, codec)
    room = length - sum(map(len, bodies))
    known = sum(size.least if size.most is None else size.most for size in sizes)
    if any(size.least != size.most for size in sizes) and known > room:
        raise ValueError(
            f"the longest gaps need {known} tokens, and the text leaves {max(0, room)} of this model's {length}; "
            "narrow the ranges, or give less text around them"
        )
    spare = room - sum(size.least for size in sizes)
    ranges = [range(size.least, 1 + (size.least + spare if size.most is None else size.most)) for size in sizes]
    return Pattern(pieces, bodies, held, ranges, room)


def read_template(text: str, codec: TextCodec, length: int) -> Template:
    """A text whose gaps have one length each, or their shortest, as tokens."""
    pattern = read_pattern(text, codec, length)
    return pattern.template([size.start for size in pattern.sizes])


def template_of(pieces: list[str], sizes: list[int], codec: TextCodec) -> Template:
    """The pieces as tokens, with gaps of these sizes between."""
    bodies, held = encode_pieces(pieces, codec)
    return Pattern(pieces, bodies, held, [], 0).template(sizes)


def encode_pieces(pieces: list[str], codec: TextCodec) -> tuple[list[list[int]], list[bool]]:
    """The tokens of the pieces, and for each gap whether the space before it is left to its first token."""
    bodies, held = list(pieces), []
    for k, piece in enumerate(pieces[:-1]):
        joins = piece.endswith(" ") and joins_spaces(codec)
        bodies[k] = piece[:-1] if joins else piece
        # A tokenizer may also drop the whitespace at the end of a piece; then the gap's first token stands for it.
        held.append(joins or (piece[-1:].isspace() and not codec.decode(codec.encode(piece))[-1:].isspace()))
    return codec.encode_batch(bodies), held


def join(template: Template, codec: TextCodec, row: Tensor, likely: Tensor | None = None, nats: Tensor | None = None) -> Filled:
    """The given pieces, with what the gaps' tokens say in their context between them."""
    ids: list[int] = row.tolist()
    text, gaps = template.pieces[0], []
    for k, gap in enumerate(template.gaps):
        since = max(0, gap.start - CONTEXT)
        said = [codec.decode(ids[since:stop]) for stop in range(gap.start, min(gap.stop + 2, len(ids) + 1))]
        parts = [added_text(now, before, codec, [token]) for before, now, token in zip(said, said[1:], ids[gap], strict=False)]
        before, through, after = said[0], said[gap.stop - gap.start], said[-1]
        fill = added_text(through, before, codec, ids[gap])
        if template.held[k]:
            fill = fill.removeprefix(" ")
        given = template.pieces[k + 1]
        if after.removeprefix(through)[:1] == " " and given and not given[0].isspace():
            fill += " "  # the tokenizer says a space where the given piece has none
        known = [None if each is None else each[gap].tolist() for each in (likely, nats)]
        gaps.append(Gap(fill, ids[gap], parts, *known))
        text += fill + given
    return Filled(text, gaps, None if nats is None else nats.sum().item())


def added_text(text: str, before: str, codec: TextCodec, ids: list[int]) -> str:
    """What the tokens add to the text before them; what they say alone where they change it."""
    return text.removeprefix(before) if text.startswith(before) else codec.decode(ids)


@once_a_codec
def token_texts(codec: TextCodec) -> tuple[str, ...]:
    """The text of each token, as it stands after a word."""
    before = codec.encode("a") if isinstance(codec, TokenizerCodec) else []
    word = codec.decode(before)
    return tuple(codec.decode([*before, token]).removeprefix(word) for token in range(codec.vocab))


def row_texts(codec: TextCodec, tokens: list[int]) -> list[str]:
    """The text of each token of a row; a character that is made of several stands where the last of them does.

    A mask is a dot.
    """
    known = token_texts(codec)
    texts: list[str] = []
    parts: list[int] = []
    for token, following in zip(tokens, [*tokens[1:], codec.vocab], strict=True):
        broken = [each < codec.vocab and "\ufffd" in known[each] for each in (token, following)]
        parts = [*parts, token] if broken[0] else []
        if broken[0]:
            texts.append("" if broken[1] else codec.decode(parts))
        else:
            texts.append(known[token] if token < codec.vocab else "·")
    return texts


@once_a_codec
def joins_spaces(codec: TextCodec) -> bool:
    """Whether some token is a space with something after it."""
    return any(text.startswith(" ") and text.strip() for text in token_texts(codec))


@once_a_codec
def begin_with_space(codec: TextCodec) -> Tensor:
    """(V,) bool, those tokens that do."""
    return torch.tensor([text.startswith(" ") for text in token_texts(codec)])


@once_a_codec
def only_end(codec: TextCodec) -> Tensor:
    """(V,) bool, the end-of-text token."""
    return torch.arange(codec.vocab) == codec.end
