"""Rows that go ahead at their own pace give the tokens of one step after the other, with the same rows through the network."""

import pytest
import torch

from glauber.bench import bench_sample
from glauber.chain import Counted, driver, run_chain
from glauber.conditional import Denoiser, Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule

V, L, ROWS = 5, 6, 7


def network():
    """A network whose answers depend on all that it is told."""
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(V, L, width=16, layers=2, heads=2, cond=8)).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


NOISE = NoiseLaw(torch.tensor([0.1, 0.3, 0.2, 0.25, 0.15]))
KEEP = (0.9, 0.4, 0.6, 0.0)
GIVEN = torch.tensor([True, False, False, True, False, False])
TOKENS = torch.arange(ROWS * L).view(ROWS, L) % V

SETTINGS = {
    "left": (Schedule.round_robin(L, 4 * L, KEEP), {}),
    "random order": (Schedule.round_robin(L, 4 * L, KEEP, torch.tensor([3, 0, 5, 1, 4, 2])), {}),
    "blocks": (Schedule.round_robin(L, 4 * L, KEEP, "strided", block=2), {}),
    "one block": (Schedule.round_robin(L, 4 * L, KEEP, "right", block=L), {}),
    "no whole sweeps": (Schedule.round_robin(L, 3 * L + 2, 0.5, "right", block=2, last_keep=0.0), {}),
    "keep everything": (Schedule.round_robin(L, 2 * L, (1.0, 0.0)), {}),
    "labels": (Schedule.round_robin(L, 4 * L, KEEP), {"labels": True}),
    "labels in blocks": (Schedule.round_robin(L, 4 * L, KEEP, block=3), {"labels": True}),
    "clamped": (Schedule.round_robin(L, 4 * L, KEEP, block=2), {"clamp": (GIVEN.expand(ROWS, L), TOKENS)}),
    "clamped by the paper's rule": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": {1: 2}, "clamp_rule": "paper"}),
    "each row its own clamp": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": (TOKENS > 2, TOKENS)}),
    "absent": (Schedule.round_robin(L, 4 * L, KEEP), {"absent": GIVEN}),
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
        counted, generator = Counted(Denoiser(network())), torch.Generator().manual_seed(3)
        x = run_chain(counted, process, rows, generator=generator, on_step=on_step, ahead=ahead, **options)
        rows_used = counted.rows if ahead == 1 else None  # guesses cost rows
        results.append((x.tolist(), rows_used, torch.rand((), generator=generator).item()))
    assert results[0] == results[1]


def test_fewer_calls_are_made_when_rows_go_ahead():
    process = Process(Schedule.round_robin(L, 40 * L, 0.9, last_keep=0.0), NOISE)
    together, ahead = Counted(Denoiser(network())), Counted(Denoiser(network()))
    run_chain(together, process, ROWS, generator=torch.Generator().manual_seed(0), on_step=lambda t, x: None)
    run_chain(ahead, process, ROWS, generator=torch.Generator().manual_seed(0))
    assert ahead.rows == together.rows
    assert ahead.calls < together.calls


def test_guesses_of_independent_sites_are_right_the_second_time():
    """Whatever the state, the draw is the same; so a window of k steps is guessed in one call, and taken by the next."""
    law = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25]).double().log()
    counted = Counted(lambda x, t, survival, sites: law.expand(*sites.shape, V))
    process = Process(Schedule.round_robin(L, 50 * L, 1.0), NOISE)  # needs the network at every step
    run_chain(counted, process, 1, generator=torch.Generator().manual_seed(0), ahead=10)
    assert counted.calls <= 2 * 50 * L / 10 + 1


@pytest.mark.parametrize("ahead", [0, -1, 1.5])
def test_a_look_ahead_of_no_step_is_refused(ahead):
    with pytest.raises(ValueError, match="ahead must be 1 or more"):
        run_chain(Denoiser(network()), Process(Schedule.round_robin(L, L, 0.0), NOISE), 1, ahead=ahead)


def test_the_last_state_is_refused_if_some_law_was_not_one():
    process = Process(Schedule.round_robin(L, L, 0.0), NOISE)
    with pytest.raises(ValueError, match="NaN"):
        run_chain(lambda x, t, s, sites: torch.full((*sites.shape, V), torch.nan), process, ROWS)


def test_the_bench_weighs_the_chain_against_the_bare_network():
    rows = bench_sample(seconds=0.05, quick=True)["rows"]
    assert {row["network"] for row in rows} == {"large", "small"}
    for row in rows:
        assert row["forward_seconds"] > 0
        assert row["ratio"] == row["call_seconds"] / row["forward_seconds"]
        assert row["calls_per_sample"] == pytest.approx(1.875 * row["length"])  # Σ of ½^k over four sweeps
