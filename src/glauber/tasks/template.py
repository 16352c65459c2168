"""A text with gaps, as tokens: how it is read, and how the gaps' tokens become text again.

Each given piece of the text is encoded on its own, a gap [[n]] is n free sites, and the result is put together from the input
and the decoded gaps: what was given is never decoded, so it stays as it was to the byte.

Where a tokenizer joins a space with the word that follows (" times" is one token), the space that ends a piece would be a token
that the network has never seen before a word. It is left to the gap, whose first token must then begin with a space. No gap
holds the end-of-text token: a gap of n tokens is n tokens of text. Both are bans at single sites, and like any ban they leave
the exact law P*(gap | given) on purpose.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.codec import TextCodec, TokenizerCodec

GAP = re.compile(r"\\\[\[|\[\[([0-9]+)\]\]|\[\[(?!\[)")  # an escaped [[, a gap, or a [[ that is neither
CONTEXT = 16  # tokens before a gap that tell how it is decoded

_TEXTS: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()  # of a codec that was asked before


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


def read_template(text: str, codec: TextCodec, length: int) -> Template:
    """The pieces and gaps of a text, as tokens; no gap may be longer than `length`."""
    pieces, sizes = split_gaps(text)
    if max(sizes) > length:
        raise ValueError(f"a gap of {max(sizes)} tokens is longer than this model's {length}; ask for at most {length}")
    return template_of(pieces, sizes, codec)


def template_of(pieces: list[str], sizes: list[int], codec: TextCodec) -> Template:
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


def join(template: Template, codec: TextCodec, row: Tensor, likely: Tensor | None) -> Filled:
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
        gaps.append(Gap(fill, ids[gap], parts, None if likely is None else likely[gap].tolist()))
        text += fill + given
    return Filled(text, gaps)


def added_text(text: str, before: str, codec: TextCodec, ids: list[int]) -> str:
    """What the tokens add to the text before them; what they say alone where they change it."""
    return text.removeprefix(before) if text.startswith(before) else codec.decode(ids)


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
