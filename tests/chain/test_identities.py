"""The nine identities that the code is built on, each by enumeration of a small space."""

import itertools

import numpy as np
import pytest
import torch
from driving import Tabular, any_conditional, driven, driver_step, exact_classifier, package
from enumeration import HEAT_BATH, KERNELS, REVERSAL, World, common_part, kl, random_law, ratio, site_law, tv

from glauber import Classifier, Denoiser, NoiseLaw, Oracle, Process, Schedule, bound
from glauber.chain import kernels
from glauber.chain.bounds import prior_divergence, step_divergence
from glauber.objective import binary, binary_loss, dense_loss, marginal, marginal_loss

EXACT = 1e-9
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS)

PI = np.array([0.2, 0.5, 0.3])
HALF = World(random_law(27, 20, 0.5), PI, [0, 1, 2] * 3, [0.5] * 9)
VARIED = World(random_law(27, 21, 0.5), PI, ([2, 0, 1] * 3)[:7], [0.9, 0.2, 0.7, 0.3, 0.6, 0.1, 0.8])
ENDS_IN_0 = World(random_law(27, 22, 0.5), PI, [0, 1, 2] * 2, [0.6] * 3 + [0.0] * 3)
WORLDS = {"keep-half": HALF, "keep-varied": VARIED, "ends-in-0": ENDS_IN_0}
EVERY_WORLD = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
CLASSIFIABLE = pytest.mark.parametrize("world", [HALF, VARIED], ids=["keep-half", "keep-varied"])


def query(world, t, sites=None):
    """Every state, and what a conditional is told of it at step t."""
    x, survival = torch.from_numpy(world.states), torch.from_numpy(world.survival(t)).expand(world.N, -1)
    asked = torch.tensor([[world.sites[t]] if sites is None else sites]).expand(world.N, -1)
    return x, torch.full((world.N,), t), survival, asked


def site(S, keep, x, rows=1):
    """S and κ in float64, x in int64, as (rows, 1)."""
    return *(torch.full((rows, 1), value, dtype=torch.float64) for value in (S, keep)), torch.full((rows, 1), x)


# ---- 1. mixture


@EVERY_WORLD
def test_identity_1_the_step_law_is_a_mixture_of_the_clean_conditional_and_noise(world):
    _, oracle = package(world)
    for t, i in enumerate(world.sites):
        clean = oracle(*query(world, t)).exp()
        S = torch.full((world.N, 1), world.survival(t)[i], dtype=torch.float64)
        p = kernels.mixture(clean, S, torch.from_numpy(world.pi))[:, 0]
        np.testing.assert_allclose(p, world.step_law(t), atol=1e-12)


@EVERY_WORLD
def test_identity_1_the_oracle_is_the_enumerated_clean_conditional_at_every_site(world):
    _, oracle = package(world)
    for t in range(world.T + 1):
        survival = torch.from_numpy(world.survival(t)).expand(world.N, -1)
        for j in range(world.L):
            x, ask = torch.from_numpy(world.states), torch.full((world.N, 1), j)
            c = oracle(x, torch.full((world.N,), t), survival, ask).exp()[:, 0]
            np.testing.assert_allclose(c, world.clean(t, j), atol=1e-12)


def test_identity_1_sites_asked_together_are_left_out_of_each_others_condition():
    _, oracle = package(VARIED)
    for t, asked in itertools.product(range(VARIED.T), ([0, 1], [2, 0], [1, 2, 0])):
        law = oracle(*query(VARIED, t, asked)).exp()
        for place, i in enumerate(asked):
            expected = VARIED.clean(t, i, together=[j for j in asked if j != i])
            np.testing.assert_allclose(law[:, place], expected, atol=1e-12)


def test_identity_1_a_masked_site_tells_nothing():
    """The mask stands where survival is 0, or beside sites that are asked: the same condition as without that site."""
    _, oracle = package(VARIED)
    for t in range(VARIED.T):
        x, time, survival, _ = query(VARIED, t)
        hidden = oracle(
            x.index_fill(1, torch.tensor([1]), VARIED.V), time, survival, torch.zeros(VARIED.N, 1, dtype=torch.int64)
        )
        np.testing.assert_allclose(hidden.exp()[:, 0], VARIED.clean(t, 0, together=[1]), atol=1e-12)


