"""The chain with the exact conditional has the exact law; its options do what they say."""

import itertools
import math

import numpy as np
import pytest
import torch
from driving import driven, driver_step, exact_classifier, package
from enumeration import HEAT_BATH, KERNELS, REVERSAL, World, chi_square, common_part, index, random_law, site_law, tv

from glauber import CallCounter, Classifier, NoiseLaw, Oracle, Process, Schedule, Truncation, run_chain

FALSE_ALARM = 1e-6  # of each chi-square test, over all seeds; the seeds are fixed
EXACT = 1e-9

EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS)
EVERY_SKIP = pytest.mark.parametrize("skip", [True, False], ids=["skip", "no-skip"])


def two_sequences():
    """P* that knows only 012 and 210, so that most states cannot occur."""
    table = np.zeros(27)
    table[index([[0, 1, 2], [2, 1, 0]], 3)] = 0.3, 0.7
    return table


PI = np.array([0.2, 0.5, 0.3])
WORLDS = {
    "keep-half": World(random_law(27, 0, 0.5), PI, [0, 1, 2] * 3, [0.5] * 9),
    "keep-0.3-right": World(random_law(27, 1, 0.5), PI, [2, 1, 0] * 2, [0.3] * 6),
    "partial-sweep-given": World(random_law(27, 2, 0.5), PI, ([1, 2, 0] * 3)[:7], [0.9, 0.1, 0.7, 0.3, 1.0, 0.0, 0.6]),
    "ends-in-0": World(random_law(27, 3, 0.5), PI, [0, 1, 2] * 2, [0.6] * 3 + [0.0] * 3),
    "ends-in-0-partial": World(random_law(27, 4, 0.5), PI, ([2, 0, 1] * 3)[:7], [0.8] * 4 + [0.0] * 3),
    "one-sweep": World(random_law(27, 5, 0.5), PI, [1, 0, 2], [0.0] * 3),
    "noise-without-a-token": World(random_law(27, 6, 0.5), [0.4, 0.0, 0.6], [0, 1, 2] * 2, [0.6] * 3 + [0.0] * 3),
    "two-sequences": World(two_sequences(), PI, [0, 1, 2] * 2, [0.5] * 3 + [0.0] * 3),
    "strided-4-sites": World(random_law(16, 7, 0.5), [0.3, 0.7], [0, 2, 1, 3] * 2, [0.7] * 4 + [0.2] * 4),
    "4-tokens": World(random_law(16, 8, 0.5), [0.1, 0.2, 0.3, 0.4], [1, 0] * 2, [0.7, 0.4, 0.2, 0.0]),
}
EVERY_WORLD = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def histogram(x, V):
    return np.bincount(index(x, V), minlength=V ** x.shape[1])


# ---- the exact law, pushed through the steps of run_chain itself


@EVERY_WORLD
@EVERY_KERNEL
@EVERY_SKIP
def test_lemma_2_the_chain_from_P_T_ends_in_P_star(world, kernel, skip):
    """And is P_t at every t, since each of its steps is the enumerated one."""
    process, oracle = package(world)
    law = world.laws[-1]
    for t in reversed(range(world.T)):
        can_occur = world.laws[t + 1] > 0
        step = driver_step(world, process, oracle, t, kernel, skip=skip)
        np.testing.assert_allclose(step[can_occur], world.back(kernel, t)[can_occur], atol=1e-11)
        law = law @ step
        np.testing.assert_allclose(law, world.laws[t], atol=EXACT)
    np.testing.assert_allclose(law, world.table, atol=EXACT)


@pytest.mark.parametrize("name", ["ends-in-0", "ends-in-0-partial", "one-sweep", "noise-without-a-token", "two-sequences"])
@EVERY_KERNEL
def test_the_chain_from_noise_is_exact_when_the_schedule_ends_in_keep_0(name, kernel):
    world = WORLDS[name]
    np.testing.assert_allclose(driven(world, *package(world), world.noise, kernel)[0], world.table, atol=EXACT)


