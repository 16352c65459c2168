"""What a fill has to be, besides likely: joined at its seams, without some words, ended with the sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.codec import TextCodec
from glauber.process.draws import Generator
from glauber.sampler import Sampler
from glauber.tasks.seams import SEAMS, seam_rules, whole
from glauber.tasks.template import Template, join, once_a_codec, token_texts

SENTENCE_END = re.compile(r"[.!?][\"'\u201d\u2019)]*$")


@dataclass(frozen=True)
class Constraints:
    """On fills.

    Args:
        seams: "word" joins a fill to what is given as a writer would; "raw" takes it as it comes.
        banned: words that must not stand in a fill, nor at its seams; capital letters or not.
        sentence: each gap ends with a sentence, and holds no end of one before.
    """

    seams: str = "word"
    banned: Sequence[str] = ()
    sentence: bool = False

    def __post_init__(self) -> None:
        if self.seams not in SEAMS:
            raise ValueError(f"seams is {' or '.join(SEAMS)}, not {self.seams!r}")
        if isinstance(self.banned, str) or not all(isinstance(word, str) and word.strip() for word in self.banned):
            raise ValueError("banned words are a list of words, none of them empty, such as door and key")

    @property
    def joined(self) -> bool:
        """Whether fills are joined as words."""
        return self.seams == "word"

    def rules(self, template: Template, codec: TextCodec) -> list[Rule]:
        """Tokens that some sites must not hold; as many rules for each template of a text."""
        rules = template.rules(codec) + (seam_rules(template, codec) if self.joined else [])
        if self.sentence:
            ends, last = end_sentences(codec), torch.zeros(len(template.tokens), dtype=torch.bool)
            if not bool(ends.any()):
                raise ValueError("no token of this model ends a sentence; leave the stop out")
            last[[gap.stop - 1 for gap in template.gaps]] = True
            rules += [(last, ~ends), (~template.given & ~last, ends)]
        _require_some_token(rules, template)
        return rules

    def joins(self, sampler: Sampler, codec: TextCodec, sites: Sequence[Sequence[int]], x: Tensor, text: Tensor) -> Tensor:
        """(rows,) bool, whether the seams of the rows are as wanted; see `seams.whole`."""
        return whole(sampler, codec, sites, x, text) if self.joined else torch.ones(len(x), dtype=torch.bool)

    def allows(self, template: Template, codec: TextCodec, row: Tensor, gaps: Sequence[slice]) -> bool:
        """Whether no banned word touches one of these gaps of the row (n,) of tokens."""
        if not self.banned:
            return True
        filled = join(template, codec, row)
        words = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, self.banned))})(?!\w)", re.IGNORECASE)
        found = [match.span() for match in words.finditer(filled.text)]
        stop, touched = 0, False
        for piece, gap, place in zip(template.pieces, filled.gaps, template.gaps, strict=False):
            start = stop + len(piece)
            stop = start + len(gap.text)
            touched |= place in gaps and any(first < stop and start < last for first, last in found)
        return not touched


@dataclass(frozen=True)
class Choice:
    """Among how many fills is chosen.

    Args:
        best_of: so many fills are made, and the likeliest of them returned, the best first: by the likelihood of the whole text
            per character; None to return what was made.
        draws: among so many is each fill chosen where a gap's length is not known, see `tasks.lengths`.
    """

    best_of: int | None = None
    draws: int = 16

    def made(self, num: int) -> int:
        """How many fills are made where `num` are wanted."""
        if num < 0:
            raise ValueError(f"cannot make {num} fills; ask for a whole number, 0 or more")
        if self.draws < 1:
            raise ValueError(f"a fill is chosen among at least one draw, not {self.draws}")
        if self.best_of is not None and self.best_of < max(1, num):
            raise ValueError(f"the best {num} of {self.best_of} fills are not there; choose among at least {max(1, num)}")
        return num if self.best_of is None else self.best_of


@dataclass(frozen=True)
class Filling:
    """What all fills of a request share."""

    sampler: Sampler
    codec: TextCodec
    constraints: Constraints
    generator: Generator | None = None
    progress: bool = False


def _require_some_token(rules: Sequence[Rule], template: Template) -> None:
    """Refuse rules that leave no token for the first or the last site of a gap, where they meet."""
    for gap in template.gaps:
        for site in {gap.start, gap.stop - 1}:
            barred = [tokens for sites, tokens in rules if sites[site]]
            if bool(torch.stack(barred).any(0).all()):
                size = gap.stop - gap.start
                raise ValueError(f"no token fits a gap of {size} as wanted; make it longer, from {size + 1} tokens on")


@once_a_codec
def end_sentences(codec: TextCodec) -> Tensor:
    """(V,) bool, those tokens that do."""
    return torch.tensor([SENTENCE_END.search(text) is not None for text in token_texts(codec)])
