"""The forward process: what the schedule, the noise law and `corrupt` do is what noising step by step does."""

import math

import numpy as np
import pytest
import torch
from enumeration import World, chi_square, index, random_law, tv

from glauber import NoiseLaw, Process, Schedule
from glauber.process.draws import categorical, inverse_cdf

FALSE_ALARM = 1e-6  # of each chi-square test, over all seeds; the seeds are fixed

# id: (arguments of round_robin, the same visits written out: sites of one sweep, keep of each step)
SCHEDULES = {
    "keep-half": ({"length": 3, "steps": 12, "keep": 0.5}, [0, 1, 2], [0.5] * 12),
    "keep-0.3": ({"length": 3, "steps": 9, "keep": 0.3}, [0, 1, 2], [0.3] * 9),
    "per-sweep-right": (
        {"length": 3, "steps": 6, "keep": [0.8, 0.4], "order": "left-to-right"},
        [2, 1, 0],
        [0.8] * 3 + [0.4] * 3,
    ),
    "per-step-given": (
        {"length": 3, "steps": 7, "keep": [0.9, 0.1, 0.7, 0.3, 1.0, 0.0, 0.6], "order": [1, 2, 0]},
        [1, 2, 0],
        [0.9, 0.1, 0.7, 0.3, 1.0, 0.0, 0.6],
    ),
    "per-step": (
        {"length": 3, "steps": 6, "keep": [0.9, 0.1, 0.7, 0.3, 0.2, 0.6]},
        [0, 1, 2],
        [0.9, 0.1, 0.7, 0.3, 0.2, 0.6],
    ),
    "per-sweep-partial": ({"length": 3, "steps": 8, "keep": [0.9, 0.6, 0.2]}, [0, 1, 2], [0.9] * 3 + [0.6] * 3 + [0.2] * 2),
    "ends-in-0": ({"length": 3, "steps": 9, "keep": 0.7, "last_keep": 0.0}, [0, 1, 2], [0.7] * 6 + [0.0] * 3),
    "ends-in-0-partial": ({"length": 3, "steps": 8, "keep": 0.7, "last_keep": 0.0}, [0, 1, 2], [0.7] * 5 + [0.0] * 3),
    "linear": ({"length": 2, "steps": 8, "keep": "linear"}, [0, 1], [3 / 4] * 2 + [2 / 3] * 2 + [1 / 2] * 2 + [0.0] * 2),
    "shorter-than-a-sweep": ({"length": 3, "steps": 2, "keep": 0.5}, [0, 1, 2], [0.5] * 2),
    "strided-block-2": (
        {"length": 6, "steps": 12, "keep": [0.6, 0.2], "order": "strided", "block": 2},
        [0, 3, 1, 4, 2, 5],
        [0.6] * 6 + [0.2] * 6,
    ),
    "strided-block-3": ({"length": 6, "steps": 9, "keep": 0.4, "order": "strided", "block": 3}, [0, 2, 4, 1, 3, 5], [0.4] * 9),
    "segments-block-3": (
        {"length": 6, "steps": 9, "keep": 0.4, "order": "segments", "block": 3},
        [1, 3, 5, 0, 2, 4],
        [0.4] * 9,
    ),
    "left-block-2": (
        {"length": 4, "steps": 6, "keep": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "block": 2},
        [0, 1, 2, 3],
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
    ),
}
EVERY_SCHEDULE = pytest.mark.parametrize("name", SCHEDULES)


def both(name, V=None, seed=0):
    """The package's process and the enumerated world of one schedule."""
    arguments, sweep, keep = SCHEDULES[name]
    V = V or (2 if len(sweep) > 3 else 3)
    pi = random_law(V, seed + 1, 2.0)
    world = World(random_law(V ** len(sweep), seed), pi, [sweep[t % len(sweep)] for t in range(len(keep))], keep)
    return Process(Schedule.round_robin(**arguments), NoiseLaw(torch.from_numpy(pi))), world


def product_law(world, survival):
    """(N, N): P(X_t = y | X_0 = x) when each site survives on its own, else is a noise token."""
    law = np.ones((world.N, world.N))
    for j, S in enumerate(survival):
        law *= S * (world.states[:, None, j] == world.states[None, :, j]) + (1 - S) * world.pi[world.states[None, :, j]]
    return law


@EVERY_SCHEDULE
def test_direct_noising_equals_stepwise_noising(name):
    process, world = both(name)
    for t in [*process.schedule.times, world.T]:
        survival = process.schedule.survival(torch.tensor([t]))[0].numpy()
        np.testing.assert_allclose(product_law(world, survival), world.pushed[t], atol=1e-13)