# ---- 2. classifier


@CLASSIFIABLE
def test_identity_2_the_classifiers_logit_is_the_noise_prior_less_the_step_law(world):
    for t in range(world.T):
        y, kappa = world.is_noise(t), world.keep[t]
        np.testing.assert_allclose(
            np.log(y / (1 - y)), np.log((1 - kappa) * world.pi / kappa) - np.log(world.step_law(t)), atol=1e-10
        )


@CLASSIFIABLE
def test_identity_2_lemma_3_the_classifier_adapter_inverts_it(world):
    """From exact ŷ to exact p_t, for each row at its own t."""
    process, _ = package(world)
    classifier = Classifier(exact_classifier(world), process)
    queries = [query(world, t) for t in range(world.T)]
    rows = [torch.cat(part) for part in zip(*queries, strict=True)]
    p = classifier.step_law(*rows).exp()[:, 0].reshape(world.T, world.N, world.V)
    np.testing.assert_allclose(p, [world.step_law(t) for t in range(world.T)], atol=1e-12)


def test_identity_2_an_inconsistent_classifier_is_renormalised():
    process, _ = package(VARIED)
    logits = np.random.default_rng(0).normal(size=(VARIED.T, VARIED.N, VARIED.V))
    for t in range(VARIED.T):
        x, time, survival, ask = query(VARIED, t)
        p = Classifier(Tabular(logits, VARIED.L), process).step_law(x, time, survival, ask).exp()[:, 0].numpy()
        y = Tabular(1 / (1 + np.exp(-logits)), VARIED.L)(x, time, survival, ask)[:, 0].numpy()
        printed = (1 - VARIED.keep[t]) * PI / VARIED.keep[t] * (1 / y - 1)
        assert np.abs(printed.sum(1) - 1).max() > 0.1
        np.testing.assert_allclose(p, ratio(printed), atol=1e-12)


@pytest.mark.parametrize(("pi", "agrees"), [([1 / 3] * 3, True), (PI, False)], ids=["uniform", "not-uniform"])
def test_identity_2_erratum_the_conditional_algorithm_needs_the_noise_law_of_each_candidate(pi, agrees):
    """Its printed Π_t(X̂_{t+1,i}) is one number for all candidates a; Π_t(a) is meant. They agree for uniform noise only."""
    world = World(VARIED.table, pi, VARIED.sites, VARIED.keep)
    process, _ = package(world)
    classifier = Classifier(exact_classifier(world), process)
    for t in range(world.T):
        y = world.is_noise(t)
        token = world.states[:, world.sites[t]]
        printed = ratio((1 - world.keep[t]) * np.asarray(pi)[token][:, None] / world.keep[t] * (1 / y - 1))
        gap = np.abs(printed - classifier.step_law(*query(world, t)).exp()[:, 0].numpy()).max()
        assert gap < 1e-12 if agrees else gap > 0.05


@pytest.mark.parametrize(("keep", "pi"), [(0.0, PI), (1.0, PI), (0.5, [0.4, 0.0, 0.6])], ids=["keep-0", "keep-1", "pi-0"])
def test_identity_2_a_constant_or_undefined_classifier_is_refused(keep, pi):
    process = Process(Schedule.round_robin(3, 6, keep=[0.5, keep]), NoiseLaw(torch.tensor(pi, dtype=torch.float64)))
    x0 = torch.zeros(2, 3, dtype=torch.int64)
    network = Tabular(np.zeros((6, 27, 3)), 3)
    for refused in (
        lambda: Classifier(network, process),
        lambda: binary(network, process, x0),
        lambda: marginal(network, process, x0),
    ):
        with pytest.raises(ValueError, match="classifier needs"):
            refused()


# ---- 3. marginal loss


