"""Scores: bounds per token and per character, of texts of any length."""

import json
import math

import numpy as np
import pytest
import torch
from refusals import refused
from test_infill import known, untrained

from glauber.chain import bounds
from glauber.chain.bounds import row_bounds
from glauber.codec import ByteCodec, CharCodec
from glauber.tasks.score import cut, ratio, score_windows

AB = CharCodec("ab")


@pytest.mark.parametrize("text", ["a", "ab", "ba", "abb", "bbbb"])
@pytest.mark.parametrize("kernel", ["reversal", "heat-bath"])
@pytest.mark.parametrize("order", ["right-to-left", "left-to-right", "random"])
def test_one_sweep_that_forgets_all_scores_a_text_by_its_exact_probability(text, kernel, order):
    """With a draw for every step each step is taken once. A text shorter than L has its marginal probability."""
    model = known(4, AB)
    x = AB.encode(text)
    p = model.oracle.table.sum(tuple(range(len(x), 4)))[tuple(x)] if len(x) < 4 else model.oracle.table[tuple(x)]
    score = model.score(text, kernel, draws=len(text), sweeps=1, order=order)
    assert score["bits_per_token"] == pytest.approx(-math.log2(p) / len(text), abs=1e-9)
    assert score["bits_per_character"] == score["bits_per_token"]
    assert (score["tokens"], score["characters"], score["calls"]) == (len(text), len(text), len(text))


def test_a_bound_of_any_schedule_is_above_the_exact_score_of_a_short_text():
    model = known(4, AB)
    exact = model.score("ab", draws=2, sweeps=1)["bits_per_token"]
    many = ["ab"] * 2000
    reversal, heat_bath = (model.score(many, kernel, draws=4) for kernel in ("reversal", "heat-bath"))
    assert exact < reversal["bits_per_token"] + 5 * reversal["standard_error"]
    assert reversal["bits_per_token"] < heat_bath["bits_per_token"] + 5 * heat_bath["standard_error"]


def test_a_text_is_cut_into_windows_and_nothing_of_it_is_dropped():
    text = "abbab" * 5  # 25 characters in windows of 4
    found = cut([AB.encode(text), AB.encode("ab")], AB, 4)
    assert found.tokens.shape == (8, 4)
    assert found.known.sum(1).tolist() == [4] * 6 + [1, 2]
    assert found.characters.tolist() == [4] * 6 + [1, 2]
    assert AB.decode(found.tokens[found.known][:25]) == text
    score = known(4, AB).score([text, "ab"], draws=2)
    assert (score["rows"], score["tokens"], score["characters"], score["calls"]) == (8, 27, 27, 16)


def test_a_character_of_several_tokens_makes_bits_per_character_larger():
    score = untrained(ByteCodec(), 8).score("é" * 4, draws=8, sweeps=1)
    assert score["bits_per_character"] == pytest.approx(2 * score["bits_per_token"])
    assert score["characters"] == 4


def test_where_each_token_is_a_character_both_have_the_same_figures_whatever_the_rows_lengths():
    score = known(4, AB).score(["abbabb", "a", "bab"], draws=3)  # windows of 4, 2, 1 and 3
    assert score["bits_per_character"] == pytest.approx(score["bits_per_token"], abs=1e-12)
    assert score["standard_error_per_character"] == pytest.approx(score["standard_error"], abs=1e-12)


def test_tokens_of_a_text_model_score_as_their_text_does():
    model = known(4, AB)
    assert model.score(["abba", "bbab"], draws=3) == model.score(torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]]), draws=3)


def test_both_kernels_from_the_same_calls_are_each_what_they_are_alone():
    model = known(4, AB)
    found = cut([AB.encode("abbabaab"), AB.encode("bbb")], AB, 4)
    both = score_windows(model.sampler(), found, ("reversal", "heat-bath"), 4, 0)
    for kernel, figures in both.items():
        assert score_windows(model.sampler(), found, (kernel,), 4, 0)[kernel] == figures
    json.dumps(both)


def test_how_many_rows_go_through_the_network_at_once_does_not_matter(monkeypatch):
    model = known(4, AB)
    x = torch.randint(2, (23, 4), generator=torch.Generator().manual_seed(0))
    known_sites = torch.arange(4) < torch.randint(1, 5, (23, 1), generator=torch.Generator().manual_seed(1))

    def run() -> torch.Tensor:
        generator = torch.Generator().manual_seed(2)
        return row_bounds(model.oracle, model.process, x, ("reversal",), 5, generator, known_sites)

    whole = run()
    monkeypatch.setattr(bounds, "ROWS", 3)
    torch.testing.assert_close(run(), whole)
    monkeypatch.setattr(bounds, "NUMBERS", 1)
    torch.testing.assert_close(run(), whole)


def test_what_stands_beyond_a_short_row_does_not_matter():
    model = known(4, AB)
    sites = torch.tensor([[True, True, False, False]])
    rows = [torch.tensor([[0, 1, a, b]]) for a in range(3) for b in range(3)]
    made = [row_bounds(model.oracle, model.process, x, ("reversal",), 4, torch.Generator().manual_seed(0), sites) for x in rows]
    assert all(torch.equal(made[0], other) for other in made)


def test_the_error_is_that_of_the_mean_for_equal_rows_and_covers_the_truth_for_others():
    draw = np.random.default_rng(0)
    bits = torch.from_numpy(draw.normal(5, 2, 50))
    value, error = ratio(bits, torch.full((50,), 4.0))
    assert value == pytest.approx(bits.mean().item() / 4)
    assert error == pytest.approx(bits.std().item() / 50**0.5 / 4)
    size = torch.from_numpy(draw.integers(1, 9, (2000, 200)).astype(float))
    rates = torch.from_numpy(draw.normal(3, 1, (2000, 200)))
    found = np.array([ratio(rate * n, n) for rate, n in zip(rates, size, strict=True)])
    inside = (abs(found[:, 0] - 3) < 2 * found[:, 1]).mean()
    assert 0.93 < inside < 0.97  # 0.954 ± 0.005: five standard deviations
    assert math.isnan(ratio(bits[:1], bits[:1])[1])


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        (lambda m: m.score([]), "nothing to score"),
        (lambda m: m.score(""), "nothing to score"),
        (lambda m: m.score("abz"), "the character 'z'"),
        (lambda m: m.score("ab", draws=0), "at least one draw"),
        (lambda m: m.score("ab", "cold"), "kernel is"),
        (lambda m: m.score("ab", sweeps=0), "sweeps must be at least 1"),
    ],
)
def test_a_mistake_is_refused_in_one_sentence(wrong, about):
    with refused(about):
        wrong(known(4, AB))
