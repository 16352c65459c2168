"""Where a gap meets what is given: no half words and no doubled blanks.

Some tokens are barred at the sites beside a seam. Whether a word is whole is asked of the model: the token behind a seam either
goes on with a word (it begins with a letter or a digit) or not, and the model tells how likely that is: given what stands
before it, or, by a model that did not learn to look to the left alone, given all other tokens. Where it finds what stands there
unlikely, a word is cut or two are glued, and the fill is drawn again.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.codec import TextCodec
from glauber.sampler import Sampler
from glauber.tasks.queries import row_laws
from glauber.tasks.template import Template, joins_spaces, once_a_codec, token_texts

SEAMS = ("word", "raw")
LEAST = 0.5
"""The least probability of what stands at a whole seam: that a word goes on there, or that it does not."""
GOES_ON, STARTS, UNKNOWN = 1, 0, -1
"""What a token does behind a word; unknown of a part of a character."""

APOSTROPHES = "'\u2019"


def seam_rules(template: Template, codec: TextCodec) -> list[Rule]:
    """What the first and the last token of a gap must not be: a blank beside a blank."""
    first, lead, last = (torch.zeros(len(template.tokens), dtype=torch.bool) for _ in range(3))
    for k, gap in enumerate(template.gaps):
        before, after = template.pieces[k], template.pieces[k + 1]
        first[gap.start] = before[-1:].isspace() and not template.held[k]
        lead[gap.start] = template.held[k] and joins_spaces(codec)
        last[gap.stop - 1] = after[:1].isspace()
    barred = (begin_blank(codec), not_a_space_and_more(codec), end_blank(codec))
    return [(sites, tokens) for sites, tokens in zip((first, lead, last), barred, strict=True) if not bool(tokens.all())]


@once_a_codec
def begin_blank(codec: TextCodec) -> Tensor:
    """(V,) bool, those tokens that do."""
    return torch.tensor([text[:1].isspace() for text in token_texts(codec)])


@once_a_codec
def end_blank(codec: TextCodec) -> Tensor:
    """(V,) bool, those tokens that do."""
    return torch.tensor([text[-1:].isspace() for text in token_texts(codec)])


@once_a_codec
def not_a_space_and_more(codec: TextCodec) -> Tensor:
    """(V,) bool, all tokens but a space with something after it that is no blank."""
    return torch.tensor([text[:1] != " " or not text[1:2].strip() for text in token_texts(codec)])


def whole(sampler: Sampler, codec: TextCodec, sites: Sequence[Sequence[int]], x: Tensor, text: Tensor) -> Tensor:
    """(rows,) bool, whether all seams of each row are whole; a network call a seam.

    Args:
        sites: of each row, the sites right behind its seams, see `seam_sites`.
        x, text: (rows, L) the tokens of a window, and which of them are there.
    """
    good = torch.ones(len(x), dtype=torch.bool)
    seams = [(row, site) for row, own in enumerate(sites) for site in own if 0 <= site < sampler.length]
    if not seams:
        return good
    row, site = torch.tensor(seams).T
    kinds = token_kinds(codec)
    own = torch.where(text[row, site], kinds[x[row, site]], STARTS)  # behind the last word there is none
    laws = row_laws(sampler, x[row], text[row], site, before=sampler.knows_likelihood)
    goes_on = torch.cat([share_that_goes_on(law, kinds) for law, _ in laws])
    share = torch.where(own == GOES_ON, goes_on, 1 - goes_on)
    good[row[(share < LEAST) & (own != UNKNOWN)]] = False
    return good


def share_that_goes_on(law: Tensor, kinds: Tensor) -> Tensor:
    """(r,) the share of the laws (r, V) that goes on with a word, among the tokens of which that is known."""
    on, off = ((law * (kinds == kind)).sum(-1) for kind in (GOES_ON, STARTS))
    return on / (on + off)


@once_a_codec
def token_kinds(codec: TextCodec) -> Tensor:
    """(V,) of each token GOES_ON, STARTS or UNKNOWN. The end-of-text token starts something new."""
    kinds = torch.tensor([kind_of(text) for text in token_texts(codec)])
    kinds[codec.end] = STARTS
    return kinds


def kind_of(text: str) -> int:
    """Of a token by its text, as it stands after a word."""
    if not text or "\ufffd" in text[:1]:
        return UNKNOWN
    return GOES_ON if text[0].isalnum() or text[0] in APOSTROPHES else STARTS


def seam_sites(template: Template, gaps: Sequence[slice]) -> list[int]:
    """The sites right behind the seams of these gaps. A gap behind a blank, or at the beginning, has none before it."""
    sites = []
    for before, gap in zip(template.pieces, template.gaps, strict=False):
        if gap in gaps:
            sites += [gap.start, gap.stop] if before and not before[-1].isspace() else [gap.stop]
    return sites
