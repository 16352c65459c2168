"""Rows that go at their own pace give the tokens of one step after the other, with the same rows through the network."""

import json
from contextlib import nullcontext

import pytest
import torch

from glauber.bench import bench_sample
from glauber.chain import CallCounter, driver, run_chain
from glauber.chain.engine import Walk, walk
from glauber.chain.runner import eager
from glauber.chain.step import Rows
from glauber.conditional import CausalConditional, Denoiser, Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule
from glauber.process.draws import RowGenerators
from glauber.runtime.progress import progress_bar

V, L, ROWS = 5, 6, 7


def network():
    """A network whose answers depend on all of its input."""
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
    "marked noise": (Schedule.round_robin(L, 4 * L, KEEP), {"mark_noise": True}),
    "marked noise in blocks": (Schedule.round_robin(L, 4 * L, KEEP, block=3), {"mark_noise": True}),
    "clamped": (Schedule.round_robin(L, 4 * L, KEEP, block=2), {"clamp": (GIVEN.expand(ROWS, L), TOKENS)}),
    "clamped by the paper's rule": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": {1: 2}, "clamp_rule": "paper"}),
    "each row its own clamp": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": (TOKENS > 2, TOKENS)}),
    "absent": (Schedule.round_robin(L, 4 * L, KEEP), {"absent": GIVEN}),
    "each row its own absent sites and rules": (
        Schedule.round_robin(L, 4 * L, KEEP),
        {"absent": TOKENS > 3, "_rules": [(TOKENS < 3, torch.arange(V) == 2), (GIVEN, torch.arange(V) == 0)]},
    ),
    "blocks that stop in the middle": (Schedule.round_robin(L, 4 * L, KEEP, "strided", block=2), {"stop": 3 * L}),
    "from the middle, not to the end": (Schedule.round_robin(L, 4 * L, KEEP), {"start": (TOKENS, 17), "stop": 4}),
    "truncated": (Schedule.round_robin(L, 4 * L, KEEP), {"temperature": (1.5, 0.5, 0.9), "top_p": 0.7, "ban": [1]}),
}


def replaying(conditional, x, calls):
    """A runner that stands in for CUDA graphs on a CPU: the step is repeated, not replayed, with shapes that do not change."""
    return nullcontext(lambda step, calls: step)


def not_worth_it(conditional, x, calls):
    """A runner that could replay a step and does not."""
    return nullcontext(lambda step, calls: None)


def bar(total):
    return progress_bar(False, total, "chain", "step")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("window", [2**24, 3 * 2 * ROWS])
@pytest.mark.parametrize("runner", [eager, replaying, not_worth_it])
def test_rows_at_their_own_pace_give_the_tokens_of_one_step_after_the_other(name, window, runner, monkeypatch):
    monkeypatch.setattr(driver, "WINDOW", window)  # random numbers for three steps at once, or for all
    schedule, options = SETTINGS[name]
    process, rows = Process(schedule, NOISE), None if "start" in options else ROWS
    results = []
    for on_step in (lambda t, x: None, None):  # to be shown every state, all rows must go together
        counted, generator = CallCounter(Denoiser(network())), torch.Generator().manual_seed(3)
        x = run_chain(counted, process, rows, generator=generator, on_step=on_step, _runner=runner, **options)
        results.append((x.tolist(), counted.rows, torch.rand((), generator=generator).item()))
    assert results[0] == results[1]


@pytest.mark.parametrize("on_step", [None, lambda t, x: None], ids=["own pace", "together"])
def test_rows_of_several_requests_in_one_chain_are_those_of_each_alone(on_step):
    """Each has its own given, absent and barred sites, and its own random numbers, whatever its company."""
    process, net = Process(Schedule.round_robin(L, 4 * L, KEEP, block=2), NOISE), Denoiser(network())
    absent, barred, places = TOKENS > 3, torch.arange(V) == 2, TOKENS < 3
    parts, alone = [], []
    for seed, rows in enumerate((slice(0, 2), slice(2, 3), slice(3, ROWS))):
        own = {"clamp": (TOKENS[rows] == 1, TOKENS[rows]), "absent": absent[rows], "_rules": [(places[rows], barred)]}
        number = len(TOKENS[rows])
        alone.append(run_chain(net, process, number, generator=torch.Generator().manual_seed(seed), on_step=on_step, **own))
        parts.append((torch.Generator().manual_seed(seed), number))
    every = {"clamp": (TOKENS == 1, TOKENS), "absent": absent, "_rules": [(places, barred)]}
    x = run_chain(net, process, ROWS, generator=RowGenerators(parts), on_step=on_step, **every)
    assert torch.equal(x, torch.cat(alone))
    assert not (x[places & (TOKENS != 1) & ~absent] == 2).any()
    with pytest.raises(ValueError, match="not for 6 rows"):
        run_chain(net, process, ROWS - 1, generator=RowGenerators(parts))


def test_a_bar_is_no_reason_to_go_step_by_step(monkeypatch):
    process, calls = Process(Schedule.round_robin(L, 40 * L, 0.9, last_keep=0.0), NOISE), []
    for progress in (False, True):
        counted = CallCounter(Denoiser(network()))
        run_chain(counted, process, ROWS, generator=torch.Generator().manual_seed(0), progress=progress)
        calls.append(counted.calls)
    assert calls[0] == calls[1] < 40 * L


