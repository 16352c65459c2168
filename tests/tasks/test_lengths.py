"""Gaps of unknown length: the law of the length and the fill, on spaces small enough to enumerate."""

import itertools
import math
import re

import numpy as np
import pytest
import torch
from refusals import refused

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import CharCodec
from glauber.conditional.transformer import Cache
from glauber.method.sampling import Record, Run
from glauber.process.draws import new_generator
from glauber.tasks.constraints import Choice, Constraints, Filling
from glauber.tasks.gaps import split_gaps
from glauber.tasks.infill import filling
from glauber.tasks.lengths import Combinations, draw_sizes, effective_size, proposing
from glauber.tasks.steps import run_alone
from glauber.tasks.template import read_pattern

ALPHABET, LENGTH = "ab", 6
RAW = Constraints(seams="raw")


def causal_model(alphabet: str = ALPHABET, length: int = LENGTH, sharp: float = 1.5) -> Model:
    """Random weights in float64, large enough that no two fills are alike; its own chain is causal."""
    torch.manual_seed(0)
    codec = CharCodec(alphabet)
    network = Transformer(TransformerConfig(codec.vocab, length, width=16, layers=2, heads=2, causal=True)).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=sharp / 10)
    schedule = Schedule.round_robin(length, length, 0.0, "left-to-right")
    return Model(network.eval(), Process(schedule, NoiseLaw.uniform(codec.vocab)), codec)


@torch.no_grad()
def log_p(model: Model, tokens: list[int]) -> float:
    """By the network's cache, a token at a time."""
    network, cache, total = model.network, Cache(model.network, 1), 0.0
    for left, token in zip([network.begin, *tokens], tokens, strict=False):
        total += network.extend(torch.tensor([[left]]), cache).log_softmax(-1)[0, token].item()
    return total


@torch.no_grad()
def log_q(model: Model, tokens: list[int], gaps: list[int], barred: list[int]) -> float:
    """Of the tokens at the gap sites, drawn from left to right, each given all that is given and what was drawn."""
    L, total = model.process.length, 0.0
    x, known = torch.zeros(1, L, dtype=torch.int64), torch.zeros(1, L, dtype=torch.float64)
    for site, token in enumerate(tokens):
        if site not in gaps:
            x[0, site], known[0, site] = token, 1.0
    for site in gaps:
        logits = model.network(x, torch.zeros(1, dtype=torch.int64), known, torch.tensor([[site]]))[0, 0]
        logits[barred] = -torch.inf
        total += logits.log_softmax(-1)[tokens[site]].item()
        x[0, site], known[0, site] = tokens[site], 1.0
    return total


def posterior(model: Model, before: str, lengths: range, after: str, letters: str = ALPHABET) -> dict[str, float]:
    """P(fill | given): every fill of every length, by the likelihood of the whole text."""
    fills = ["".join(fill) for size in lengths for fill in itertools.product(letters, repeat=size)]
    weights = np.exp([log_p(model, model.codec.encode(before + fill + after)) for fill in fills])
    return dict(zip(fills, weights / weights.sum(), strict=True))


def drawn(model: Model, text: str, num: int, draws: int, **options):
    """Proposals, and the fill of each."""
    codec, sampler = model.codec, model.sampler(gaps=True, **options)
    pattern = read_pattern(text, codec, sampler.length)
    found = run_alone(proposing(Filling(sampler, codec, RAW, new_generator(1)), pattern, num, draws))
    fills = [
        codec.decode(row[here & ~given]) for row, here, given in zip(found.x, found.rows.text, found.rows.given, strict=True)
    ]
    return found, fills


