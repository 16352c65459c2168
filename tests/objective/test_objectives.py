"""The three losses have the exact conditional as their minimum, and `binary`, `marginal`, `dense` feed them rightly."""

import itertools

import numpy as np
import pytest
import torch
from driving import Tabular, exact_classifier, package
from enumeration import World, chi_square, index, random_law

from glauber import NoiseLaw, Process, Schedule, Transformer, TransformerConfig, binary, dense, marginal
from glauber.objective import binary_loss, dense_loss, draw_times, marginal_loss
from glauber.objective.cross_entropy import linear_cross_entropy
from glauber.objective.dense import _clean_sites, _mask_count

FALSE_ALARM = 1e-6
PI = np.array([0.2, 0.5, 0.3])
WORLD = World(random_law(27, 50, 0.5), PI, ([2, 0, 1] * 3)[:7], [0.9, 0.2, 0.7, 0.3, 0.6, 0.1, 0.8])
ENDS_IN_0 = World(random_law(27, 51, 0.5), PI, [0, 1, 2] * 2, [0.6] * 3 + [0.0] * 3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# ---- the expected gradient, enumerated, of free logits for every context


def at_and_away(logits, expected_loss):
    """The greatest entry of the gradient of the expected loss at the given logits, and a random step away from them."""
    away = logits + torch.from_numpy(np.random.default_rng(0).normal(size=logits.shape, scale=0.3))
    greatest = []
    for theta in (logits.clone(), away):
        theta.requires_grad_()
        (gradient,) = torch.autograd.grad(expected_loss(theta), theta)
        greatest.append(gradient.abs().max().item())
    return greatest


def test_binary_loss_has_zero_expected_gradient_at_the_exact_classifier():
    """Over every t, X_t and Z_t, with a free logit for every (t, x_{-i}, a)."""

    def expected_loss(theta):
        network, total = Tabular(theta, 3), 0.0
        for t, i in enumerate(WORLD.sites):
            x, z = (part.ravel() for part in np.meshgrid(range(27), range(-1, 3), indexing="ij"))
            weight = WORLD.laws[t][x] * np.append((1 - WORLD.keep[t]) * PI, WORLD.keep[t])[z]  # z = -1 is φ, the last entry
            x_next = torch.from_numpy(WORLD.states[x])
            x_next[z >= 0, i] = torch.from_numpy(z[z >= 0])
            logits = network(x_next, torch.full((len(x),), t), None, torch.full((len(x), 1), i))[:, 0]
            total += torch.from_numpy(weight) @ binary_loss(logits, x_next[:, i], torch.from_numpy(z))
        return total

    at, away = at_and_away(exact_classifier(WORLD).values, expected_loss)
    assert at < 1e-8
    assert away > 1e-3


def test_marginal_loss_has_zero_expected_gradient_at_the_exact_classifier():
    """Over every t, X_0 and X_t, with a free logit for every (t, x_{-i}, a)."""

    def expected_loss(theta):
        network, total = Tabular(theta, 3), 0.0
        for t, i in enumerate(WORLD.sites):
            x0, x = (part.ravel() for part in np.meshgrid(range(27), range(27), indexing="ij"))
            weight = torch.from_numpy(WORLD.table[x0] * WORLD.pushed[t][x0, x])
            asked = torch.full((len(x), 1), i)
            logits = network(torch.from_numpy(WORLD.states[x]), torch.full((len(x),), t), None, asked)[:, 0]
            S, keep = (torch.full((len(x),), value, dtype=torch.float64) for value in (WORLD.survival(t)[i], WORLD.keep[t]))
            total += weight @ marginal_loss(logits, torch.from_numpy(WORLD.states[x0, i]), S, keep, torch.from_numpy(PI))
        return total

    at, away = at_and_away(exact_classifier(WORLD).values, expected_loss)
    assert at < 1e-8
    assert away > 1e-3


@pytest.mark.parametrize("world", [WORLD, ENDS_IN_0], ids=["keep-varied", "ends-in-0"])
@pytest.mark.parametrize("masked", [(), (0,), (2, 1)], ids=["no-mask", "one-mask", "two-masks"])
def test_dense_loss_has_zero_expected_gradient_at_the_clean_conditional(world, masked):
    """Over every t, X_0 and X_t, with free logits for every (t, x, site): x with its own token, which the network sees."""
    exact = np.zeros((world.T + 1, world.N, 3, 3))
    for t, j in itertools.product(range(world.T + 1), range(3)):
        exact[t, :, j] = world.clean(t, j, together=[k for k in masked if k != j])
    shown = world.states.copy()
    shown[:, list(masked)] = 0
    context = torch.from_numpy(index(shown, 3))  # states that differ only behind a mask are one context

    def expected_loss(theta):
        total = 0.0
        for t in range(world.T + 1):
            x0, x = (part.ravel() for part in np.meshgrid(range(27), range(27), indexing="ij"))
            weight = torch.from_numpy(world.table[x0] * world.pushed[t][x0, x])
            S = torch.from_numpy(world.survival(t)).repeat(len(x), 1)
            seen = torch.from_numpy(world.states[x])
            S[:, list(masked)], seen[:, list(masked)] = 0.0, world.V
            loss, _ = dense_loss(theta[t, context[x]], seen, torch.from_numpy(world.states[x0]), S, torch.from_numpy(PI))
            total += weight @ loss.sum(1)
        return total

    at, away = at_and_away(torch.from_numpy(np.log(exact)), expected_loss)
    assert at < 1e-8
    assert away > 1e-3


# ---- the whole objectives: what they draw and what they pass on

CALLS = 100


class Probe:
    """An exact network plus features · delta: at delta = 0 an objective's gradient in delta must have mean zero.

    Args:
        exact: the network; features: called as it is, (..., F); wrong: added to its logit of token 0.
    """

    def __init__(self, exact, features, wrong=0.0):
        self.exact, self.features, self.wrong, self.seen = exact, features, wrong, []

    def __call__(self, x, t, survival, sites=None):
        self.seen.append((x, t, survival, sites))
        logits, features = self.exact(x, t, survival, sites), self.features(x, t, survival, sites)
        self.delta = torch.zeros(features.shape[-1], logits.shape[-1], dtype=torch.float64, requires_grad=True)
        return logits + self.wrong * one_hot(torch.tensor(0), logits.shape[-1]) + features @ self.delta


def greatest_z(probe, loss):
    """max |mean / standard error| over the entries of delta's gradient, from independent calls."""
    gradients = []
    for _ in range(CALLS):
        value = loss(probe)  # makes a new delta
        gradients.append(torch.autograd.grad(value, probe.delta)[0].flatten())
    gradients = torch.stack(gradients)
    error = gradients.std(0) / CALLS**0.5
    assert (error > 0).sum() > len(error) / 2
    return (gradients.mean(0) / error)[error > 0].abs().max().item()


def one_hot(x, classes):
    return torch.nn.functional.one_hot(x, classes).double()


def clean_rows(world, rows, g):
    return torch.from_numpy(world.states)[torch.multinomial(torch.from_numpy(world.table), rows, True, generator=g)]


@pytest.mark.parametrize("objective", [binary, marginal])
def test_binary_and_marginal_have_mean_gradient_zero_at_the_exact_classifier(objective):
    """100 calls of 2000 rows; all |z| < 6 over 39 entries of the gradient: false alarm below 1e-5 (Student, 99 degrees).

    A classifier that is 0.2 off in one logit shows at |z| > 8.
    """
    process, rows = package(WORLD)[0], 2000

    def features(x, t, survival, sites):
        neighbour = x.gather(1, (sites + 1) % 3)
        return torch.cat([one_hot(t[:, None], WORLD.T), one_hot(sites, 3), one_hot(neighbour, 3)], dim=-1)

    for wrong in (0.0, 0.2):
        g = generator(1)
        probe = Probe(exact_classifier(WORLD), features, wrong)
        z = greatest_z(probe, lambda net, g=g: objective(net, process, clean_rows(WORLD, rows, g), generator=g))
        assert z < 6 if wrong == 0 else z > 8
        for x, t, survival, sites in probe.seen[:3]:
            np.testing.assert_allclose(survival, [WORLD.survival(int(s)) for s in t], atol=1e-15)
            assert sites[:, 0].tolist() == [WORLD.sites[int(s)] for s in t]
            assert x.shape == (rows, 3)


@pytest.mark.parametrize("objective", [binary, marginal])
def test_erratum_times_are_uniform_up_to_the_last_step(objective):
    """The printed algorithm stops at T - 2; the sampler uses T - 1. Chi-square, false alarm 1e-6."""
    process, _ = package(WORLD)
    probe = Probe(exact_classifier(WORLD), lambda x, t, survival, sites: one_hot(sites, 3))
    objective(probe, process, torch.zeros(3000, 3, dtype=torch.int64), timesteps=2, generator=generator())
    ((_, t, _, _),) = probe.seen
    assert len(t) == 6000
    assert chi_square(np.bincount(t, minlength=WORLD.T), np.full(WORLD.T, 1 / WORLD.T)) > FALSE_ALARM


def test_the_label_is_the_event_that_noise_was_drawn_not_a_change_of_the_token():
    """Noise may draw the token that was there. With logits w the mean loss tells the share of the label "noise": 1 - κ."""
    same = binary_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), torch.tensor([0]))
    torch.testing.assert_close(same, torch.nn.functional.softplus(torch.tensor([-2.0])))
    kept = binary_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), torch.tensor([-1]))
    torch.testing.assert_close(kept, torch.nn.functional.softplus(torch.tensor([2.0])))

    rows, keep, w = 20_000, 0.4, 3.0
    process = Process(Schedule.round_robin(2, 2, keep), NoiseLaw.uniform(2))
    x0 = torch.zeros(rows, 2, dtype=torch.int64)
    loss = binary(lambda x, t, survival, sites: torch.full((len(x), 1, 2), w), process, x0, generator=generator()).item()
    share = (np.log1p(np.exp(w)) - loss) / w  # softplus(w) - softplus(-w) = w
    assert abs(share - (1 - keep)) < 5 * (keep * (1 - keep) / rows) ** 0.5  # five sigma; the changed are (1 - keep) / 2