@pytest.mark.parametrize("name", ["keep-0.3-right", "4-tokens"])
@EVERY_KERNEL
def test_the_chain_from_noise_is_not_exact_when_signal_is_left(name, kernel):
    world = WORLDS[name]
    law = driven(world, *package(world), world.noise, kernel)[0]
    assert tv(law, world.table) > 1e-5
    np.testing.assert_allclose(law, world.reverse(kernel, world.noise), atol=EXACT)


@pytest.mark.parametrize("name", ["keep-half", "partial-sweep-given", "ends-in-0-partial", "two-sequences", "strided-4-sites"])
@EVERY_KERNEL
@EVERY_SKIP
def test_the_labelled_chain_from_P_T_ends_in_P_star(name, kernel, skip):
    """On pairs (token, is it signal?), every step is the enumerated one: heat bath or time reversal of the labelled process."""
    process, oracle = package(WORLDS[name])
    world = WORLDS[name].marked()
    law = world.laws[-1]
    for t in reversed(range(world.T)):
        can_occur = world.laws[t + 1] > 0
        step = driver_step(world, process, oracle, t, kernel, skip=skip, mark_noise=True)
        np.testing.assert_allclose(step[can_occur], world.back(kernel, t)[can_occur], atol=1e-11)
        law = law @ step
    np.testing.assert_allclose(law, world.table, atol=EXACT)


@pytest.mark.parametrize("name", ["keep-half", "keep-0.3-right", "strided-4-sites"])
@EVERY_KERNEL
def test_the_chain_of_the_exact_classifier_ends_in_P_star(name, kernel):
    """Algorithm 2 as printed: a step law from ŷ, no skip."""
    world = WORLDS[name]
    process, _ = package(world)
    classifier = Classifier(exact_classifier(world), process)
    np.testing.assert_allclose(driven(world, process, classifier, world.laws[-1], kernel)[0], world.table, atol=EXACT)


@pytest.mark.parametrize(("keep", "delta"), [(0.5, 0.1), (0.5, 0.02), (0.2, 0.01)])
def test_theorem_1_the_classifier_chain_from_noise_is_within_delta_of_P_star(keep, delta):
    """T ≥ L log(L/δ) / log(1/(1-p)), rounded up to whole sweeps."""
    L = 2
    sweeps = math.ceil(math.log(L / delta) / math.log(1 / keep))
    world = World(random_law(9, 9, 0.3), PI, [0, 1] * sweeps, [keep] * (L * sweeps))
    process, _ = package(world)
    law = driven(world, process, Classifier(exact_classifier(world), process), world.noise, HEAT_BATH)[0]
    assert tv(law, world.table) <= delta
    np.testing.assert_allclose(law, world.reverse(HEAT_BATH, world.noise), atol=EXACT)


@pytest.mark.parametrize("block", [2, 4])
@EVERY_KERNEL
@EVERY_SKIP
def test_a_block_above_1_is_not_exact(block, kernel, skip):
    """Its sites cannot see each other. Where they need not, since P* has independent sites, it is exact."""
    visits = ([0, 2, 1, 3] * 2, [0.6] * 4 + [0.0] * 4)
    coupled = World(random_law(16, 10, 0.3), [0.3, 0.7], *visits)
    one = [np.array([p, 1 - p]) for p in (0.9, 0.2, 0.6, 0.3)]
    independent = World(np.einsum("a,b,c,d->abcd", *one).ravel(), [0.3, 0.7], *visits)
    for world, exact in ((coupled, False), (independent, True)):
        process, oracle = package(world, block)
        law = world.laws[-1]
        for t in reversed(process.schedule.times):
            step = driver_step(world, process, oracle, t, kernel, skip=skip)
            np.testing.assert_allclose(step, world.block_back(kernel, t, block), atol=1e-11)
            law = law @ step
        gap = tv(law, world.table)
        assert gap < EXACT if exact else gap > 0.01


