"""Rows that go ahead at their own pace give the tokens of one step after the other, with the same rows through the network."""

import json

import pytest
import torch

from glauber.bench import bench_sample
from glauber.chain import CallCounter, driver, engine, run_chain
from glauber.chain.banned import restrict
from glauber.chain.engine import Walk, walk
from glauber.conditional import CausalConditional, Denoiser, Oracle, Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule

V, L, ROWS = 5, 6, 7


def network():
    """A network whose answers depend on all that it is told."""
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(V, L, width=16, layers=2, heads=2, cond_dim=8)).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)  # so large that it does depend on it
    return made


NOISE = NoiseLaw(torch.tensor([0.1, 0.3, 0.2, 0.25, 0.15]))
KEEP = (0.9, 0.4, 0.6, 0.0)
GIVEN = torch.tensor([True, False, False, True, False, False])
TOKENS = torch.arange(ROWS * L).view(ROWS, L) % V

SETTINGS = {
    "right-to-left": (Schedule.round_robin(L, 4 * L, KEEP), {}),
    "random order": (Schedule.round_robin(L, 4 * L, KEEP, torch.tensor([3, 0, 5, 1, 4, 2])), {}),
    "blocks": (Schedule.round_robin(L, 4 * L, KEEP, "strided", block=2), {}),
    "one block": (Schedule.round_robin(L, 4 * L, KEEP, "left-to-right", block=L), {}),
    "no whole sweeps": (Schedule.round_robin(L, 3 * L + 2, 0.5, "left-to-right", block=2, last_keep=0.0), {}),
    "keep everything": (Schedule.round_robin(L, 2 * L, (1.0, 0.0)), {}),
    "mark_noise": (Schedule.round_robin(L, 4 * L, KEEP), {"mark_noise": True}),
    "labels in blocks": (Schedule.round_robin(L, 4 * L, KEEP, block=3), {"mark_noise": True}),
    "clamped": (Schedule.round_robin(L, 4 * L, KEEP, block=2), {"clamp": (GIVEN.expand(ROWS, L), TOKENS)}),
    "clamped by the paper's rule": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": {1: 2}, "clamp_rule": "paper"}),
    "each row its own clamp": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": (TOKENS > 2, TOKENS)}),
    "absent": (Schedule.round_robin(L, 4 * L, KEEP), {"absent": GIVEN}),
    "blocks that stop in the middle": (Schedule.round_robin(L, 4 * L, KEEP, "strided", block=2), {"stop": 3 * L}),
    "from the middle, not to the end": (Schedule.round_robin(L, 4 * L, KEEP), {"start": (TOKENS, 17), "stop": 4}),
    "truncated": (Schedule.round_robin(L, 4 * L, KEEP), {"temperature": (1.5, 0.5, 0.9), "top_p": 0.7, "ban": [1]}),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("window", [2**24, 3 * 2 * ROWS])
@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_rows_that_go_ahead_give_the_tokens_of_one_step_after_the_other(name, window, ahead, monkeypatch):
    monkeypatch.setattr(driver, "WINDOW", window)  # random numbers for three steps at once, or for all
    schedule, options = SETTINGS[name]
    process, rows = Process(schedule, NOISE), None if "start" in options else ROWS
    results = []
    for on_step in (lambda t, x: None, None):  # to be shown every state, all rows must go together
        counted, generator = CallCounter(Denoiser(network())), torch.Generator().manual_seed(3)
        x = run_chain(counted, process, rows, generator=generator, on_step=on_step, ahead=ahead, **options)
        rows_used = counted.rows if ahead == 1 else None  # guesses cost rows
        results.append((x.tolist(), rows_used, torch.rand((), generator=generator).item()))
    assert results[0] == results[1]


def test_fewer_calls_are_made_when_rows_go_ahead():
    process = Process(Schedule.round_robin(L, 40 * L, 0.9, last_keep=0.0), NOISE)
    together, ahead = CallCounter(Denoiser(network())), CallCounter(Denoiser(network()))
    run_chain(together, process, ROWS, generator=torch.Generator().manual_seed(0), on_step=lambda t, x: None)
    run_chain(ahead, process, ROWS, generator=torch.Generator().manual_seed(0))
    assert ahead.rows == together.rows
    assert ahead.calls < together.calls


def test_guesses_of_independent_sites_are_right_the_second_time():
    """Whatever the state, the draw is the same; so a window of k steps is guessed in one call, and taken by the next."""
    law = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25]).double().log()
    counted = CallCounter(lambda x, t, survival, sites: law.expand(*sites.shape, V))
    process = Process(Schedule.round_robin(L, 50 * L, 1.0), NOISE)  # needs the network at every step
    run_chain(counted, process, 1, generator=torch.Generator().manual_seed(0), ahead=10)
    assert counted.calls <= 2 * 50 * L / 10 + 1


@pytest.mark.parametrize("ahead", [0, -1, 1.5])
def test_a_look_ahead_of_no_step_is_refused(ahead):
    with pytest.raises(ValueError, match="ahead must be 1 or more"):
        run_chain(Denoiser(network()), Process(Schedule.round_robin(L, L, 0.0), NOISE), 1, ahead=ahead)