@pytest.mark.parametrize(("block", "calls"), [(1, 1.875), (2, (1 + 3 / 4 + 7 / 16 + 15 / 64) / 2)])
def test_a_runner_knows_what_the_chain_is_about_to_do(block, calls):
    """In a sweep whose visits keep S each site needs a call with probability S, a block of two with 1 - (1 - S)²."""
    seen = []

    def runner(conditional, x, calls):
        seen.append((conditional, x.shape, calls))
        return nullcontext()

    net = Denoiser(network())
    rule = (torch.ones(L, dtype=torch.bool), torch.arange(V) == 2)
    process = Process(Schedule.round_robin(L, 4 * L, 0.5, block=block), NOISE)
    run_chain(CallCounter(net), process, ROWS, _rules=[rule], _runner=runner)
    assert seen == [(net, (ROWS, L), calls * L)]


def test_fewer_calls_are_made_when_rows_go_at_their_own_pace():
    process = Process(Schedule.round_robin(L, 40 * L, 0.9, last_keep=0.0), NOISE)
    together, own_pace = CallCounter(Denoiser(network())), CallCounter(Denoiser(network()))
    run_chain(together, process, ROWS, generator=torch.Generator().manual_seed(0), on_step=lambda t, x: None)
    run_chain(own_pace, process, ROWS, generator=torch.Generator().manual_seed(0))
    assert own_pace.rows == together.rows
    assert own_pace.calls < together.calls


def test_a_replayed_step_goes_through_all_rows_and_gives_the_same():
    """Shapes must not change, so rows that are done go through the network, too."""
    sizes, net = [], network()

    def law(rows, x, time, sites, S, now):
        sizes.append(len(rows))
        return Denoiser(net)(x, time, process.schedule.survival(time), sites).exp()

    process = Process(Schedule.round_robin(L, 5 * L, 0.7, last_keep=0.0), NOISE)
    u = torch.rand(5 * L, 2, ROWS, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    results = []
    for graph in (None, lambda step, calls: step):
        start = NOISE.sample((ROWS, L), torch.Generator().manual_seed(1))
        steps = Walk(process, start, 5 * L, u, torch.ones(ROWS, L, dtype=torch.bool), False)
        sizes.clear()
        x, calls, rows = walk(steps, law, graph, bar)
        assert calls == len(sizes)
        assert rows == int(steps.number.sum())
        results.append(x.tolist())
    assert set(sizes) == {ROWS}
    assert results[0] == results[1]


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, 0.0])
@pytest.mark.parametrize("at", [0, 5, 11])
def test_one_law_that_cannot_be_drawn_from_is_refused_at_the_end(wrong, at):
    process = Process(Schedule.round_robin(L, 2 * L, 1.0), NOISE)
    calls = iter(range(2 * L))

    def law(rows, x, time, sites, S, now):
        found = NOISE.probs.expand(len(rows), 1, V).clone()
        if next(calls) == at:
            found[1] = wrong
        return found

    u = torch.rand(2 * L, 2, 3, 1, dtype=torch.float64)
    steps = Walk(process, NOISE.sample((3, L)), 2 * L, u, torch.ones(3, L, dtype=torch.bool), False)
    with pytest.raises(ValueError, match="NaN"):
        walk(steps, law, None, bar)


def test_what_is_answered_about_a_row_that_is_done_does_not_matter():
    """Where shapes must not change, such rows go through the network, too, but nothing is drawn for them."""
    process = Process(Schedule.round_robin(L, 4 * L, 0.7, last_keep=0.0), NOISE)

    def law(rows, x, time, sites, S, now):
        over = steps.done[rows] >= steps.number[rows]
        met.append(bool(over.any()))
        return torch.where(over[:, None, None], torch.nan, NOISE.probs.expand(len(rows), 1, V))

    met, u = [], torch.rand(4 * L, 2, ROWS, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    steps = Walk(process, NOISE.sample((ROWS, L)), 4 * L, u, torch.ones(ROWS, L, dtype=torch.bool), False)
    x, _, _ = walk(steps, law, lambda step, calls: step, bar)
    assert any(met)
    assert x.max() < V


def test_rows_of_a_causal_conditional_go_together_even_under_a_rule():
    """It takes all rows through the same site at once; each row has its own beginning here."""
    torch.manual_seed(0)
    net = Transformer(TransformerConfig(V, L, width=16, layers=1, heads=2, cond_dim=8, causal=True)).double().eval()
    process = Process(Schedule.round_robin(L, L, 0.0, "left-to-right"), NOISE)
    rule = (torch.ones(L, dtype=torch.bool), torch.arange(V) == 2)
    given = torch.arange(L) < torch.tensor([[1], [3], [2]])
    x = run_chain(CausalConditional(net), process, 3, clamp=(given, TOKENS[:3]), _rules=[rule])
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


@pytest.mark.parametrize("name", ["right-to-left", "blocks", "marked noise", "each row its own clamp", "truncated"])
def test_rows_that_are_taken_out_stay_as_they_are_and_the_others_go_on_as_before(name):
    schedule, options = SETTINGS[name]
    process, counter = Process(schedule, NOISE), CallCounter(Denoiser(network()))
    whole = run_chain(Denoiser(network()), process, ROWS, generator=torch.Generator().manual_seed(1), **options)
    state = Rows.of(ROWS, schedule.block, whole.device)
    seen: dict[int, torch.Tensor] = {}

    def watch(t: int, x: torch.Tensor) -> None:
        seen[t] = x
        if t == 2 * L:
            state.part(slice(2, 4)).gone[:] = True

    found = run_chain(counter, process, ROWS, generator=torch.Generator().manual_seed(1), on_step=watch, _rows=state, **options)
    left = torch.tensor([0, 1, 4, 5, 6])
    assert torch.equal(found[left], whole[left])
    assert torch.equal(found[2:4], seen[2 * L][2:4])
    assert not torch.equal(found[2:4], whole[2:4])
    assert counter.rows == int(state.calls.sum())
    assert state.calls[2:4].max() < state.calls[left].min()
