"""Sites with vocabularies of their own: noise, chain, clamp and bound keep to them, and are exact on a small space."""

import itertools

import numpy as np
import pytest
import torch
from driving import one_step

from glauber import Model, NoiseLaw, Oracle, Process, Schedule, TransformerConfig, run_chain
from glauber.chain.bounds import prior_divergence, row_bounds, step_divergence
from glauber.method import METHODS, BoundOptions
from glauber.objective import dense

V, L = 3, 2
ALLOWED = torch.tensor([[True, True, False], [False, True, True]])
PI = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
TABLE = torch.tensor([[0.0, 0.1, 0.25], [0.0, 0.4, 0.25], [0.0, 0.0, 0.0]], dtype=torch.float64)
STATES = [(0, 1), (0, 2), (1, 1), (1, 2)]
KERNELS = ("heat-bath", "reversal")
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS)


def noise():
    return NoiseLaw(PI, ALLOWED)


def process(last_keep=0.0):
    keep = [0.6, 0.3, last_keep, last_keep]
    return Process(Schedule.round_robin(L, 2 * L, keep, order=[0, 1]), noise())


def leaky(oracle):
    """The exact conditional, but for a part of its mass that lies on all tokens alike, in proportion among the allowed ones.

    Given that the token is allowed it is exact again, so that only what keeps to the vocabularies has the exact law.
    """

    def conditional(x, t, survival, sites):
        law = oracle(x, t, survival, sites).exp()
        bad = ~ALLOWED[sites]
        return torch.where(bad, 0.4, law).log()

    return conditional


# ---- the same by hand: full matrices over the four states, from the definitions alone


def own_noise(site):
    within = PI.numpy() * ALLOWED[site].numpy()
    return within / within.sum()


def forward(process, t):
    """P(X_{t+1} = y | X_t = x) over STATES."""
    site, keep = int(process.schedule.order[t % L]), float(process.schedule.keep[t])
    matrix = np.zeros((4, 4))
    for (i, x), (j, y) in itertools.product(enumerate(STATES), repeat=2):
        if x[1 - site] == y[1 - site]:
            matrix[i, j] = keep * (x == y) + (1 - keep) * own_noise(site)[y[site]]
    return matrix


def laws(process):
    """P_0 .. P_T."""
    found = [np.array([TABLE[state].item() for state in STATES])]
    for t in range(process.schedule.steps):
        found.append(found[-1] @ forward(process, t))
    return found


def back(process, kernel, t):
    """The step that undoes t, by Bayes."""
    site, p = int(process.schedule.order[t % L]), laws(process)[t]
    aside = np.array([[x[1 - site] == y[1 - site] for y in STATES] for x in STATES])
    weights = aside * p if kernel == "heat-bath" else p * forward(process, t).T
    return weights / weights.sum(1, keepdims=True)


def stepped(process, kernel, t, **options):
    """(4, 4) the law of the real chain's step, by the midpoints of a fine grid of its coin and draw."""
    n = 200
    line = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    u = torch.stack([line.repeat_interleave(n), line.repeat(n)])[..., None]
    matrix = np.zeros((4, 4))
    for i, x in enumerate(STATES):
        rows = torch.tensor([x]).expand(n * n, L)
        after = one_step(leaky(Oracle(TABLE, noise())), process, rows, t, u, kernel=kernel, **options)
        for j, y in enumerate(STATES):
            matrix[i, j] = (after == torch.tensor(y)).all(1).double().mean()
    return matrix


@EVERY_KERNEL
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("t", range(4))
def test_a_step_of_the_chain_is_the_enumerated_one(kernel, skip, t):
    """Up to the grid on which it is seen; a token outside a vocabulary would leave a row short of mass."""
    found = stepped(process(), kernel, t, skip=skip)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(found, back(process(), kernel, t), atol=0.012)


@EVERY_KERNEL
@pytest.mark.parametrize("marked", [False, True])
def test_the_chain_from_noise_has_the_exact_law(kernel, marked):
    """200,000 rows: the largest of four frequencies is off by more than 0.006 with a chance below 1e-6."""
    generator = torch.Generator().manual_seed(3)
    conditional = leaky(Oracle(TABLE, noise()))
    x = run_chain(conditional, process(), 200_000, kernel=kernel, mark_noise=marked, generator=generator)
    found = [(x == torch.tensor(state)).all(1).double().mean().item() for state in STATES]
    assert sum(found) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(found, [TABLE[state].item() for state in STATES], atol=0.006)