SMALL = World(random_law(81, 52, 0.5), PI, [3, 1, 0, 2] * 2, [0.7] * 4 + [0.3] * 4)
DENSE = {
    "own-order": {"any_order": False, "clean_fraction": 0.0},
    "any-order": {"clean_fraction": 0.0},
    "clean_fraction": {"clean_fraction": 1.0},
    "marked_fraction": {"clean_fraction": 0.0, "marked_fraction": 1.0},
    "everything": {"clean_fraction": 0.5, "marked_fraction": 0.5},
}


def clean_conditional(oracle):
    """A dense network that is exact: log P(X_0[j] | what is told elsewhere) at every site."""

    def network(x, t, survival, sites=None):
        asked = torch.arange(x.shape[1]).expand(len(x), -1)
        return torch.cat([oracle(x, t, survival, asked[:, j : j + 1]) for j in range(x.shape[1])], dim=1)

    return network


def dense_features(x, t, survival, sites):
    """The site, its own token, its right neighbour's, and its survival."""
    site = torch.arange(x.shape[1]).expand_as(x)
    return torch.cat([one_hot(site, x.shape[1]), one_hot(x, 4), one_hot(x.roll(-1, 1), 4), survival[..., None]], dim=-1)


@pytest.mark.parametrize("options", DENSE.values(), ids=DENSE)
def test_dense_has_mean_gradient_zero_at_the_clean_conditional(options):
    """100 calls of 400 rows; all |z| < 6 over 39 entries of the gradient: false alarm below 1e-5 (Student, 99 degrees).

    A network that is 0.2 off in one logit shows at |z| > 8.
    """
    process, oracle = package(SMALL)
    for wrong in (0.0, 0.2):
        g = generator(2)
        probe = Probe(clean_conditional(oracle), dense_features, wrong)
        z = greatest_z(probe, lambda net, g=g: dense(net, process, clean_rows(SMALL, 400, g), generator=g, **options))
        assert z < 6 if wrong == 0 else z > 8