# ---- sampled: the driver's own loop, start and randomness

HALF = WORLDS["keep-half"]
MARKED = HALF.marked()
ALL_NOISE = np.eye(MARKED.N)[-1]
SOME = 5  # a state to start from in the middle of the chain
HELD = {1: 2}
CHAINS = {  # id: (options, the exact law)
    "heat-bath": ({}, lambda: HALF.reverse(HEAT_BATH, HALF.noise)),
    "heat-bath-no-skip": ({"skip": False}, lambda: HALF.reverse(HEAT_BATH, HALF.noise)),
    "reversal": ({"kernel": REVERSAL}, lambda: HALF.reverse(REVERSAL, HALF.noise)),
    "reversal-no-skip": ({"kernel": REVERSAL, "skip": False}, lambda: HALF.reverse(REVERSAL, HALF.noise)),
    "marked": ({"mark_noise": True}, lambda: HALF.table),
    "labelled-no-skip": ({"mark_noise": True, "skip": False}, lambda: HALF.table),
    "labelled-reversal": ({"mark_noise": True, "kernel": REVERSAL}, lambda: HALF.table),
    "clamped": (
        {"clamp": HELD},
        lambda: HALF.never_visiting(HELD).reverse(HEAT_BATH, HALF.given(HELD, HALF.noise), held=HELD),
    ),
    "clamped-reversal": (
        {"clamp": HELD, "kernel": REVERSAL},
        lambda: HALF.never_visiting(HELD).reverse(REVERSAL, HALF.given(HELD, HALF.noise), held=HELD),
    ),
    "clamped-paper": (
        {"clamp": HELD, "clamp_rule": "paper"},
        lambda: HALF.reverse(HEAT_BATH, HALF.given(HELD, HALF.noise), held=HELD),
    ),
    "clamped-labelled": ({"clamp": HELD, "mark_noise": True}, lambda: HALF.conditional(HELD)),
    "started-mid-chain": ({"start": 4}, lambda: HALF.reverse(HEAT_BATH, np.eye(27)[SOME], since=4)),
    "started-mid-chain-reversal": (
        {"start": 4, "kernel": REVERSAL},
        lambda: HALF.reverse(REVERSAL, np.eye(27)[SOME], since=4),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_sampled_chains_follow_the_exact_law(name):
    """Chi-square on 20,000 rows, false alarm 1e-6 each."""
    options, exact = CHAINS[name]
    process, oracle = package(HALF)
    rows = 20_000
    if "start" in options:
        options = {**options, "start": (torch.tensor(HALF.states[SOME]).repeat(rows, 1), options["start"])}
    x = run_chain(oracle, process, None if "start" in options else rows, generator=generator(), **options)
    assert x.shape == (rows, 3)
    assert x.dtype == torch.int64
    law = exact()
    assert abs(law.sum() - 1) < 1e-12
    assert chi_square(histogram(x, 3), law) > FALSE_ALARM


@pytest.mark.parametrize("kernel", KERNELS)
def test_sampled_block_chains_follow_the_exact_law(kernel):
    """Chi-square on 20,000 rows, false alarm 1e-6 each."""
    world = WORLDS["strided-4-sites"]
    process, oracle = package(world, block=2)
    law = world.noise
    for t in reversed(process.schedule.times):
        law = law @ world.block_back(kernel, t, 2)
    x = run_chain(oracle, process, 20_000, kernel=kernel, generator=generator())
    assert chi_square(histogram(x, 2), law) > FALSE_ALARM


def test_sampled_classifier_chains_follow_the_exact_law():
    """Chi-square on 20,000 rows, false alarm 1e-6."""
    process, _ = package(HALF)
    x = run_chain(Classifier(exact_classifier(HALF), process), process, 20_000, generator=generator())
    assert chi_square(histogram(x, 3), HALF.reverse(HEAT_BATH, HALF.noise)) > FALSE_ALARM


def test_a_labelled_start_takes_its_masks_for_noise():
    """Chi-square on 20,000 rows, false alarm 1e-6: from (0, noise, 1) at t = 2 the law is the labelled chain's."""
    process, oracle = package(HALF)
    start = torch.tensor([[0, 3, 1]]).repeat(20_000, 1)
    x = run_chain(oracle, process, start=(start, 2), mark_noise=True, kernel=REVERSAL, generator=generator())
    exact = MARKED.reverse(REVERSAL, np.eye(MARKED.N)[index([0, 3, 1], 4)], since=2)
    assert chi_square(histogram(x, 3), exact[index(HALF.states, 4)]) > FALSE_ALARM
    with pytest.raises(ValueError, match="never noised"):
        run_chain(oracle, process, start=(start, 1), mark_noise=True)


@pytest.mark.parametrize(
    "options", [{}, {"kernel": REVERSAL}, {"mark_noise": True}, {"temperature": 0.7, "truncate": "mixture"}], ids=str
)
def test_seeded_chains_are_reproducible(options):
    process, oracle = package(HALF)
    one, same, other = (run_chain(oracle, process, 64, generator=generator(seed), **options) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


# ---- how often the network is called

NUM = 2000
FIVE_SIGMA = 5  # false alarm 6e-7


def rows_sent(world, **options):
    process, oracle = package(world)
    counted = CallCounter(oracle)
    run_chain(counted, process, NUM, generator=generator(), **options)
    return counted.rows


def test_without_the_skip_every_step_of_every_row_calls_the_network():
    for options in ({}, {"kernel": REVERSAL}, {"mark_noise": True}):
        assert rows_sent(HALF, skip=False, **options) == HALF.T * NUM
    assert rows_sent(HALF, skip=True, temperature=0.9, truncate="mixture") == HALF.T * NUM


@pytest.mark.parametrize("mark_noise", [False, True], ids=["anonymous", "marked"])
@pytest.mark.parametrize("name", ["keep-half", "partial-sweep-given", "ends-in-0"])
def test_identity_5_the_heat_bath_with_the_skip_calls_the_network_with_probability_S(name, mark_noise):
    world = WORLDS[name]
    S = np.array([world.survival(t)[i] for t, i in enumerate(world.sites)])
    sigma = math.sqrt(NUM * (S * (1 - S)).sum())
    assert abs(rows_sent(world, mark_noise=mark_noise) - NUM * S.sum()) <= FIVE_SIGMA * sigma
    assert rows_sent(world, mark_noise=mark_noise) < world.T * NUM


@pytest.mark.parametrize("name", ["keep-half", "ends-in-0"])
def test_identity_6_the_reversal_with_the_skip_calls_the_network_as_often_as_enumerated(name):
    """Σ_t P(a coin falls outside the common part), over the exact law of the states that the chain goes through."""
    world = WORLDS[name]
    law, expected = world.noise, 0.0
    for t in reversed(range(world.T)):
        i, S = world.sites[t], world.survival(t)
        silent = [common_part(REVERSAL, S[i], world.keep[t], world.pi, x[i]).sum() for x in world.states]
        expected += law @ (1 - np.array(silent))
        law = law @ world.back(REVERSAL, t)
    sigma = world.T / 2 * math.sqrt(NUM)  # a row's count lies in 0..T
    assert abs(rows_sent(world, kernel=REVERSAL) - NUM * expected) <= FIVE_SIGMA * sigma
    assert expected < sum(
        1 - k * (1 - s) / (1 - k * s) for k, s in ((world.keep[t], world.survival(t)[i]) for t, i in enumerate(world.sites))
    )


def test_identity_9_the_labelled_reversal_calls_the_network_once_per_site():
    """Noise turns into signal once and stays; all have turned by the first visit."""
    assert rows_sent(HALF, mark_noise=True, kernel=REVERSAL) == HALF.L * NUM


def test_clamped_sites_cost_no_calls():
    assert rows_sent(HALF, clamp={0: 1, 2: 0}, skip=False) == 3 * NUM
    assert rows_sent(HALF, clamp={0: 1, 1: 1, 2: 0}) == 0


# ---- what the chain shows and what it holds fixed


@pytest.mark.parametrize("options", [{}, {"kernel": REVERSAL, "skip": False}, {"mark_noise": True}], ids=str)
def test_on_step_sees_every_state_and_each_differs_at_the_visited_site_only(options):
    world = WORLDS["partial-sweep-given"]
    process, oracle = package(world)
    seen = []

    def on_step(t, x):
        seen.append((t, x.clone()))
        x.zero_()  # a copy: what is done to it does not reach the chain

    x = run_chain(oracle, process, 50, generator=generator(), on_step=on_step, **options)
    assert [t for t, _ in seen] == list(range(world.T, -1, -1))
    assert torch.equal(x, seen[-1][1])
    for (_, before), (t, after) in itertools.pairwise(seen):
        others = [j for j in range(world.L) if j != world.sites[t]]
        assert torch.equal(before[:, others], after[:, others])
    assert any(not torch.equal(before, after) for (_, before), (_, after) in itertools.pairwise(seen))


@pytest.mark.parametrize("options", [{}, {"kernel": REVERSAL}, {"mark_noise": True}, {"clamp_rule": "paper"}], ids=str)
def test_clamped_sites_never_change(options):
    process, oracle = package(HALF)
    tokens = torch.randint(3, (40, 3), generator=generator(3))
    mask = torch.rand(40, 3, generator=generator(4)) < 0.5
    states = []
    run_chain(
        oracle, process, 40, clamp=(mask, tokens), generator=generator(), on_step=lambda t, x: states.append(x), **options
    )
    assert len(states) == HALF.T + 1
    for x in states:
        assert torch.equal(x[mask], tokens[mask])


# ---- temperature, bans, top-k and top-p, against a computation by hand

TRUNCATIONS = {
    "temperature": {"temperature": 0.6},
    "ban": {"ban": [1]},
    "top-k": {"top_k": 2},
    "top-p": {"top_p": 0.7},
    "ban and top-p": {"ban": [3], "top_p": 0.7},
    "temperature and top-p": {"temperature": 1.6, "top_p": 0.7},
    "all": {"temperature": 1.4, "ban": [0], "top_k": 3, "top_p": 0.8},
}


def by_hand(law, temperature=1.0, ban=(), top_k=None, top_p=1.0):
    """Temperature, ban, top-k, top-p, in this order, on one law."""
    weight = {a: p ** (1 / temperature) for a, p in enumerate(law) if a not in ban}
    weight = dict(sorted(weight.items(), key=lambda item: -item[1])[:top_k])
    total, kept, reached = sum(weight.values()), {}, 0.0
    for a, w in weight.items():
        if reached < top_p:
            kept[a] = w
        reached += w / total
    return np.array([kept.get(a, 0.0) for a in range(len(law))]) / sum(kept.values())


TRUNCATED = World(random_law(64, 11, 0.5), [0.1, 0.2, 0.3, 0.4], [0, 1, 2] * 2, [0.7] * 3 + [0.4] * 3)


@pytest.mark.parametrize("truncation", TRUNCATIONS.values(), ids=TRUNCATIONS)
@pytest.mark.parametrize("place", ["clean", "mixture"])
@EVERY_KERNEL
@EVERY_SKIP
def test_identity_5_truncation_changes_the_law_that_it_names(truncation, place, kernel, skip):
    """ "clean" truncates c and mixes the noise in afterwards, "mixture" truncates p_t; the kernel comes last."""
    world, t = TRUNCATED, 4
    i, S, process, oracle = world.sites[t], world.survival(t), *package(world)
    if place == "clean":
        law, survival = np.array([by_hand(row, **truncation) for row in world.clean(t, i)]), S
    else:
        law, survival = np.array([by_hand(row, **truncation) for row in world.step_law(t)]), np.ones(world.L)
    step = driver_step(world, process, oracle, t, kernel, [law], survival, skip=skip, truncate=place, **truncation)
    for n, x in enumerate(world.states):
        expected = site_law(kernel, law[n], survival[i], world.keep[t], world.pi, x[i])
        np.testing.assert_allclose(step[n, np.flatnonzero(world.same_off[i][n])], expected, atol=1e-11)
    assert np.abs(step - world.back(kernel, t)).max() > 0.01


def test_a_list_of_temperatures_gives_each_part_of_the_chain_its_own():
    """[1.05, 1.0]: 1.05 in the first half of the denoising steps, t ≥ T/2, as in the paper."""
    world = TRUNCATED
    process, oracle = package(world)
    for t, i in enumerate(world.sites):
        law = np.array([by_hand(row, 1.05 if t >= world.T / 2 else 1.0) for row in world.clean(t, i)])
        step = driver_step(world, process, oracle, t, HEAT_BATH, [law], temperature=[1.05, 1.0])
        p = world.survival(t)[i] * law + (1 - world.survival(t)[i]) * world.pi
        np.testing.assert_allclose(step[0, np.flatnonzero(world.same_off[i][0])], p[0], atol=1e-11)


def test_a_block_has_the_temperature_of_the_part_that_its_first_visit_lies_in():
    """Three updates of four visits and two temperatures: the middle one begins before the half, and belongs to it."""
    process, seen = Process(Schedule.round_robin(4, 12, 1.0, block=4), NoiseLaw.uniform(2)), []

    def conditional(x, t, survival, sites):
        seen.append(int(t[0]))
        return torch.tensor([0.6, 0.4]).double().log().expand(*sites.shape, 2)

    for on_step in (lambda t, x: None, None):  # one step after the other, and each row at its own pace
        states = []
        for stop in (8, 4, 0):
            x = run_chain(
                conditional, process, 1000, temperature=(1.0, 1e-3), stop=stop, on_step=on_step, generator=generator()
            )
            states.append((x == 0).double().mean().item())
        assert states == [pytest.approx(0.6, abs=0.05), pytest.approx(0.6, abs=0.05), 1.0]  # 6 standard errors
    assert set(seen) == {8, 4, 0}


@EVERY_KERNEL
@EVERY_SKIP
def test_a_rule_leaves_the_law_without_the_barred_tokens_at_its_sites_and_alone_elsewhere(kernel, skip):
    world, t = TRUNCATED, 4
    i, process, oracle = world.sites[t], *package(world)
    barred = torch.tensor([True, False, True, False])
    for here in (True, False):
        sites = (torch.arange(world.L) == i) == here
        law = np.array([by_hand(row, ban=(0, 2) if here else ()) for row in world.clean(t, i)])
        step = driver_step(world, process, oracle, t, kernel, [law], skip=skip, _rules=[(sites, barred)])
        for n, x in enumerate(world.states):
            expected = site_law(kernel, law[n], world.survival(t)[i], world.keep[t], world.pi, x[i])
            np.testing.assert_allclose(step[n, np.flatnonzero(world.same_off[i][n])], expected, atol=1e-11)


@pytest.mark.parametrize("mark_noise", [False, True], ids=["anonymous", "marked"])
def test_banned_tokens_never_appear_when_the_last_sweep_draws_them_all(mark_noise):
    process, oracle = package(TRUNCATED)
    x = run_chain(oracle, process, 500, ban=[2], mark_noise=mark_noise, generator=generator())
    assert not (x == 2).any()
    assert (x == 3).any()


def test_a_step_law_refuses_what_it_cannot_do():
    process, _ = package(HALF)
    classifier = Classifier(exact_classifier(HALF), process)
    for options in ({"mark_noise": True}, {"top_p": 0.9}):
        with pytest.raises(ValueError, match="step law"):
            run_chain(classifier, process, 2, **options)


def test_any_conditional_and_any_schedule_of_the_same_length_run_together():
    """The order of sites and the keep belong to the schedule; a conditional that ignores t runs on any."""
    _, oracle = package(HALF)
    for order, block, steps in (("right-to-left", 1, 3), ("left-to-right", 3, 6), ("strided", 3, 9), ("random", 1, 8)):
        schedule = Schedule.round_robin(3, steps, keep=0.4, order=order, block=block, last_keep=0.0, generator=generator())
        counted = CallCounter(oracle)
        x = run_chain(counted, Process(schedule, oracle.noise), 2000, skip=False, generator=generator())
        assert counted.calls == steps // block
        if block == 1:
            assert chi_square(histogram(x, 3), HALF.table) > FALSE_ALARM


def test_a_conditional_of_another_vocabulary_is_refused():
    process = Process(Schedule.round_robin(3, 6, last_keep=0.0), NoiseLaw.uniform(3))
    wider = Oracle(torch.full((4, 4, 4), 1 / 64, dtype=torch.float64), NoiseLaw.uniform(4))
    for mark_noise in (False, True):
        with pytest.raises(ValueError, match=r"where .* was due"):
            run_chain(wider, process, 4, mark_noise=mark_noise)


@pytest.mark.parametrize("mark_noise", [False, True])
def test_a_clamped_site_of_a_block_is_evidence_for_the_others(mark_noise):
    table = torch.tensor([[0.5, 0.0], [0.0, 0.5]], dtype=torch.float64)
    process = Process(Schedule.round_robin(2, 4, "linear", block=2), NoiseLaw.uniform(2))
    for token in (0, 1):
        x = run_chain(Oracle(table, process.noise), process, 50, clamp={0: token}, mark_noise=mark_noise)
        assert (x == token).all()


@pytest.mark.parametrize("mark_noise", [False, True])
@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_an_answer_that_is_no_law_is_refused(mark_noise, value):
    process = Process(Schedule.round_robin(2, 4, "linear"), NoiseLaw.uniform(2))
    with pytest.raises(ValueError, match="NaN, or left some site no token"):
        run_chain(lambda x, t, s, sites: torch.full((*sites.shape, 2), value), process, 4, mark_noise=mark_noise)


def test_a_schedule_that_does_not_visit_every_site_is_refused_from_noise():
    process = Process(Schedule.round_robin(4, 2), NoiseLaw.uniform(2))
    with pytest.raises(ValueError, match="visits only 2 of 4"):
        run_chain(lambda x, t, s, sites: torch.zeros(*sites.shape, 2), process, 4)


def test_a_classifier_of_another_process_is_refused():
    one, other = (Process(Schedule.round_robin(3, steps), NoiseLaw.uniform(3)) for steps in (6, 12))
    with pytest.raises(ValueError, match="another process"):
        run_chain(Classifier(lambda x, t, s, sites: torch.zeros(*sites.shape, 3), one), other, 4)


@pytest.mark.parametrize("parts", [2, 3, 5, 6, 7])
def test_each_temperature_serves_an_equal_part_of_the_chain(parts):
    log_law = torch.tensor([[[0.8, 0.2]]], dtype=torch.float64).log()
    truncation = Truncation([float(k + 1) for k in range(parts)])
    for done in range(3 * parts):
        by_hand = torch.tensor([0.8, 0.2], dtype=torch.float64) ** (1 / (done // 3 + 1))
        assert torch.allclose(truncation(log_law, done, 3 * parts)[0, 0], by_hand / by_hand.sum())
