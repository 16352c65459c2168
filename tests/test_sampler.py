"""A chain for a budget of network calls keeps to it, and is exact where the budget has a call for each site."""

import itertools

import numpy as np
import pytest
import torch
from commands import glauber
from driving import driven
from enumeration import HEAT_BATH, World, random_law
from refusals import refused

from glauber import CallCounter, Model, NoiseLaw, Oracle, Process, Schedule, Transformer, TransformerConfig, run_chain
from glauber.chain.budget import schedule_within
from glauber.method.diffusion import sites_in
from glauber.process import smallest_block

V, L = 5, 12
NOISE = NoiseLaw.uniform(V)


def model(method="ggm", **network):
    torch.manual_seed(0)
    net = Transformer(TransformerConfig(V, L, width=16, layers=1, heads=2, cond_dim=8, **network))
    torch.nn.init.normal_(net.head.weight)
    return Model(net, Process(Schedule.round_robin(L, 2 * L, 0.5), NOISE), method=method)


@pytest.mark.parametrize("calls", range(1, 3 * L + 2))
def test_no_sample_takes_more_calls_than_were_given(calls):
    schedule = schedule_within(calls, L)
    counted = CallCounter(lambda x, t, survival, sites: NOISE.probs.log().expand(*sites.shape, V))
    run_chain(counted, Process(schedule, NOISE), 3)
    assert counted.calls <= len(schedule.times) <= calls
    assert counted.rows <= 3 * calls
    if schedule.block > 1:  # the next smaller block would be too small
        steps, smaller = schedule.steps, max(b for b in range(1, schedule.block) if L % b == 0)
        assert steps > smaller * calls


def test_every_site_is_visited_and_begins_as_noise():
    for calls, length in itertools.product(range(1, 40), (7, 8, 12)):
        schedule = schedule_within(calls, length)
        assert set(schedule.order.tolist()) == set(range(length))
        assert schedule.steps >= length
        assert (schedule.survival(torch.tensor([schedule.steps])) == 0).all()


@pytest.mark.parametrize("calls", [3, 6, 11, 20])
def test_the_law_is_exact_where_there_is_a_call_for_each_site(calls):
    schedule = schedule_within(calls, 3)
    assert schedule.block == 1
    pi = np.array([0.2, 0.5, 0.3])
    world = World(random_law(27, 0, 0.5), pi, schedule.site(torch.arange(schedule.steps)).tolist(), schedule.keep.tolist())
    noise = NoiseLaw(torch.tensor(pi))
    oracle = Oracle(torch.tensor(world.table).view(3, 3, 3), noise)
    law = driven(world, Process(schedule, noise), oracle, world.noise, HEAT_BATH)[0]
    np.testing.assert_allclose(law, world.table, atol=1e-9)


def test_a_model_samples_within_its_calls():
    made = model()
    for calls in (4, 7, L):
        schedule, sampler = schedule_within(calls, L), made.sampler(calls=calls)
        process, generator = Process(schedule, NOISE), torch.Generator().manual_seed(0)
        wanted = run_chain(made.method.conditional(made.network, process), process, 5, generator=generator)
        assert torch.equal(made.sample_tokens(5, seed=0, calls=calls), wanted)
        assert sampler.schedule.to_dict() == schedule.to_dict()
        assert sampler.calls == len(schedule.times) <= calls


@pytest.mark.parametrize(
    ("length", "steps", "calls", "block"), [(12, 48, 48, 1), (12, 48, 47, 2), (12, 48, 5, 12), (12, 18, 5, 6)]
)
def test_the_smallest_block_divides_the_sites_and_the_visits(length, steps, calls, block):
    assert smallest_block(length, steps, calls) == block


@pytest.mark.parametrize(("steps", "calls"), [(48, 3), (18, 2)])
def test_a_budget_that_no_block_meets_is_refused(steps, calls):
    with refused("no block of 12 sites"):
        smallest_block(12, steps, calls)


def test_the_chain_begins_at_the_beginning_of_each_part():
    made = model()
    plan = made.sampler(calls=4)
    assert plan.schedule.sites(torch.tensor([9])).tolist() == [[0, 4, 8]]
    assert plan.schedule.sites(torch.tensor([0])).tolist() == [[3, 7, 11]]
    assert made.sampler(calls=L).schedule.causal


def test_other_methods_draw_each_part_from_its_beginning_too():
    assert sites_in("segments", L, 4).view(4, 3).sort(1).values.tolist() == [[k, k + 4, k + 8] for k in range(4)]
    assert sites_in("segments", L, L).tolist() == list(range(L))


@pytest.mark.parametrize(
    ("made", "options", "about"),
    [
        (model(), {"calls": 0}, "1 or more, not 0"),
        (model(), {"calls": 2.5}, "1 or more, not 2.5"),
        (model(), {"calls": 4, "sweeps": 2}, "leave either these out or calls"),
        (model(), {"calls": 4, "order": "right-to-left"}, "leave either these out or calls"),
        (model(), {"calls": 4, "sampler": "euler"}, "no chain"),
        (model(), {"calls": 4, "clamp": {0: 1}}, "choose sweeps and a block"),
        (model(), {"num": None, "calls": 4, "start": (torch.zeros(2, L, dtype=torch.int64), 4)}, "choose sweeps and a block"),
        (model(conditioning="time"), {"calls": 4}, "its own schedule alone"),
        (model("ggm-binary"), {"calls": 4}, "its own schedule alone"),
        (model("mlm"), {"calls": 4}, "whole sweeps of 12 calls"),
        (model("ar", causal=True), {"calls": 4}, "makes 12 calls, one a site"),
    ],
    ids=str,
)
def test_calls_that_make_no_sense_are_refused(made, options, about):
    with refused(about):
        made.sample_tokens(**{"num": 2, "seed": 0} | options)


def test_the_command_keeps_to_the_calls_and_says_what_it_does_not_use(tmp_path):
    model().save(tmp_path / "model")
    done = glauber("sample", tmp_path / "model", "-n", 2, "--seed", 1, "--calls", 6, "--json")
    assert done.returncode == 0
    assert not done.stderr
    done = glauber("sample", tmp_path / "model", "--seed", 1, "--calls", 5)
    assert "4 of the 5 calls are used; blocks must divide the 12 sites" in done.stderr
    done = glauber("sample", tmp_path / "model", "--seed", 1, "--calls", 1000)
    assert f"{L} of the 1000 calls are used; more do not help" in done.stderr
    for words, about in (((0,), "1 or more, not 0"), ((4, "--sweeps", 2), "leave either these out or calls")):
        done = glauber("sample", tmp_path / "model", "--calls", *words)
        assert done.returncode == 2
        assert about in done.stderr
        assert done.stderr.count("\n") == 1
