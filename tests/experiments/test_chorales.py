"""The figures of chorales: counted by hand on a few chords, and the likelihood against the chain rule."""

import numpy as np
import pytest
import torch

from glauber import Model, NoiseLaw, Oracle, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import NamedCodec

CHORDS = np.array(
    [
        [72, 67, 64, 48],
        [74, 69, 65, 50],  # all move up; soprano and bass: octaves in parallel
        [74, 69, 65, 50],
        [67, 69, 60, 53],  # the alto above the soprano; soprano and tenor down, a fifth apart, from none
        [69, 69, 62, 55],  # soprano and tenor up: fifths in parallel
        [69, -1, 62, 55],
    ]
)


@pytest.fixture
def counterpoint(experiment):
    return experiment("counterpoint")


def test_chords_are_runs_of_equal_frames(counterpoint):
    assert len(counterpoint.chords(CHORDS)) == 5


def test_crossings_fifths_and_octaves_are_those_counted_by_hand(counterpoint):
    found = counterpoint.chords(CHORDS)
    assert counterpoint.crossings(found) == 1
    assert counterpoint.parallels(found, counterpoint.FIFTH) == 3  # alto and bass, then soprano and tenor, tenor and bass
    assert counterpoint.parallels(found, counterpoint.OCTAVE) == 1
    crossed = np.array([[60, 65, -1, -1], [62, 67, -1, -1]])  # the alto a fourth above the soprano
    assert counterpoint.parallels(crossed, counterpoint.FIFTH) == 0


def test_lengths_and_intervals_are_shares_of_notes_and_rests_break_a_line(counterpoint):
    tokens = np.where(CHORDS > 0, CHORDS - 35, 0)
    found = counterpoint.histograms(tokens[None])
    lengths = {"soprano": [1, 2, 1, 2], "alto": [1, 4], "tenor": [1, 2, 1, 2], "bass": [1, 2, 1, 2]}
    counts = np.bincount([length for each in lengths.values() for length in each], minlength=17)
    np.testing.assert_allclose(found["lengths"], counts / counts.sum())
    steps = [2, 7, 2, 2, 1, 5, 2, 2, 3, 2]
    np.testing.assert_allclose(found["intervals"], np.bincount(steps, minlength=13) / len(steps))


def test_real_music_lies_at_no_distance_from_itself(counterpoint):
    tokens = np.where(CHORDS > 0, CHORDS - 35, 0)[None]
    found = counterpoint.statistics(tokens, tokens)
    assert (found["lengths_distance"], found["intervals_distance"], found["crossings"]) == (0, 0, 20)


class Tiny:
    """Two frames of two voices."""

    shape, vocab, names = (2, 2), 3, "abc"
    allowed = np.ones((2, 2, 3), bool)

    def encode(self, file):
        raise NotImplementedError

    def decode(self, tokens):
        return tokens


def test_the_framewise_likelihood_is_the_exact_one_of_an_exact_conditional(experiment, monkeypatch):
    """By the chain rule the nats of a row are -log P of it in every order, whatever the order is."""
    chorales = experiment("chorales")
    table = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(81))).reshape(3, 3, 3, 3)
    noise = NoiseLaw(torch.full((3,), 1 / 3, dtype=torch.float64), torch.ones(4, 3, dtype=torch.bool))
    network = Transformer(TransformerConfig(3, 4, width=16, layers=1, heads=2, grid=(2, 2)))
    model = Model(network, Process(Schedule.round_robin(4, 4), noise), NamedCodec("tiny", Tiny()))
    monkeypatch.setattr(type(model.method), "conditional", lambda *_, **__: Oracle(table, NoiseLaw.uniform(3)))
    rows = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1], [0, 0, 0, 0]])
    found = chorales.framewise(model, rows, orders=3)
    truth = -table[tuple(rows.T)].log() / 2
    assert found["plain"] == pytest.approx(truth.mean().item(), abs=1e-12)
    assert found["ensemble"] <= found["plain"]
    one = chorales.framewise(model, rows, orders=1)
    assert one["ensemble"] == pytest.approx(one["plain"], abs=1e-12)


def test_an_order_shows_the_voices_of_a_frame_together(experiment):
    sites = experiment("chorales").frame_orders(20, 5, 4, torch.Generator().manual_seed(0))
    assert bool((sites.sort(1).values == torch.arange(20)).all())
    frames = (sites // 4).view(20, 5, 4)
    assert bool((frames == frames[..., :1]).all())
    assert len(set(map(tuple, frames[..., 0].tolist()))) > 10


def test_each_plan_spends_the_calls_that_it_was_given(experiment):
    chorales = experiment("chorales")
    process = Process(Schedule.round_robin(64, 64, "linear"), NoiseLaw.uniform(3))
    model = Model(Transformer(TransformerConfig(3, 64, width=16, layers=1, heads=2)), process)
    found = list(chorales.plans(model, 32))
    assert len(found) == 20
    assert {sampler.calls for _, sampler in found} == {32}
    assert {said["sweeps"] * 64 // said["block"] for said, _ in found} == {32}


@pytest.mark.parametrize(("better", "wins"), [(5, True), (4, True), (3, False)])
def test_a_chain_wins_by_four_of_the_five_figures(experiment, better, wins):
    chorales = experiment("chorales")
    same = {"method": "ggm", "budget": 64, "kernel": "heat-bath", "mark_noise": False}
    once = {**same, "sweeps": 1, **dict.fromkeys(chorales.FIGURES, 1.0)}
    chain = {**same, "sweeps": 4, **{name: 0.5 if k < better else 2.0 for k, name in enumerate(chorales.FIGURES)}}
    assert chorales.beats(chain, [once, chain]) == wins
    assert not chorales.beats(once, [once, chain])