def drawn_steps(S, keep, clean, pi):
    """All that can happen at the visited site, given its clean token: (probability, token after the step, z)."""
    own = S * np.eye(len(pi))[clean] + (1 - S) * pi
    return [(keep * own[a], a, -1) for a in range(len(pi))] + [((1 - keep) * pi[a], a, a) for a in range(len(pi))]


@pytest.mark.parametrize("keep", [0.5, 0.3, 0.05])
@pytest.mark.parametrize("S", [1.0, 0.7, 0.1, 0.0])
def test_identity_3_the_marginal_loss_is_the_expected_binary_loss(S, keep):
    """Over Z_t and the site's own noise, exactly, for every clean token and any logits."""
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(5, 3), scale=2))
    pi = torch.from_numpy(PI)
    for clean in range(3):
        expected = sum(
            p * binary_loss(logits, torch.full((5,), token), torch.full((5,), z))
            for p, token, z in drawn_steps(S, keep, clean, PI)
        )
        s, k, token = (part[:, 0] for part in site(S, keep, clean, rows=5))
        loss = marginal_loss(logits, token, s, k, pi)
        torch.testing.assert_close(loss, expected, rtol=0, atol=1e-12)


def test_identity_3_the_marginal_loss_has_less_variance():
    """The mean square of each loss's gradient at the optimum, over (X_0, X_t, Z_t) enumerated."""
    world, t = VARIED, 4
    i, keep, (_, time, _, asked) = world.sites[t], world.keep[t], query(world, t)
    x0, x, z = (part.ravel() for part in np.meshgrid(range(27), range(27), range(-1, 3), indexing="ij"))
    weight = world.table[x0] * world.pushed[t][x0, x] * np.append((1 - keep) * PI, keep)[z]  # z = -1 is φ, the last entry
    token, clean = (torch.from_numpy(part) for part in (np.where(z < 0, world.states[x, i], z), world.states[x0, i]))
    logits = exact_classifier(world)(torch.from_numpy(world.states), time, None, asked)[x, 0].requires_grad_()
    s, k, _ = site(world.survival(t)[i], keep, 0, rows=len(x))
    losses = {
        "binary": binary_loss(logits, token, torch.from_numpy(z)),
        "marginal": marginal_loss(logits, clean, s[:, 0], k[:, 0], torch.from_numpy(PI)),
    }
    square = {name: (torch.autograd.grad(loss.sum(), logits)[0] ** 2).sum(1).numpy() @ weight for name, loss in losses.items()}
    assert 0 < square["marginal"] < 0.7 * square["binary"]


# ---- 4. dense loss


@EVERY_WORLD
def test_identity_4_clean_conditional_and_evidence_make_the_posterior(world):
    """With logits log P(X_0[j] | x_{-j}) + any constant, the dense loss is -log P(X_0[j] = a | X_t = x) at every x, j and a."""
    pi = torch.from_numpy(world.pi)
    x = torch.from_numpy(world.states)
    for t in range(world.T + 1):
        S = world.survival(t)
        logits = np.log(np.stack([world.clean(t, j) for j in range(world.L)], axis=1))
        logits = torch.from_numpy(logits + np.random.default_rng(t).normal(size=(world.N, world.L, 1)))
        for a in range(world.V):
            loss, counted = dense_loss(logits, x, torch.full_like(x, a), torch.from_numpy(S).expand(world.N, -1), pi)
            assert counted.tolist() == [(S < 1).tolist()] * world.N
            for j in range(world.L):
                expected = -np.log(world.posterior(t, j)[:, a]) if S[j] < 1 else np.zeros(world.N)
                np.testing.assert_allclose(loss[:, j], expected, atol=1e-10)