@EVERY_KERNEL
def test_a_clamped_site_leaves_the_exact_conditional(kernel):
    generator = torch.Generator().manual_seed(4)
    x = run_chain(leaky(Oracle(TABLE, noise())), process(), 200_000, kernel=kernel, clamp={1: 2}, generator=generator)
    assert bool((x[:, 1] == 2).all())
    share = (x[:, 0] == 0).double().mean().item()
    assert share == pytest.approx(0.5, abs=0.006)
    assert bool((x[:, 0] < 2).all())


@EVERY_KERNEL
@pytest.mark.parametrize("last_keep", [0.0, 0.4])
def test_the_bound_is_the_enumerated_one(kernel, last_keep):
    """KL of the whole paths, every step of it by hand: the reversal by the forward process's posterior, the heat bath by the
    posterior that redraws the site."""
    chain = process(last_keep)
    conditional = leaky(Oracle(TABLE, noise()))
    for x0 in STATES:
        start = torch.tensor([x0])
        by_hand, S = 0.0, np.ones(2)
        p = np.zeros(4)
        p[STATES.index(x0)] = 1.0
        terms = []
        for t in range(chain.schedule.steps):
            site, after = int(chain.schedule.order[t % L]), p @ forward(chain, t)
            q_back = p[None] * forward(chain, t).T  # row y: P(X_t = x, X_{t+1} = y)
            if kernel == "heat-bath":
                own = S[site] * np.eye(3)[x0[site]] + (1 - S[site]) * own_noise(site)
            for j, y in enumerate(STATES):
                if after[j] == 0:
                    continue
                reverse = back(chain, kernel, t)[j]
                if kernel == "heat-bath":
                    q = np.array([own[x[site]] * (x[1 - site] == y[1 - site]) for x in STATES])
                else:
                    q = q_back[j] / after[j]
                terms.append(after[j] * sum(a * np.log(a / b) for a, b in zip(q, reverse, strict=True) if a > 0))
            S[site] *= float(chain.schedule.keep[t])
            p = after
        end = np.array([own_noise(0)[x] * own_noise(1)[y] for x, y in STATES])
        by_hand = sum(terms) + sum(a * np.log(a / b) for a, b in zip(p, end, strict=True) if a > 0)

        found = prior_divergence(chain, start).item()
        p = np.zeros(4)
        p[STATES.index(x0)] = 1.0
        for t in range(chain.schedule.steps):
            p = p @ forward(chain, t)
            for j, y in enumerate(STATES):
                if p[j] > 0:
                    step = step_divergence(conditional, chain, start, torch.tensor([y]), torch.tensor([t]), kernel)
                    found += p[j] * step.item()
        assert found == pytest.approx(by_hand, abs=1e-10)


def test_the_estimated_bound_is_never_below_the_truth():
    rows = torch.tensor(STATES).repeat(2000, 1)
    nats = row_bounds(leaky(Oracle(TABLE, noise())), process(), rows, KERNELS, 4, torch.Generator().manual_seed(0))
    truth = -torch.tensor([TABLE[state].item() for state in STATES], dtype=torch.float64).log()
    means = nats.view(2, 2000, 4).mean(1)
    assert bool((means > truth - 0.02).all())


def test_noise_falls_within_the_vocabularies_by_the_law_given_them():
    x0 = torch.tensor([[0, 1]]).expand(100_000, 2)
    x = process().noised(x0, torch.zeros(100_000, 2, dtype=torch.float64), torch.Generator().manual_seed(0))
    for site in range(2):
        counts = x[:, site].bincount(minlength=V) / len(x)
        np.testing.assert_allclose(counts.numpy(), own_noise(site), atol=0.008)
    assert bool((counts[~ALLOWED[1]] == 0).all())