def test_a_recorded_call_goes_through_all_rows_and_gives_the_same(monkeypatch):
    """On a GPU shapes must not change, so rows that are done are asked for nothing; here the call is repeated, not replayed."""
    monkeypatch.setattr(engine, "CudaGraph", lambda work, device: work)
    monkeypatch.setattr(engine, "WORTH", 0)
    asked, net = [], network()

    def ask(rows, x, time, sites, S, now):
        asked.append(len(rows))
        return Denoiser(net)(x, time, process.schedule.survival(time), sites).exp()

    process = Process(Schedule.round_robin(L, 5 * L, 0.7, last_keep=0.0), NOISE)
    u = torch.rand(5 * L, 2, ROWS, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for ahead in (1, 4):
        results = []
        for graphed in (False, True):
            start = NOISE.sample((ROWS, L), torch.Generator().manual_seed(1))
            steps = Walk(process, start, 5 * L, u, torch.ones(ROWS, L, dtype=torch.bool), False, ahead)
            asked.clear()
            x, calls, rows = walk(steps, ask, graphed, lambda total: driver._bar(total, False))
            assert calls == len(asked)
            assert rows == (int(steps.number.sum()) if ahead == 1 else sum(asked))
            results.append(x.tolist())
        assert set(asked) == {ROWS * ahead}
        assert results[0] == results[1]


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, 0.0])
@pytest.mark.parametrize("at", [0, 5, 11])
def test_one_law_that_cannot_be_drawn_from_is_refused_at_the_end(wrong, at):
    process = Process(Schedule.round_robin(L, 2 * L, 1.0), NOISE)
    calls = iter(range(2 * L))

    def ask(rows, x, time, sites, S, now):
        law = NOISE.probs.expand(len(rows), 1, V).clone()
        if next(calls) == at:
            law[1] = wrong
        return law

    u = torch.rand(2 * L, 2, 3, 1, dtype=torch.float64)
    steps = Walk(process, NOISE.sample((3, L)), 2 * L, u, torch.ones(3, L, dtype=torch.bool), False)
    with pytest.raises(ValueError, match="NaN"):
        walk(steps, ask, False, lambda total: driver._bar(total, False))


def test_what_is_answered_about_a_row_that_is_done_does_not_matter(monkeypatch):
    """Where shapes must not change, such rows are asked about, too, but nothing is drawn for them."""
    monkeypatch.setattr(engine, "CudaGraph", lambda work, device: work)
    monkeypatch.setattr(engine, "WORTH", 0)
    process = Process(Schedule.round_robin(L, 4 * L, 0.7, last_keep=0.0), NOISE)

    def ask(rows, x, time, sites, S, now):
        over = steps.done[rows] >= steps.number[rows]
        met.append(bool(over.any()))
        return torch.where(over[:, None, None], torch.nan, NOISE.probs.expand(len(rows), 1, V))

    met, u = [], torch.rand(4 * L, 2, ROWS, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    steps = Walk(process, NOISE.sample((ROWS, L)), 4 * L, u, torch.ones(ROWS, L, dtype=torch.bool), False)
    x, _, _ = walk(steps, ask, True, lambda total: driver._bar(total, False))
    assert any(met)
    assert x.max() < V


def test_a_guess_that_cannot_be_spoils_nothing():
    """After 0 0 comes 0, after 0 1 comes 2: on a state that is not of the data the answer is no law at all."""
    table = torch.zeros(3, 3, 3, 3).double()
    for a in range(3):
        table[a, a, a, a], table[a, (a + 1) % 3, (a + 2) % 3, a] = 1.0, 0.5
    noise = NoiseLaw.uniform(3)
    exact = Oracle(table / table.sum(), noise)
    process = Process(Schedule.round_robin(4, 8, 0.0), noise)

    def answer(x, t, survival, sites):
        rows = []
        for k in range(len(x)):
            try:
                rows.append(exact(x[k : k + 1], t[k : k + 1], survival[k : k + 1], sites[k : k + 1]))
            except ValueError:
                rows.append(torch.full((1, 1, 3), -torch.inf).double())
        return torch.cat(rows)

    drawn = [run_chain(answer, process, 20, ahead=k, generator=torch.Generator().manual_seed(0)).tolist() for k in (1, 2, 5)]
    assert drawn[0] == drawn[1] == drawn[2]


def test_rows_that_are_read_go_together_even_behind_a_restriction():
    """A reader reads all rows at once; each row has its own beginning here."""
    torch.manual_seed(0)
    net = Transformer(TransformerConfig(V, L, width=16, layers=1, heads=2, cond_dim=8, causal=True)).double().eval()
    process = Process(Schedule.round_robin(L, L, 0.0, "left-to-right"), NOISE)
    rule = (torch.ones(L, dtype=torch.bool), torch.arange(V) == 2)
    given = torch.arange(L) < torch.tensor([[1], [3], [2]])
    x = run_chain(restrict(CausalConditional(net), [rule]), process, 3, clamp=(given, TOKENS[:3]), ahead=2)
    assert torch.equal(x[given], TOKENS[:3][given])
    assert not (x[~given] == 2).any()


def test_the_bench_weighs_the_chain_against_the_bare_network_and_keeps_what_it_has():
    kept = []
    figures = bench_sample(seconds=0.05, quick=True, keep=lambda found: kept.append(json.dumps(found)))
    assert len(kept) > 1
    assert json.loads(kept[-1])["skip"] == figures["skip"]
    assert not figures["failed"]
    assert {row["network"] for row in figures["rows"]} == {"large", "small"}
    for row in figures["rows"]:
        assert row["forward_seconds"] > 0
        assert row["ratio"] == row["call_seconds"] / row["forward_seconds"]
        assert row["calls_per_sample"] == pytest.approx(1.875 * row["length"])  # Σ of ½^k over four sweeps
    (skip,), (truncated,) = figures["skip"], figures["top_p"]
    assert skip["calls_per_sample_without"] == 4 * skip["length"]
    assert skip["calls_per_sample"] < skip["calls"] < skip["calls_without"]
    assert skip["calls_per_sample_1024"] == pytest.approx(1.875 * 1024)
    assert truncated["call_seconds"] > 0
    assert all(row["same_tokens"] == 1 for row in figures["ahead"])
    assert {row["ahead"] for row in figures["ahead"]} == {1, 2, 4, 8, "causal"}