def test_identity_4_a_masked_site_has_no_evidence_term():
    """There the loss is -log P(X_0[j] = a | the other sites), which is what the chain asks for."""
    x = torch.from_numpy(VARIED.states)
    for t, j, a in itertools.product(range(1, VARIED.T + 1), range(3), range(3)):
        survival = torch.from_numpy(VARIED.survival(t)).expand(27, -1).clone()
        survival[:, j] = 0
        logits = torch.from_numpy(np.log(np.stack([VARIED.clean(t, k) for k in range(3)], axis=1)))
        masked = x.index_fill(1, torch.tensor([j]), 3)
        loss, counted = dense_loss(logits, masked, torch.full_like(x, a), survival, torch.from_numpy(PI))
        assert counted[:, j].all()
        np.testing.assert_allclose(loss[:, j], -np.log(VARIED.clean(t, j)[:, a]), atol=1e-10)


def test_identity_4_the_denoiser_drops_the_constant():
    t = 3
    logits = np.log([VARIED.clean(s, VARIED.sites[s]) for s in range(VARIED.T)]) + 7.0
    answer = Denoiser(Tabular(logits, 3))(*query(VARIED, t)).exp()[:, 0]
    np.testing.assert_allclose(answer, VARIED.clean(t, VARIED.sites[t]), atol=1e-12)


# ---- 5. skip


@pytest.mark.parametrize("keep", [0.5, 0.3])
@pytest.mark.parametrize("K", [1, 4, 7])
def test_identity_5_expected_calls_are_L_times_a_geometric_sum(K, keep):
    L = 16
    signal = Schedule.round_robin(L, K * L, keep).signal
    assert signal.sum().item() == pytest.approx(L * sum(keep**r for r in range(K)), abs=1e-12)
    if (K, keep) == (4, 0.5):
        assert signal.sum().item() == 1.875 * L


@pytest.mark.parametrize("world", [VARIED, ENDS_IN_0], ids=["keep-varied", "ends-in-0"])
@EVERY_KERNEL
def test_identities_5_and_6_the_skip_leaves_the_law_of_each_step_alone(world, kernel):
    """For any conditional, also a wrong one: the step with the skip is the step without, and both are Bayes's."""
    process, _ = package(world)
    laws, conditional = any_conditional(world, 0)
    for t, i in enumerate(world.sites):
        S = world.survival(t)[i]
        expected = [site_law(kernel, laws[t, n], S, world.keep[t], world.pi, x[i]) for n, x in enumerate(world.states)]
        expected = np.array(expected)[:, world.states[:, i]] * world.same_off[i]
        for skip in (True, False):
            step = driver_step(world, process, conditional, t, kernel, [laws[t]], skip=skip)
            np.testing.assert_allclose(step, expected, atol=1e-11)


# ---- 6. reversal kernel


@EVERY_WORLD
def test_identity_6_the_reversal_kernel_is_the_true_time_reversal(world):
    """P(X_t = y | X_{t+1} = x) from the enumerated joint law of (X_t, X_{t+1}), against own_odds and step."""
    pi = torch.from_numpy(world.pi)
    for t, i in enumerate(world.sites):
        x = torch.from_numpy(world.states)[:, i : i + 1]
        odds = kernels.own_odds(REVERSAL, torch.full((world.N, 1), world.keep[t], dtype=torch.float64), pi[x])
        law = kernels.step(torch.from_numpy(world.step_law(t))[:, None], x, odds)[:, 0].numpy()
        joint = world.laws[t][:, None] * world.forward(t)
        np.testing.assert_allclose(law[:, world.states[:, i]] * world.same_off[i], ratio(joint.T), atol=1e-12)


CASES = list(itertools.product([0.0, 0.05, 0.5, 0.9, 1.0], [0.0, 0.1, 0.5, 0.9, 1.0], range(3)))  # S, κ, x