@pytest.mark.parametrize("options", DENSE.values(), ids=DENSE)
def test_dense_counts_every_site_that_is_not_known_for_certain(options):
    """A clean prompt site teaches nothing. The loss is the sum over the others by the sites of the batch."""
    process, _oracle = package(SMALL)
    g = generator(3)
    x0 = clean_rows(SMALL, 300, g)
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(300, 4, 3))).requires_grad_()
    probe = []

    def network(x, t, survival):
        probe.append((x, t, survival))
        return logits

    loss = dense(network, process, x0, generator=g, **options)
    (gradient,) = torch.autograd.grad(loss, logits)
    ((x, _t, survival),) = probe
    certain = survival == 1
    assert certain.any()
    assert torch.equal(x[certain], x0[certain])
    assert (gradient[certain] == 0).all()
    assert (gradient[~certain].abs().sum(-1) > 0).all()
    assert ((x == 3) <= (survival == 0)).all()
    terms = []
    for row, j in (~certain).nonzero().tolist():
        S, token = survival[row, j].item(), int(x[row, j])
        factor = np.ones(3) if token == 3 else S * (np.arange(3) == token) + (1 - S) * PI[token]
        posterior = np.exp(logits[row, j].detach().numpy()) * factor
        terms.append(-np.log(posterior[x0[row, j]] / posterior.sum()))
    assert loss.item() == pytest.approx(sum(terms) / x0.numel(), abs=1e-12)