@pytest.mark.parametrize("options", [{}, {"kernel": "reversal"}, {"mark_noise": True}, {"temperature": 0.5}])
def test_with_all_fills_enumerated_the_weights_give_the_exact_posterior(options):
    """q(fill) · weight, over each fill once, is P(length, fill | given) to 1e-9."""
    model = causal_model()
    exact = posterior(model, "a", range(1, 4), "ba")
    found, fills = drawn(model, "a[[1-3]]ba", 1, 1500, **options)
    assert set(fills) == set(exact), "every fill was drawn"
    mass = {fill: math.exp(q + w) for fill, q, w in zip(fills, found.log_law.tolist(), found.log_weights.tolist(), strict=True)}
    total = sum(mass.values())
    assert max(abs(mass[fill] / total - exact[fill]) for fill in exact) < 1e-9


def test_the_law_that_the_chain_records_is_that_of_its_draws():
    """Worked out a second time by hand, with the ban of the end-of-text token."""
    model = causal_model()
    found, fills = drawn(model, "a[[1-3]]ba", 1, 60)
    for fill, log_law in zip(fills, found.log_law.tolist(), strict=True):
        tokens = model.codec.encode(f"a{fill}ba")
        assert log_law == pytest.approx(log_q(model, tokens, [*range(1, 1 + len(fill))], [model.codec.end]), abs=1e-9)


def test_two_gaps_of_unknown_length_weigh_the_whole_text_over_the_law_of_both_fills():
    model = causal_model()
    found, fills = drawn(model, "[[1-2]]a[[ ]]", 1, 60)
    assert len({each.gaps[0].stop for each in found.rows.templates}) == 2
    values = zip(found.rows.templates, fills, found.log_law.tolist(), found.log_weights.tolist(), strict=True)
    for template, fill, log_law, log_weight in values:
        first, second = template.gaps
        tokens = model.codec.encode(fill[: first.stop] + "a" + fill[first.stop :])
        sites = [*range(first.stop), *range(second.start, second.stop)]
        assert log_law == pytest.approx(log_q(model, tokens, sites, [model.codec.end]), abs=1e-9)
        assert log_law + log_weight == pytest.approx(log_p(model, tokens), abs=1e-9)


def test_a_fill_of_unknown_length_is_drawn_from_the_posterior_and_tells_how_many_draws_count():
    model = causal_model()
    exact = posterior(model, "a", range(1, 4), "ba")
    sampler, choice = model.sampler(gaps=True), Choice(draws=16)
    steps = filling(sampler, model.codec, "a[[ ]]ba", 500, new_generator(2), constraints=RAW, choice=choice)
    filled = run_alone(steps)
    assert all(re.fullmatch("a(.*)ba", each.text)[1] == each.gaps[0].text for each in filled)
    seen = [each.gaps[0].text for each in filled]
    assert sum(abs(seen.count(fill) / 500 - p) for fill, p in exact.items()) / 2 < 0.08
    assert all(1 <= each.effective <= 16 for each in filled)
    assert all(each.calls == pytest.approx(16 * (1 + np.mean([1, 2, 3])), rel=0.1) for each in filled)


def test_the_effective_sample_size_is_all_draws_for_equal_weights_and_one_for_a_single_weight():
    assert effective_size(torch.full((5,), 0.2)).item() == pytest.approx(5)
    assert effective_size(torch.tensor([[0.0, 1.0, 0.0]])).tolist() == [1.0]


def test_lengths_are_those_of_the_range_each_as_often_as_the_others():
    codec = CharCodec(ALPHABET)
    pattern = read_pattern("a[[2-4]]b", codec, LENGTH)
    assert pattern.sizes == [range(2, 5)]
    drawn_sizes = draw_sizes(pattern, 2, 9, new_generator(0))
    assert sorted(drawn_sizes) == sorted([(2,), (3,), (4,)] * 6)  # spread over the range, within each fill's draws
    assert read_pattern("a[[ ]]b", codec, LENGTH).sizes == [range(1, 5)]
    assert read_pattern("[[ ]]a[[3]]", codec, LENGTH).sizes == [range(1, 3), range(3, 4)]