@pytest.mark.parametrize("pi", [PI, np.array([0.6, 0.4, 0.0])], ids=["noise", "noise-without-a-token"])
@EVERY_KERNEL
def test_identity_6_silent_and_residual_parts_make_the_whole_step(kernel, pi):
    """stay δ_x + noise π + residual(c) = step(S c + (1-S) π), for random c; the silent mass is a probability."""
    rng, law = np.random.default_rng(2), torch.from_numpy(pi)
    for S, keep, x in CASES:
        if keep == 0 and pi[x] == 0:
            continue  # a noise token that noise cannot draw
        clean = torch.from_numpy(rng.dirichlet([0.4] * 3, size=(20, 1)))
        s, k, now = site(S, keep, x, rows=20)
        odds = kernels.own_odds(kernel, k, law[now])
        stay, noise = kernels.call_free(s, odds, law[now])
        whole = kernels.step(kernels.mixture(clean, s, law), now, odds)
        if kernel == REVERSAL and (keep == 1 or pi[x] == 0):  # the token must have been kept
            assert (stay == 1).all()
            assert (noise == 0).all()
            torch.testing.assert_close(whole, kernels.one_hot(now, whole))
            continue
        parts = stay[..., None] * kernels.one_hot(now, whole) + noise[..., None] * law
        rest = kernels.residual(clean, s, now, odds, law)
        torch.testing.assert_close(parts + rest, whole, rtol=0, atol=1e-13)
        torch.testing.assert_close(whole.sum(-1), torch.ones_like(s))
        assert (rest >= 0).all()
        for n in range(20):
            np.testing.assert_allclose(whole[n, 0], site_law(kernel, clean[n, 0].numpy(), S, keep, pi, x), atol=1e-12)


@EVERY_KERNEL
def test_identity_6_the_silent_part_is_the_largest_that_needs_no_network(kernel):
    """At each token it is the least that the law gives over the corners c = δ_a; no random c goes below."""
    rng = np.random.default_rng(3)
    for S, keep, x in CASES:
        s, k, now = site(S, keep, x)
        odds = kernels.own_odds(kernel, k, torch.from_numpy(PI)[now])
        stay, noise = (part.item() for part in kernels.call_free(s, odds, torch.from_numpy(PI)[now]))
        silent = stay * np.eye(3)[x] + noise * PI
        np.testing.assert_allclose(silent, common_part(kernel, S, keep, PI, x), atol=1e-13)
        for c in rng.dirichlet([0.3] * 3, size=50):
            assert (site_law(kernel, c, S, keep, PI, x) >= silent - 1e-13).all()
        if kernel == HEAT_BATH:
            assert silent.sum() == pytest.approx(1 - S, abs=1e-14)
        elif keep * S < 1:
            assert silent.sum() >= keep * (1 - S) / (1 - keep * S) - 1e-14


def test_identity_6_the_partial_skip_needs_at_most_2_77_L_calls():
    """With K = 4, κ = ½; reached where the site's token is one that noise never draws, and never above."""
    calls = dict.fromkeys((1e-12, 0.2, 0.5), 0.0)
    for S in (1.0, 0.5, 0.25, 0.125):
        for pi_x in calls:
            s, pi, keep = (torch.tensor([[value]], dtype=torch.float64) for value in (S, pi_x, 0.5))
            calls[pi_x] += 1 - sum(kernels.call_free(s, kernels.own_odds(REVERSAL, keep, pi), pi)).item()
    assert calls[1e-12] == pytest.approx(1 + 2 / 3 + 4 / 7 + 8 / 15, abs=1e-9)  # 2.7714
    assert calls[0.5] < calls[0.2] < calls[1e-12]


def test_identity_6_from_noise_with_signal_left_the_reversal_forgets_the_wrong_start_more_slowly():
    """K = 3, κ = ½: an eighth of the signal is left at T. From P_T both are exact."""
    gap = {kernel: tv(driven(HALF, *package(HALF), HALF.noise, kernel)[0], HALF.table) for kernel in KERNELS}
    assert gap[REVERSAL] > 1e-4
    assert gap[HEAT_BATH] < 1e-3 * gap[REVERSAL]


# ---- 7. likelihood bounds


def exact_bound(world, process, conditional, kernel):
    """(N,) the bound for each clean state, its expectation enumerated."""
    every = torch.from_numpy(world.states)
    total = prior_divergence(process, every).numpy().copy()
    for t in process.schedule.times:
        x0, x_next = every.repeat_interleave(world.N, 0), every.repeat(world.N, 1)
        times = torch.full((len(x0),), t)
        divergence = step_divergence(conditional, process, x0, x_next, times, kernel).numpy().reshape(world.N, world.N)
        law = world.pushed[t + process.schedule.block]
        total += (law * np.where(law > 0, divergence, 0)).sum(1)
    return total