def seen_by_dense(process, x0, **options):
    seen = []

    def network(x, t, survival):
        seen.append((x, t, survival))
        return torch.zeros(*x.shape, process.vocab)

    dense(network, process, x0, generator=generator(4), **options)
    return seen[0]


def test_dense_shows_the_schedules_survival_or_a_permutation_of_it():
    """Masked sites aside, which are told survival 0. One mask at least, a quarter of the row at most."""
    process = Process(Schedule.round_robin(8, 16, [0.7, 0.3]), NoiseLaw.uniform(3))
    x0 = torch.zeros(500, 8, dtype=torch.int64)
    for any_order in (False, True):
        x, t, survival = seen_by_dense(process, x0, any_order=any_order, clean_fraction=0.0)
        masked, truth = x == 3, process.schedule.survival(t)
        assert set(masked.sum(1).tolist()) == {1, 2}
        assert (survival[masked] == 0).all()
        if not any_order:
            assert torch.equal(survival[~masked], truth[~masked])
            continue
        assert not torch.equal(survival[~masked], truth[~masked])
        for row in range(len(x)):
            values = truth[row].tolist()
            for value in survival[row, ~masked[row]].tolist():
                values.remove(value)
            assert len(values) == masked[row].sum()


def test_dense_leaves_sites_clean_in_a_fraction_of_rows_and_masks_marked_noise():
    process = Process(Schedule.round_robin(8, 16, [0.7, 0.3], last_keep=0.3), NoiseLaw.uniform(3))
    x0 = torch.randint(3, (800, 8), generator=generator(5))
    late = 8  # from here on the schedule itself leaves no site certain
    for clean_fraction in (0.0, 1.0):
        x, t, survival = seen_by_dense(process, x0, clean_fraction=clean_fraction)
        clean = (survival == 1)[t >= late]
        assert len(clean) > 100
        assert clean.any() == (clean_fraction > 0)
        assert torch.equal(x[survival == 1], x0[survival == 1])
        if clean_fraction:
            assert {1, 4, 6} < set(clean.sum(1).tolist())  # of many sizes
    x, _, survival = seen_by_dense(process, x0, clean_fraction=0.0, marked_fraction=1.0)
    assert torch.equal(survival, (x != 3).double())
    assert torch.equal(x[x != 3], x0[x != 3])