@pytest.mark.parametrize(
    ("sizes", "room"), [([range(1, 4), range(2, 6)], 5), ([range(1, 3)] * 4, 6), ([range(3, 4)], 3), ([range(1, 9)] * 2, 16)]
)
def test_combinations_of_lengths_are_all_that_fit_each_once(sizes, room):
    ways = Combinations(sizes, room)
    wanted = [each for each in itertools.product(*sizes) if sum(each) <= room]
    assert [ways[k] for k in range(ways.number)] == wanted


def test_sixty_gaps_of_any_length_have_more_combinations_than_a_machine_word_counts():
    pattern = read_pattern("a".join(["[[ ]]"] * 60), CharCodec(ALPHABET), 256)
    for sizes in draw_sizes(pattern, 2, 3, new_generator(0)):
        assert len(sizes) == 60
        assert min(sizes) >= 1
        assert sum(sizes) <= 256 - 59


def test_a_run_that_nobody_recorded_is_refused_and_not_taken_for_certain():
    model = causal_model()
    steps = filling(model.sampler(gaps=True), model.codec, "a[[1-3]]", constraints=RAW)
    draw = next(steps)
    with refused("was not recorded"):
        steps.send(draw.sampler.draw(draw.num, Run(clamp=draw.run.clamp, absent=draw.run.absent)).tokens)


def test_no_law_is_recorded_where_sites_are_drawn_more_than_once():
    model = causal_model()
    for sweeps, known in ((1, True), (2, False)):
        record = Record()
        model.sampler(sweeps=sweeps, order="random").run(3, generator=new_generator(0), record=record)
        assert (record.log_law is not None) == known
        assert record.calls is not None


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("a[[4-2]]b", r"the gap \[\[4-2\]\] is upside down; write \[\[2-4\]\]"),
        ("a[[0-2]]b", "at least one token"),
        ("a[[1-9]]b", "a gap of 9 tokens is longer than this model's 6"),
        ("aaa[[1-5]]b", "the longest gaps need 5 tokens, and the text leaves 2 of this model's 6"),
        ("aaaaaa[[ ]]", "the text leaves 0"),
        ("abababab[[ ]]", "the text leaves 0"),
        ("a[[1-2]", "is no gap"),
        ("a[[1-]]", "is no gap"),
        ("a[[]]", "is no gap"),
        ("a[[x]]", "is no gap"),
        ("a[[1-99999999999999999999]]", "longer than any text"),
    ],
)
def test_a_gap_that_cannot_be_is_refused_in_one_sentence(text, about):
    with refused(about):
        causal_model().infill(text)


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"sweeps": 2}, "in one sweep"),
        ({"draws": 0}, "at least one draw, not 0"),
        ({"best_of": 0}, "choose among at least 1"),
        ({"num": 3, "best_of": 2}, "choose among at least 3"),
        ({"seams": "neat"}, "seams is word or raw, not 'neat'"),
        ({"banned": "door"}, "a list of words, none of them empty"),
        ({"banned": [" "]}, "a list of words"),
        ({"sentence": True}, "no token of this model ends a sentence"),
    ],
)
def test_what_cannot_be_asked_of_a_fill_is_refused_in_one_sentence(options, about):
    with refused(about):
        causal_model().infill("a[[1-3]]b", **options)


def test_a_model_that_did_not_learn_the_likelihood_from_left_to_right_is_told_what_to_do():
    codec = CharCodec(ALPHABET)
    network = Transformer(TransformerConfig(codec.vocab, LENGTH, width=8, layers=1, heads=2))
    model = Model(network, Process(Schedule.round_robin(LENGTH, LENGTH, 0.0), NoiseLaw.uniform(codec.vocab)), codec)
    for wrong, about in (
        (lambda: model.infill("a[[1-3]]"), r"give the length, as in \[\[12\]\]"),
        (lambda: model.infill("a[[2]]", best_of=2), "leave best-of out"),
    ):
        with refused(about):
            wrong()


def test_gaps_with_nothing_between_are_one_whose_lengths_add_up():
    assert [str(size) for size in split_gaps("a[[1-3]][[4]]b[[2]][[ ]]")[1]] == ["[[5-7]]", "[[ ]]"]