def chain_of(world, laws, kernel):
    """The law at 0 of the chain from π^L that is driven by any clean conditional, laws (T, N, V)."""
    law = world.noise
    for t in reversed(range(world.T)):
        i, S = world.sites[t], world.survival(t)
        step = [site_law(kernel, laws[t, n], S[i], world.keep[t], world.pi, x[i]) for n, x in enumerate(world.states)]
        law = law @ (np.array(step)[:, world.states[:, i]] * world.same_off[i])
    return law


@EVERY_WORLD
@pytest.mark.parametrize("model", ["oracle-of-another-table", "right-about-nothing"])
def test_identity_7_the_bounds_are_above_minus_log_p_of_their_chain(world, model):
    """At every clean state, for an inexact conditional; and the reversal's is never above the heat bath's."""
    process, _ = package(world)
    if model == "right-about-nothing":
        laws, conditional = any_conditional(world, 4)
    else:
        other = World(0.5 * world.table + 0.5 * random_law(27, 30), world.pi, world.sites, world.keep)
        laws, conditional = np.array([other.clean(t, i) for t, i in enumerate(world.sites)]), package(other)[1]
    bounds = {kernel: exact_bound(world, process, conditional, kernel) for kernel in KERNELS}
    for kernel in KERNELS:
        p = chain_of(world, laws, kernel)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert (bounds[kernel] >= -np.log(p) - 1e-12).all()
        if model == "right-about-nothing":  # the reversal's bound can be exact, see below
            assert (bounds[kernel] > -np.log(p) + 1e-6).any()
    assert (bounds[REVERSAL] <= bounds[HEAT_BATH] + 1e-12).all()
    assert (bounds[REVERSAL] < bounds[HEAT_BATH] - 1e-6).any()


@EVERY_WORLD
def test_identity_7_each_term_is_the_divergence_of_the_enumerated_steps(world):
    """KL(q(X_t | X_{t+1}, x_0) ‖ p(X_t | X_{t+1})), with q by Bayes from the pushed law given x_0, and KL(q(X_T) ‖ π^L)."""
    process, _ = package(world)
    laws, conditional = any_conditional(world, 5)
    every = torch.from_numpy(world.states)
    np.testing.assert_allclose(prior_divergence(process, every), kl(world.pushed[-1], world.noise), atol=1e-12)
    for (t, i), x0 in itertools.product(enumerate(world.sites), (0, 13, 22)):
        q_t = world.pushed[t][x0]
        q = {HEAT_BATH: ratio(world.same_off[i] * q_t), REVERSAL: ratio(q_t * world.forward(t).T)}
        can_occur = world.pushed[t + 1][x0] > 0
        for kernel in KERNELS:
            p = np.array(
                [
                    site_law(kernel, laws[t, n], world.survival(t)[i], world.keep[t], world.pi, x[i])
                    for n, x in enumerate(world.states)
                ]
            )
            expected = kl(q[kernel], p[:, world.states[:, i]] * world.same_off[i])
            clean, times = every[x0].expand(world.N, -1), torch.full((world.N,), t)
            terms = step_divergence(conditional, process, clean, every, times, kernel).numpy()
            np.testing.assert_allclose(terms[can_occur], expected[can_occur], atol=1e-11)


@EVERY_KERNEL
def test_identity_7_one_sweep_of_keep_0_makes_the_bound_exact(kernel):
    """Then the chain is autoregressive in the order of sites, and the bound of the exact conditional is -log P*(x_0)."""
    world = World(HALF.table, PI, [1, 2, 0], [0.0] * 3)
    np.testing.assert_allclose(exact_bound(world, *package(world), kernel), -np.log(world.table), atol=1e-11)