def test_a_law_without_vocabularies_draws_what_it_drew():
    u = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    everything = NoiseLaw(PI, torch.ones(L, V, dtype=torch.bool))
    assert torch.equal(everything.draw(u), NoiseLaw(PI).draw(u))


def test_the_dense_loss_weighs_a_token_by_its_site_s_own_noise():
    """The gradient at the clean conditional vanishes in the mean if, and only if, the evidence is that of the site's noise."""
    seen = []

    def network(x, t, survival):
        seen.append((x, survival))
        return torch.zeros(*x.shape, V, dtype=torch.float64, requires_grad=True)

    loss = dense(network, process(), torch.tensor([[0, 1]] * 8), generator=torch.Generator().manual_seed(1))
    x, S = seen[0]
    total = 0.0
    for row in range(8):
        for site in range(L):
            token, s = int(x[row, site]), float(S[row, site])
            if s == 1:
                continue
            weights = np.ones(V)
            if token < V and s > 0:
                weights[token] += s / ((1 - s) * own_noise(site)[token])
            total -= np.log(weights[[0, 1][site]] / weights.sum())
    assert loss.item() == pytest.approx(total / 16, abs=1e-9)


@pytest.mark.parametrize(
    ("act", "about"),
    [
        (lambda: run_chain(Oracle(TABLE, noise()), process(), clamp={0: 2}), "site 0 may not hold the token 2"),
        (lambda: run_chain(Oracle(TABLE, noise()), process(), start=([[0, 0]], 2)), "site 1 may not hold the token 0"),
        (lambda: process().corrupt([[2, 1]], 0), "site 0 may not hold the token 2"),
        (lambda: NoiseLaw(PI, torch.zeros(2, 3, dtype=torch.bool)), "site 0 may hold no token"),
        (lambda: NoiseLaw(PI, torch.ones(2, 4, dtype=torch.bool)), "booleans of shape"),
        (lambda: Process(Schedule.round_robin(3, 3), noise()), "2 sites, the schedule 3 sites"),
    ],
)
def test_what_lies_outside_a_vocabulary_is_refused(act, about):
    with pytest.raises(ValueError, match=about):
        act()


def small(method, **shape):
    torch.manual_seed(0)
    built = METHODS[method].network(TransformerConfig(V, L, width=16, layers=1, heads=2, **shape))
    with torch.no_grad():  # a new network answers with the uniform law, which would hide much
        built.head.weight.normal_(std=0.7)
        built.head.bias.normal_(std=0.7)
    return built


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_keeps_to_the_vocabularies_or_refuses_in_one_sentence(method):
    if not METHODS[method].can.site_vocabularies:
        with pytest.raises(ValueError, match=f"the method {method} has one vocabulary for all sites"):
            Model(small(method), Process(Schedule.round_robin(L, L, 0.5), noise()), method=method)
        return
    causal, keep = method == "ar", {"mlm": 1.0}.get(method, 0.0)
    schedule = Schedule.round_robin(L, L, keep, order="left-to-right")
    x = Model(small(method, causal=causal), Process(schedule, noise()), method=method).sample_tokens(2000, seed=0)
    assert bool(ALLOWED.expand(2000, -1, -1).gather(-1, x[..., None]).all())
    assert all(len(x[:, site].unique()) == 2 for site in range(L))


def test_the_likelihood_of_ar_sums_to_one_over_the_vocabularies():
    schedule = Schedule.round_robin(L, L, 0.0, order="left-to-right")
    model = Model(small("ar", causal=True), Process(schedule, noise()), method="ar").eval()
    nats = model.method.bound(model.network, model.process, torch.tensor(STATES), 1)
    assert nats.neg().exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_mdlm_in_one_order_pays_for_each_site_within_its_vocabulary():
    """By the chain rule; summed over the four states its probabilities are 1."""
    model = Model(small("mdlm"), Process(Schedule.round_robin(L, L, 0.0), noise()), method="mdlm").eval()
    plan, rows = model.sampler(order=[0, 1]).plan, torch.tensor(STATES)
    generator = torch.Generator().manual_seed(0)
    nats = model.method.plan_bound(model.network, model.process, plan, rows, BoundOptions(draws=2, generator=generator))
    assert nats.neg().exp().sum().item() == pytest.approx(1, abs=1e-6)