@EVERY_SCHEDULE
def test_survival_is_the_product_of_keep_over_the_visits_before_t(name):
    process, world = both(name)
    schedule, b = process.schedule, process.schedule.block
    times = torch.arange(world.T + 1)
    brute = np.array([world.survival(t // b * b) for t in range(world.T + 1)])  # inside a block: the block's beginning
    np.testing.assert_allclose(schedule.survival(times).numpy(), brute, atol=1e-15)
    np.testing.assert_allclose(schedule.signal.numpy(), [world.survival(t)[i] for t, i in enumerate(world.sites)], atol=1e-15)
    assert schedule.keep.dtype == schedule.signal.dtype == torch.float64
    for t in range(world.T):
        at = slice(t // b * b, t // b * b + b)
        assert schedule.sites(times[t : t + 1])[0].tolist() == world.sites[at]
        assert schedule.keeps(times[t : t + 1])[0].tolist() == world.keep[at]
        assert int(schedule.site(t)) == world.sites[t]
    assert list(schedule.times) == list(range(0, world.T, b))


def test_a_random_order_is_one_permutation_for_all_sweeps():
    one, same, other = (
        Schedule.round_robin(8, 24, order="random", generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert sorted(one.order.tolist()) == list(range(8))
    assert one.order.tolist() == same.order.tolist() != other.order.tolist()
    assert one.site(torch.arange(24)).view(3, 8).tolist() == [one.order.tolist()] * 3
    world = World(random_law(2**8, 0), [0.5, 0.5], one.order.tolist() * 3, [0.5] * 24)
    for t in (0, 5, 8, 19, 24):
        np.testing.assert_array_equal(one.survival(torch.tensor([t]))[0].numpy(), world.survival(t))


def test_strided_order_spaces_the_sites_of_a_block_evenly():
    assert Schedule.round_robin(8, 8, order="strided", block=2).sites(torch.tensor([0, 2, 4, 6])).tolist() == [
        [0, 4],
        [1, 5],
        [2, 6],
        [3, 7],
    ]


def test_segments_is_strided_from_the_other_end_and_left_to_right_in_one_part():
    segments, strided = (Schedule.round_robin(8, 8, 0.0, order, block=2) for order in ("segments", "strided"))
    assert segments.sites(torch.tensor([0, 2, 4, 6])).tolist() == strided.sites(torch.tensor([6, 4, 2, 0])).tolist()
    assert segments.to_dict()["order"] == "segments"
    assert Schedule.round_robin(8, 8, 0.0, "segments").causal


@pytest.mark.parametrize(("keep", "agrees"), [(0.5, True), (0.3, False)])
def test_erratum_printed_noising_formula_is_right_only_at_one_half(keep, agrees):
    """The paper prints p_j = 1 - ∏(1 - Π_s(φ)); a site survives when every visit kept it, p_j = 1 - ∏ Π_s(φ)."""
    world = World(random_law(27, 3), random_law(3, 4), [0, 1, 2] * 3, [keep] * 9)
    for t in range(1, 10):
        printed = np.ones(3)
        for s in range(t):
            printed[world.sites[s]] *= 1 - world.keep[s]
        gap = np.abs(product_law(world, printed) - world.pushed[t]).max()
        assert gap < 1e-13 if agrees else gap > 0.01


def test_erratum_visits_are_counted_strictly_before_t():
    """m_t(j) = ⌊t/L⌋ + 1[j < i_t]; the printed 1[i_t ≥ j] counts step t itself, and i_s = s mod L, not s mod L - 1."""
    L, steps = 3, 9
    schedule = Schedule.round_robin(L, steps, keep=0.5)
    for t in range(steps):
        visits = [sum(1 for s in range(t) if s % L == j) for j in range(L)]
        assert visits == [t // L + (j < t % L) for j in range(L)]
        assert visits != [t // L + (t % L >= j) for j in range(L)]
        assert schedule.survival(torch.tensor([t]))[0].tolist() == [0.5**m for m in visits]


@pytest.mark.parametrize(
    "name", ["keep-half", "per-step-given", "ends-in-0-partial", "shorter-than-a-sweep", "strided-block-2", "left-block-2"]
)
def test_corrupt_draws_from_the_exact_joint_law_of_x_t_z_x_next(name):
    """Each row has a clean state and a t of its own. Chi-square, false alarm 1e-6 for each of the (x_0, t)."""
    process, world = both(name)
    b, rows = process.schedule.block, 4000
    clean = torch.from_numpy(world.states[[1, world.N // 2]])
    x0, t = (
        part.flatten(0, 1) for part in (clean[:, None].expand(-1, world.T * rows, -1), torch.arange(world.T).repeat(2, rows))
    )
    step = process.corrupt(x0, t, torch.Generator().manual_seed(5))

    assert step.x_t.shape == step.x_next.shape == step.survival.shape == x0.shape
    assert step.site.shape == step.z.shape == ((len(x0),) if b == 1 else (len(x0), b))
    sites, z = step.site.view(-1, b), step.z.view(-1, b)
    expected = step.x_t.scatter(1, sites, torch.where(z < 0, step.x_t.gather(1, sites), z))
    assert torch.equal(step.x_next, expected)
    for at in range(world.T):
        begin = at // b * b
        assert sites[t == at].unique(dim=0).tolist() == [world.sites[begin : begin + b]]
        np.testing.assert_allclose(step.survival[t == at].unique(dim=0).numpy(), [world.survival(begin)], atol=1e-15)
        for number, start in enumerate(clean):
            mine = (t == at) & (torch.arange(len(x0)) // (world.T * rows) == number)
            joint = world.pushed[begin][index(start, world.V)]
            cell = index(step.x_t[mine], world.V)
            for place in range(b):
                keep = world.keep[begin + place]
                event = np.append((1 - keep) * world.pi, keep)  # the last entry is φ
                joint = joint[..., None] * event
                cell = cell * (world.V + 1) + (z[mine, place].numpy() % (world.V + 1))
            assert chi_square(np.bincount(cell, minlength=joint.size), joint) > FALSE_ALARM


@pytest.mark.parametrize("keep", [0.5, 0.9])
@pytest.mark.parametrize("L", [2, 3])
def test_lemma_1_distance_to_noise_is_at_most_L_times_keep_to_the_sweeps(L, keep):
    """TV(Law(X_T), π^L) ≤ L (1-ε)^⌊T/L⌋ for every T, with the package's survival; not far from tight for a sure P*."""
    sure = np.zeros(3**L)
    sure[0] = 1
    pi = np.array([0.001, 0.4, 0.599])
    for table in (random_law(3**L, 6), sure):
        world = World(table, pi, (list(range(L)) * 8)[: 8 * L - 1], [keep] * (8 * L - 1))
        for T in range(1, world.T + 1):
            survival = Schedule.round_robin(L, T, keep).survival(torch.tensor([T]))[0].numpy()
            law = table @ product_law(world, survival)
            assert tv(law, world.noise) <= L * keep ** (T // L) + 1e-12
            np.testing.assert_allclose(law, world.laws[T], atol=1e-13)
    T = 6 * L
    assert tv(world.laws[T], world.noise) > (0.9 if keep == 0.5 else 0.5) * min(1, L * keep**6)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("delta", [0.3, 0.01])
def test_theorem_1_delta_holds_with_T_rounded_up_to_whole_sweeps(keep, delta):
    """T ≥ L log(L/δ) / log(1/(1-p)), a multiple of L: TV(P_T, π^L) ≤ L (1-p)^(T/L) ≤ δ. The exponent is positive."""
    L = 2
    sweeps = math.ceil(math.log(L / delta) / math.log(1 / keep))
    T = L * sweeps
    survival = Schedule.round_robin(L, T, keep).survival(torch.tensor([T]))[0].numpy()
    world = World(np.eye(9)[0], np.array([0.001, 0.4, 0.599]), [0, 1] * sweeps, [keep] * T)
    assert tv(world.table @ product_law(world, survival), world.noise) <= L * keep**sweeps <= delta + 1e-12
    assert L * keep**-sweeps > 1  # as printed the bound says nothing


def test_erratum_theorem_1_needs_whole_sweeps():
    """T = 3 meets the printed condition for δ = 2 · 0.1^1.5 at L = 2, yet X_3 is further than δ from noise."""
    L, T, keep = 2, 3, 0.1
    delta = L * keep ** (T / L)
    assert L * math.log(L / delta) / math.log(1 / keep) <= T + 1e-12
    survival = Schedule.round_robin(L, T, keep).survival(torch.tensor([T]))[0].numpy()
    world = World(np.eye(4)[0], np.array([0.001, 0.999]), [0, 1, 0], [keep] * T)
    assert tv(world.table @ product_law(world, survival), world.noise) > 1.5 * delta


def test_noise_laws_are_what_they_say():
    assert NoiseLaw.uniform(4).probs.tolist() == [0.25] * 4
    counts = [3, 0, 1]
    assert NoiseLaw.unigram(counts).probs.tolist() == pytest.approx([4 / 7, 1 / 7, 2 / 7])
    assert NoiseLaw.unigram(counts, smoothing=0.5).probs.tolist() == pytest.approx([3.5 / 5.5, 0.5 / 5.5, 1.5 / 5.5])
    assert NoiseLaw.unigram(counts, smoothing=0).probs.tolist() == [0.75, 0.0, 0.25]
    given = NoiseLaw([0.2, 0.3, 0.5])
    assert given.probs.dtype == torch.float64
    assert given.probs.tolist() == pytest.approx([0.2, 0.3, 0.5], abs=1e-15)
    assert (given.vocab, given.mask) == (3, 3)
    # Drawing inverts the cumulative sum: the law is the lengths of the intervals, found at their ends.
    ends = torch.tensor([0.0, 0.2 - 1e-12, 0.2 + 1e-12, 0.5 - 1e-12, 0.5 + 1e-12, 1 - 1e-16], dtype=torch.float64)
    assert given.draw(ends).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("bad", [[0.5, 0.6], [1.2, -0.2], [1.0], [float("nan"), 1.0]])
def test_noise_laws_refuse_what_is_no_law(bad):
    with pytest.raises(ValueError, match="noise law"):
        NoiseLaw(bad)


def test_noise_samples_follow_their_law():
    """Chi-square, false alarm 1e-6."""
    law = NoiseLaw([0.2, 0.0, 0.3, 0.5])
    drawn = law.sample((200, 300), torch.Generator().manual_seed(0))
    assert drawn.shape == (200, 300)
    assert chi_square(torch.bincount(drawn.flatten(), minlength=4), law.probs) > FALSE_ALARM


WEIGHTS = {
    "zeros-at-both-ends": [0.0, 0.3, 0.0, 0.7, 0.0],
    "one-token": [0.0, 0.0, 1.0, 0.0],
    "unnormalised": [0.0, 1e-9, 3e-9, 0.0],
    "a-tenth-each": [0.1] * 10 + [0.0] * 3,
    "thirds": [1 / 3, 0.0, 1 / 3, 1 / 3, 0.0],
    "large": [0.0, 7e300, 1e300, 0.0],
    "least-numbers": [0.0, 5e-324, 0.0],
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_a_token_of_probability_zero_is_never_drawn(weights):
    w = torch.tensor(weights, dtype=torch.float64)
    u = torch.cat([torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1], 1 - torch.logspace(-16, -3, 200, dtype=torch.float64)])
    u = torch.cat(
        [u, torch.nextafter(torch.tensor([1.0], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)), w.cumsum(0)]
    )
    u = u[u < 1]
    for drawn in (categorical(w.expand(len(u), -1), u), inverse_cdf(w.cumsum(0), u)):
        assert int(drawn.max()) < len(w)
        assert bool((w[drawn] > 0).all())


def test_categorical_inverts_the_cumulative_sum_row_by_row():
    w = torch.tensor([[1.0, 3.0], [3.0, 1.0]])
    inside = 1e-12
    for u, drawn in (
        (0.0, [0, 0]),
        (0.25 - inside, [0, 0]),
        (0.25 + inside, [1, 0]),
        (0.75 - inside, [1, 0]),
        (0.75 + inside, [1, 1]),
    ):
        assert categorical(w, torch.full((2,), u, dtype=torch.float64)).tolist() == drawn


@EVERY_SCHEDULE
def test_to_dict_gives_the_schedule_back(name):
    schedule = both(name)[0].schedule
    again = Schedule.round_robin(**schedule.to_dict())
    assert torch.equal(again.order, schedule.order)
    assert torch.equal(again.keep, schedule.keep)
    assert again.block == schedule.block


def test_to_dict_is_short():
    assert Schedule.round_robin(4, 8, keep=0.5).to_dict() == {
        "length": 4,
        "steps": 8,
        "keep": 0.5,
        "order": "right-to-left",
        "block": 1,
    }
    short = Schedule.round_robin(4, 8, keep=[0.5, 0.2], order="strided", block=2).to_dict()
    assert short == {"length": 4, "steps": 8, "keep": [0.5, 0.2], "order": "strided", "block": 2}
    shuffled = Schedule.round_robin(9, 18, order="random", generator=torch.Generator().manual_seed(3))
    assert Schedule.round_robin(**shuffled.to_dict()).order.tolist() == shuffled.order.tolist()


def test_corrupt_works_on_a_large_batch():
    process = Process(Schedule.round_robin(1024, 4096), NoiseLaw.uniform(8192))
    x0 = torch.randint(8192, (64, 1024), generator=torch.Generator().manual_seed(0))
    step = process.corrupt(x0, torch.arange(64) * 64, torch.Generator().manual_seed(1))
    assert step.x_t.shape == step.x_next.shape == (64, 1024)
    assert step.z.shape == step.site.shape == (64,)
    assert step.x_t.dtype == step.x_next.dtype == step.z.dtype == step.site.dtype == torch.int64
    assert step.survival.dtype == torch.float64


@pytest.mark.parametrize("t", [-1, 12, 0.5, [0, 1]], ids=str)
def test_corrupt_refuses_a_time_that_is_no_step(t):
    process, _ = both("keep-half")
    with pytest.raises(ValueError, match="t must"):
        process.corrupt(torch.zeros(3, 3, dtype=torch.int64), torch.tensor(t))