def test_identity_7_the_reversal_bound_of_the_exact_conditional_is_exact_when_the_schedule_ends_in_0():
    """The chain's paths are then those of the forward process, so q is its own posterior. The heat bath's bound is not."""
    truth = -np.log(ENDS_IN_0.table)
    np.testing.assert_allclose(exact_bound(ENDS_IN_0, *package(ENDS_IN_0), REVERSAL), truth, atol=1e-11)
    assert (exact_bound(ENDS_IN_0, *package(ENDS_IN_0), HEAT_BATH) > truth + 0.01).all()


@EVERY_KERNEL
def test_identity_7_with_a_block_the_bound_is_that_of_the_block_chain(kernel):
    """Which is not exact, even with the exact conditional: its bound stays above its own -log p."""
    world = World(random_law(16, 31, 0.3), [0.3, 0.7], [0, 2, 1, 3] * 2, [0.6] * 4 + [0.2] * 4)
    process, oracle = package(world, block=2)
    law = world.noise
    for t in reversed(process.schedule.times):
        law = law @ world.block_back(kernel, t, 2)
    gap = exact_bound(world, process, oracle, kernel) + np.log(law)
    assert (gap >= -1e-12).all()
    assert gap.max() > 1e-3


def test_identity_7_with_a_draw_for_every_step_each_row_sees_each_step_once():
    process, oracle = package(VARIED)
    times = []

    def watched(x, t, survival, sites):
        times.append(t)
        return oracle(x, t, survival, sites)

    bound(watched, process, torch.from_numpy(VARIED.states), draws=VARIED.T, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.stack(times, 1), torch.arange(VARIED.T).expand(VARIED.N, -1))