@pytest.mark.parametrize("keep", [0.5, [0.9, 0.5, 0.0]], ids=["keep-half", "ends-in-0"])
def test_draw_times_are_as_frequent_as_the_calls_of_the_chain(keep):
    """P(t) ∝ S_t(i_t). Strata: a count is less than 2 from its expectation; its mean over 400 draws is within 0.2 (5 sigma)."""
    process = Process(Schedule.round_robin(4, 12, keep, order="left-to-right"), NoiseLaw.uniform(3))
    K = [1, 0.5, 0.25] if keep == 0.5 else [1, 0.9, 0.45]  # survival at the r-th visit
    law = np.repeat(K, 4) / (4 * sum(K))
    rows, g = 100, generator()
    counts = np.array([np.bincount(draw_times(process, rows, g), minlength=12) for _ in range(400)])
    assert counts.shape == (400, 12)
    assert (np.abs(counts - rows * law) < 2).all()
    assert (np.abs(counts.mean(0) - rows * law) < 5 * (0.5 / 400) ** 0.5).all()


def test_draw_times_leave_out_the_steps_that_need_no_network():
    process = Process(Schedule.round_robin(2, 6, [0.0, 0.5, 0.5]), NoiseLaw.uniform(3))
    assert set(draw_times(process, 1000, generator()).tolist()) == {0, 1}


@pytest.mark.parametrize("table", [7, 40, 1 << 20])
def test_chunked_cross_entropy_and_its_gradients_are_those_of_the_whole_table(table, monkeypatch):
    monkeypatch.setattr("glauber.objective.cross_entropy.TABLE", table)
    g = generator(0)
    N, D, V = 23, 5, 7
    h, weight, bias = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((N, D), (V, D), (V,)))
    token, target = (torch.randint(V, (N,), generator=g) for _ in range(2))
    evidence, scale = (torch.rand(N, generator=g, dtype=torch.float64) for _ in range(2))
    leaves = [part.requires_grad_() for part in (h, weight, bias)]
    logits = (h @ weight.T + bias).scatter_add(1, token[:, None], evidence[:, None])
    whole = (torch.nn.functional.cross_entropy(logits, target, reduction="none") * scale).sum()
    chunked = linear_cross_entropy(h, weight, bias, token, evidence, target, scale)
    assert chunked.item() == pytest.approx(whole.item(), abs=1e-12)
    for one, other in zip(torch.autograd.grad(3 * chunked, leaves), torch.autograd.grad(3 * whole, leaves), strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_dense_is_the_same_chunked_or_not():
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab=3, length=4, width=16, layers=1, heads=2))
    torch.nn.init.normal_(network.head.weight)
    process, _ = package(SMALL)
    x0 = clean_rows(SMALL, 64, generator(0))
    losses = [dense(network, process, x0, chunked=chunked, generator=generator(1)) for chunked in (False, True)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)
    gradients = [torch.autograd.grad(loss, list(network.parameters()), allow_unused=True) for loss in losses]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_dense_masks_a_log_uniform_number_of_sites():
    """Between 1 and a quarter of the row; one mask alone in log 2 / log 17 of 20000 rows, within 6 standard errors."""
    counts = _mask_count(torch.zeros(20_000, 64, dtype=torch.int64), generator(0))
    assert (counts.min(), counts.max()) == (1, 16)
    share = np.log(2) / np.log(17)
    assert abs((counts == 1).double().mean().item() - share) < 6 * (share * (1 - share) / 20_000) ** 0.5


def test_half_of_the_clean_sets_leave_one_stretch_free_and_half_a_scattered_set():
    given = _clean_sites(torch.zeros(2000, 32, dtype=torch.int64), 1.0, generator(0))
    edges = (given != given.roll(1, dims=1)).sum(1)  # around the row: 2 for one stretch
    assert 0.45 < (edges <= 2).double().mean() < 0.65  # a few scattered sets are a stretch by chance, or empty
    assert not _clean_sites(torch.zeros(100, 32, dtype=torch.int64), 0.0, generator(0)).any()
