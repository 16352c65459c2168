"""Gaps of unknown length: the length is drawn from the model, with the fill.

A priori all lengths are equally likely, and of several gaps all combinations that fit. Let x be the text with its gaps filled,
P(x) its probability with each token given those before it, and q(x) the probability with which the chain drew the fill, at a
length that was drawn uniformly. Each of K draws has the weight w = P(x) / q(x), and one of them is drawn by these weights. As K
grows its law goes to the exact one, P(length, fill | given) ∝ P(x). The effective sample size (Σ w)² / Σ w² says how many of
the K count.

q is known where each site is drawn once. Temperature and the like change q, and so where the draws are, but not the law that
the weights lead to: only tokens that q never draws are lost.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.chain.banned import Rule
from glauber.chain.driver import require_room
from glauber.codec import TextCodec
from glauber.method import Run
from glauber.method.sampling import Record
from glauber.process.draws import Generator, categorical, uniform
from glauber.sampler import Sampler
from glauber.tasks.constraints import Constraints, Filling
from glauber.tasks.seams import seam_sites
from glauber.tasks.steps import Draw, Steps
from glauber.tasks.template import Pattern, Template
from glauber.tasks.windows import Chosen


class Rows:
    """Texts of one pattern, each with gaps of its own lengths, as rows of L tokens.

    Attributes:
        tokens, text, given: (rows, L) the tokens, the sites that are text, and those of them that are given.
        rules: what the gaps may not hold.
    """

    def __init__(self, templates: Sequence[Template], codec: TextCodec, constraints: Constraints, length: int):
        self.templates = list(templates)

        def stacked(parts: list[Tensor]) -> Tensor:
            return torch.stack([F.pad(part, (0, length - len(part))) for part in parts])

        self.tokens = stacked([each.tokens for each in self.templates])
        self.text = stacked([torch.ones_like(each.given) for each in self.templates])
        self.given = stacked([each.given for each in self.templates])
        rules = [constraints.rules(each, codec) for each in self.templates]
        self.rules: list[Rule] = [(stacked([sites for sites, _ in same]), same[0][1]) for same in zip(*rules, strict=True)]


class Proposals(NamedTuple):
    """Fills that were drawn, each at a length of its own."""

    rows: Rows
    x: Tensor
    """(rows, L) tokens."""
    log_law: Tensor
    """(rows,) log q."""
    log_weights: Tensor
    """(rows,) log P - log q."""
    calls: float
    """Network calls of a row."""


def choosing(job: Filling, pattern: Pattern, num: int, draws: int) -> Steps[list[Chosen]]:
    """`num` fills, each chosen among `draws` of its own; all of them are one batch."""
    require_known_law(job.sampler)
    require_room(num * draws, job.sampler.process)
    if num == 0:
        return []
    found = yield from proposing(job, pattern, num, draws)
    templates = found.rows.templates
    seams = [seam_sites(each, each.gaps) if job.constraints.joined else [] for each in templates]
    weights = _without_unwanted(found.log_weights.view(num, draws), job, found, seams).softmax(-1)
    picked = torch.arange(num) * draws + categorical(weights, uniform((num,), job.generator, torch.device("cpu")))
    calls = draws * (found.calls + sum(map(len, seams)) / len(seams))
    return [
        Chosen(templates[k], found.x[k][found.rows.text[k]], calls, effective)
        for k, effective in zip(picked.tolist(), effective_size(weights).tolist(), strict=True)
    ]


def proposing(job: Filling, pattern: Pattern, num: int, draws: int) -> Steps[Proposals]:
    """num × draws fills, by the chain in one batch, and their weights."""
    sampler = job.sampler
    sizes = draw_sizes(pattern, num, draws, job.generator)
    rows = Rows([pattern.template(each) for each in sizes], job.codec, job.constraints, sampler.length)
    record = Record(alone=True)
    run = Run(
        job.generator,
        clamp=(rows.given, rows.tokens),
        stop=sampler.schedule.settled((rows.text & ~rows.given).any(0)),
        absent=~rows.text,
        rules=rows.rules,
        progress=job.progress,
        record=record,
    )
    x = (yield Draw(sampler, num * draws, run)).cpu()
    if record.log_law is None or record.calls is None:
        raise ValueError("the law of the fills was not recorded; run a draw that has a record by itself")
    x, log_law = torch.where(rows.text, x, 0), record.log_law.cpu()  # an absent site may hold a mask
    log_p = torch.where(rows.text, sampler.log_likelihoods(x), 0.0).sum(1)
    return Proposals(rows, x, log_law, log_p - log_law, record.calls + 1)


def _without_unwanted(log_weights: Tensor, job: Filling, found: Proposals, seams: Sequence[Sequence[int]]) -> Tensor:
    """(num, K) the logarithms of the weights, -inf for fills that are not as wanted.

    Where no draw of a fill has whole seams any will do; a banned word never does.
    """
    rows = found.rows
    texts = zip(rows.templates, found.x, rows.text, strict=True)
    free = [job.constraints.allows(each, job.codec, row[here], each.gaps) for each, row, here in texts]
    allowed = torch.tensor(free).view_as(log_weights)
    whole = job.constraints.joins(job.sampler, job.codec, seams, found.x, rows.text).view_as(log_weights) & allowed
    if not bool(allowed.any(1).all()):
        raise ValueError(f"each of {log_weights.shape[1]} draws has a banned word; ask for more draws, or ban less")
    return log_weights.where(torch.where(whole.any(1, keepdim=True), whole, allowed), -torch.inf)


def require_known_law(sampler: Sampler) -> None:
    """Refuse a model, or a plan, for which the weights are not known."""
    if not sampler.knows_likelihood:
        raise ValueError(
            "the length of a gap is drawn by the likelihood from left to right, which this model did not learn; "
            "give the length, as in [[12]]"
        )
    if not sampler.plan.by_chain or not sampler.schedule.draws_once:
        raise ValueError(
            "the length of a gap can be drawn where each site is drawn once, in one sweep; "
            "leave sweeps out, or give the length, as in [[12]]"
        )


def effective_size(weights: Tensor) -> Tensor:
    """(Σ w)² / Σ w² of weights (..., K) that add up to 1."""
    return 1 / weights.square().sum(-1)


def draw_sizes(pattern: Pattern, num: int, draws: int, generator: Generator | None) -> list[tuple[int, ...]]:
    """The gaps' sizes of num × draws texts. Each combination is equally likely; the draws of a text are spread over them."""
    ways = Combinations(pattern.sizes, pattern.room)
    shares = (torch.arange(draws) + uniform((num, draws), generator, torch.device("cpu"))) / draws
    return [ways[int(share * 2**53) * ways.number >> 53] for share in shares.flatten().tolist()]


class Combinations:
    """The lengths (n_1, n_2, ...) of several gaps, each in its range and `room` at most together; by their number."""

    def __init__(self, sizes: Sequence[range], room: int):
        self.sizes, self.room = sizes, room

        @cache
        def count(gap: int, room: int) -> int:
            """From this gap on."""
            if gap == len(sizes):
                return 1
            return sum(count(gap + 1, room - size) for size in sizes[gap] if size <= room)

        self.count, self.number = count, count(0, room)

    def __getitem__(self, number: int) -> tuple[int, ...]:
        found: list[int] = []
        for gap, sizes in enumerate(self.sizes):
            room = self.room - sum(found)
            for size in sizes:
                here = self.count(gap + 1, room - size) if size <= room else 0
                if number < here:
                    found.append(size)
                    break
                number -= here
        return tuple(found)