@EVERY_KERNEL
@pytest.mark.parametrize("draws", [1, 3, 20])
def test_identity_7_the_estimated_bound_is_unbiased(kernel, draws):
    """Within 5 standard errors (false alarm below 6e-7, as the strata only lessen the variance) at three clean states."""
    world = World(VARIED.table, PI, VARIED.sites, [0.9] * 7)  # 7 steps, no multiple of the draws; much signal left at T
    process, _ = package(world)
    _, conditional = any_conditional(world, 6)
    exact = exact_bound(world, process, conditional, kernel)
    for x0 in (0, 13, 22):
        rows = torch.from_numpy(world.states[x0]).repeat(6000 // draws, 1)
        estimate = bound(conditional, process, rows, kernel, draws, torch.Generator().manual_seed(x0))
        assert estimate.calls == draws * len(rows)
        assert estimate.kernel == kernel
        assert abs(estimate.mean - exact[x0]) < 5 * estimate.error
        assert estimate.error < 0.05 * exact[x0]


@EVERY_KERNEL
def test_identity_7_the_bound_of_a_step_law_is_that_of_its_conditional(kernel):
    world = VARIED
    process, oracle = package(world)
    every = torch.from_numpy(world.states)
    for t in range(world.T):
        arguments = (process, every.flip(0), every, torch.full((world.N,), t), kernel)
        classifier = Classifier(exact_classifier(world), process)
        torch.testing.assert_close(step_divergence(classifier, *arguments), step_divergence(oracle, *arguments))


# ---- 8. clean prompts

CLAMPS = {"one-site": {1: 2}, "two-sites": {2: 0, 0: 1}}
EVERY_CLAMP = pytest.mark.parametrize("clamp", CLAMPS.values(), ids=CLAMPS)


@EVERY_CLAMP
@EVERY_KERNEL
@pytest.mark.parametrize("skip", [True, False], ids=["skip", "no-skip"])
def test_identity_8_the_clamped_chain_is_exact_for_the_conditional_law(clamp, kernel, skip):
    """From noise when the schedule ends in 0, else from the law of X_T given the prompt."""
    for base in (ENDS_IN_0, VARIED):
        world = base.never_visiting(clamp)
        process, oracle = package(base)
        start = base.conditional(clamp) @ world.pushed[-1]
        if base is ENDS_IN_0:
            np.testing.assert_allclose(start, base.given(clamp, base.noise), atol=1e-12)
        law = driven(world, process, oracle, start, kernel, skip=skip, clamp=clamp)[0]
        np.testing.assert_allclose(law, base.conditional(clamp), atol=EXACT)


@EVERY_CLAMP
def test_identity_8_the_papers_zero_shot_rule_is_another_law(clamp):
    """It takes the prompt for as noised as the rest: the chain of the unclamped step laws with the prompt held."""
    start = ENDS_IN_0.given(clamp, ENDS_IN_0.noise)
    law = driven(ENDS_IN_0, *package(ENDS_IN_0), start, HEAT_BATH, clamp=clamp, clamp_rule="paper")[0]
    np.testing.assert_allclose(law, ENDS_IN_0.reverse(HEAT_BATH, start, held=clamp), atol=EXACT)
    assert tv(law, ENDS_IN_0.conditional(clamp)) > 0.01


# ---- 9. labelled noise


@pytest.mark.parametrize("name", ["keep-half", "keep-varied", "ends-in-0"])
@EVERY_KERNEL
def test_identity_9_the_labelled_chain_from_all_noise_is_exact_under_any_schedule(name, kernel):
    """Also one that leaves signal at T, from which the anonymous chain is not exact."""
    world = WORLDS[name]
    marked = world.marked()
    law = driven(marked, *package(world), np.eye(marked.N)[-1], kernel, mark_noise=True)[0]
    np.testing.assert_allclose(law, marked.table, atol=EXACT)
    if name != "ends-in-0":
        assert tv(world.reverse(kernel, world.noise), world.table) > 1e-8


@EVERY_KERNEL
def test_identity_9_the_labelled_step_is_the_step_of_a_process_of_the_same_kind(kernel):
    """`kernels.labelled` against the enumerated process whose noise law is sure to draw the mark."""
    marked = VARIED.marked()
    for t, i in enumerate(VARIED.sites):
        S, keep = VARIED.survival(t)[i], VARIED.keep[t]
        signal = torch.tensor([[True], [False]])
        arguments = (torch.full((2, 1), value, dtype=torch.float64) for value in (S, keep))
        stay, call = kernels.marked(kernel, *arguments, signal)
        back, clean = marked.back(kernel, t), marked.clean(t, i)
        for n in np.flatnonzero(marked.laws[t + 1] > 0):
            token = marked.states[n, i]
            which = int(token == VARIED.V)
            law = call[which].item() * clean[n] + stay[which].item() * np.eye(4)[token]
            law[VARIED.V] += 1 - call[which].item() - stay[which].item()
            np.testing.assert_allclose(law[marked.states[:, i]] * marked.same_off[i][n], back[n], atol=1e-12)


@EVERY_KERNEL
def test_identity_9_clamped_and_labelled_is_exact_for_the_conditional_law(kernel):
    clamp = {1: 2}
    marked = HALF.never_visiting(clamp).marked()
    start = marked.given(clamp, np.eye(marked.N)[-1])
    law = driven(marked, *package(HALF), start, kernel, mark_noise=True, clamp=clamp)[0]
    np.testing.assert_allclose(law, World(marked.table, marked.pi, [], []).conditional(clamp), atol=EXACT)


def test_identity_9_noise_sites_tell_nothing():
    """The oracle told survival 1 at the signal and 0 at the masks answers P*(· | the signal sites)."""
    noise = NoiseLaw(torch.from_numpy(PI))
    oracle = Oracle(torch.from_numpy(HALF.table).reshape(3, 3, 3), noise)
    for x in itertools.product(range(4), repeat=3):
        told = torch.tensor([[float(token < 3) for token in x]], dtype=torch.float64)
        for j in range(3):
            answer = oracle(torch.tensor([x]), torch.tensor([0]), told, torch.tensor([[j]])).exp()[0, 0]
            signal = {k: token for k, token in enumerate(x) if k != j and token < 3}
            law = HALF.conditional(signal) if signal else HALF.table
            np.testing.assert_allclose(answer, law @ HALF.at[j], atol=1e-12)
