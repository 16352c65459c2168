"""The diffusions against their own theory, on all 27 rows of 3 tokens at 3 sites: exact networks by enumeration, the sampler's
law by pushing its kernel, the bound by summing over every noised state and integrating over time."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from enumeration import chi_square, index, random_law, states, tv
from refusals import refused

from glauber import Model, NoiseLaw, Process, Schedule, TransformerConfig, load
from glauber.codec.text import ByteCodec, CharCodec
from glauber.method import METHODS, BoundOptions, LossOptions, Request, Run, sedd
from glauber.method.diffusion import integral
from glauber.method.mdlm import unmask
from glauber.method.plaid import EmbeddingDiffusion, diffusion, prior, reconstruction, step
from glauber.method.plaid_network import Plaid
from glauber.method.sedd import sigma
from glauber.method.udlm import uniform_tokens
from glauber.process.draws import KeyedGenerator
from glauber.train import TrainSpec, recipe
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.report import read_log
from glauber.train.run import fit, run

V, L = 3, 3
TABLE = random_law(V**L, 3, 0.5)
NLL = -np.log(TABLE)
ENTROPY = float(TABLE @ NLL)
STATES = torch.from_numpy(states(V, L))  # (27, L)
PROCESS = Process(Schedule.round_robin(L, L, keep=0.0), NoiseLaw.uniform(V))
ABSORBING, UNIFORM = ("mdlm", "sedd"), ("udlm", "sedd-uniform")


# ---- exact networks, called as a Transformer is


def clean_given_tokens(z, t, survival):
    """(B, L, V) log P(X_0[j] = a | the tokens that are not masked)."""
    fits = ((z[:, None] == STATES) | (z[:, None] == V)).all(-1)
    return share(fits * torch.from_numpy(TABLE))


def weights(z, alpha, without):
    """(B, 27) P*(x_0) times the likelihood of the tokens z at all sites but one, under uniform noise."""
    each = alpha[:, None, None] * (z[:, None] == STATES) + (1 - alpha[:, None, None]) / V
    sites = [j for j in range(L) if j != without]
    return torch.from_numpy(TABLE) * each[..., sites].prod(-1)


def share(weight):
    """(B, 27) weights of the clean rows → (B, L, V) log-probabilities of the token at each site."""
    law = torch.stack([weight @ (STATES[:, j, None] == torch.arange(V)).double() for j in range(L)], 1)
    return (law / law.sum(-1, keepdim=True)).log()


def clean_given_others(z, t, survival):
    """(B, L, V) log P(X_0[j] = a | z at the other sites)."""
    return torch.stack([share(weights(z, survival[:, 0], j))[:, j] for j in range(L)], 1)


def clean_given_all(z, t, survival):
    """(B, L, V) log P(X_0[j] = a | z)."""
    return share(weights(z, survival[:, 0], None))


def score(z, t, survival):
    """(B, L, V) log p_t(z with y at j) / p_t(z)."""
    moved = z[:, None, None].repeat(1, L, V, 1)
    for j in range(L):
        moved[:, j, :, j] = torch.arange(V)
    alpha = survival[:, 0, None, None].expand(-1, L, V)
    p = weights(moved.view(-1, L), alpha.reshape(-1), None).sum(-1).view(-1, L, V)
    return (p / weights(z, survival[:, 0], None).sum(-1)[:, None, None]).log()


def sedd_share(z, t, survival):
    """What the network of SEDD says of masks: its answer has log V taken off."""
    return clean_given_tokens(z, t, survival) + math.log(V)


EXACT = {"mdlm": clean_given_tokens, "sedd": sedd_share, "udlm": clean_given_others, "sedd-uniform": score}


def wrong(name):
    """A network that is off by a fixed random amount for each state and token."""
    g = torch.Generator().manual_seed(5)
    error = 0.5 * torch.randn(V + 1, V + 1, V + 1, L, V, generator=g, dtype=torch.float64)
    return lambda z, t, survival: EXACT[name](z, t, survival).clamp_min(-20) + error[tuple(z.T)]


# ---- the bound, by enumeration


def space(name):
    """All states of the noised rows: with the mask among the tokens, or without."""
    return torch.from_numpy(states(V + 1 if name in ABSORBING else V, L))


def noised_law(name, x0, z, t):
    """q(z_t = z | x_0), by what the papers say of their noise."""
    if name in ABSORBING:
        each = np.where(z == V, t, np.where(z == x0, 1 - t, 0.0))
    else:
        alpha = 1 - t if name == "udlm" else math.exp(-(1e-4 ** (1 - t) * 20**t - 1e-4))
        each = alpha * (z == x0) + (1 - alpha) / V
    return each.prod(-1)


def exact_bound(name, network, nodes=80):
    """(27,) the bound of every row. With t = v³, since the integrand has a logarithm at 0."""
    node, weight = np.polynomial.legendre.leggauss(nodes)
    node, weight = (node + 1) / 2, weight / 2
    pairs = torch.stack([torch.stack(pair) for pair in itertools.product(STATES, space(name))])  # (27·Z, 2, L)
    total = np.zeros(len(STATES))
    for v, w in zip(node, weight, strict=True):
        t = v**3
        times = torch.full((len(pairs),), t, dtype=torch.float64)
        terms = METHODS[name].term(network, PROCESS, pairs[:, 0], pairs[:, 1], times)
        q = noised_law(name, pairs[:, 0].numpy(), pairs[:, 1].numpy(), t)
        total += 3 * v**2 * w * (q * terms.numpy()).reshape(len(STATES), -1).sum(1)
    return total + L * METHODS[name].prior(PROCESS)


@pytest.mark.parametrize("name", EXACT)
def test_with_an_exact_network_the_bound_of_every_row_is_its_negative_log_likelihood(name):
    np.testing.assert_allclose(exact_bound(name, EXACT[name]), NLL, rtol=0, atol=1e-6)


def test_the_bound_of_udlm_wants_the_clean_token_given_the_other_sites_and_not_given_all():
    """A network that names P(X_0 | z) itself, own token and all, is not the optimum."""
    assert TABLE @ exact_bound("udlm", clean_given_all) > ENTROPY + 0.02


@pytest.mark.parametrize("name", EXACT)
def test_the_estimate_of_the_bound_is_unbiased(name):
    """5 standard errors: a false alarm in a million."""
    expected = exact_bound(name, wrong(name))
    x0 = STATES.repeat(200, 1)
    found = METHODS[name].bound(wrong(name), PROCESS, x0, 4, torch.Generator().manual_seed(0)).view(200, -1)
    assert (abs(found.mean(0).numpy() - expected) < 5 * found.std(0).numpy() / 200**0.5).all()


@pytest.mark.parametrize("name", EXACT)
def test_the_loss_is_the_mean_of_the_bound_per_token(name):
    """Over all clean rows alike, with the trainer's own random numbers."""
    x0 = STATES.repeat(400, 1)
    keyed = KeyedGenerator((7, 1), torch.arange(len(x0)), len(x0))
    found = loss_of(name, wrong(name), PROCESS, x0, generator=keyed).item()
    each = METHODS[name].bound(wrong(name), PROCESS, x0, 1, torch.Generator().manual_seed(1)) / L
    assert abs(found - exact_bound(name, wrong(name)).mean() / L) < 5 * each.std().item() / len(x0) ** 0.5


# ---- the sampler's law, by pushing its kernel


def kernel(name, network, t, s, sampler):
    """The transition matrix of one step, from the laws of its sites."""
    z = space(name)
    law = METHODS[name].law(network, PROCESS, z, t, s, sampler).numpy()  # (Z, L, V')
    np.testing.assert_allclose(law.sum(-1), 1, rtol=0, atol=1e-12)
    return np.prod([law[:, j][:, z[:, j].numpy()] for j in range(L)], axis=0)


def law_after(name, network, steps, sampler=None):
    """(27,) the law of the tokens that the sampler ends in."""
    z, method = space(name).numpy(), METHODS[name]
    law = (z == V).all(1).astype(float) if name in ABSORBING else np.full(len(z), V**-L)
    for k in range(steps):
        law = law @ kernel(name, network, 1 - k / steps, (steps - k - 1) / steps, sampler or method.can.samplers[-1])
    done = (z < V).all(1)
    assert law[~done].sum() < 1e-12
    return law[done]


CHAINS = [("mdlm", "ancestral"), ("sedd", "tweedie"), ("udlm", "ancestral")]
CHAINS += [("sedd-uniform", "tweedie"), ("sedd-uniform", "euler")]


@pytest.mark.parametrize(("name", "sampler"), CHAINS)
def test_with_an_exact_network_the_sampler_s_law_goes_to_the_data_s_with_the_number_of_steps(name, sampler):
    """The error is of order 1 / steps: four times the steps, about a quarter of it."""
    errors = [tv(law_after(name, EXACT[name], steps, sampler), TABLE) for steps in (16, 64, 256)]
    assert errors[2] < errors[1] / 2.5 < errors[0] / 6
    assert errors[2] < (0.05 if sampler == "euler" else 0.01)


def test_one_step_draws_every_site_on_its_own():
    marginals = TABLE.reshape((V,) * L)
    alone = np.einsum("a,b,c->abc", marginals.sum((1, 2)), marginals.sum((0, 2)), marginals.sum((0, 1))).ravel()
    for name in ("mdlm", "sedd", "udlm"):
        np.testing.assert_allclose(law_after(name, EXACT[name], 1), alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [2, 5])
def test_sedd_and_mdlm_are_one_chain_where_both_are_exact_and_so_are_their_uniform_counterparts_step_by_step(steps):
    np.testing.assert_allclose(law_after("sedd", sedd_share, steps), law_after("mdlm", clean_given_tokens, steps), atol=1e-12)
    np.testing.assert_allclose(law_after("sedd", sedd_share, steps, "euler"), law_after("sedd", sedd_share, steps), atol=0)
    t, s = 0.6, 0.5  # of SEDD's clock; the same survivals on UDLM's
    lost = [-math.expm1(-sigma(torch.tensor(time, dtype=torch.float64)).item()) for time in (t, s)]
    tweedie = kernel("sedd-uniform", score, t, s, "tweedie")
    np.testing.assert_allclose(tweedie, kernel("udlm", clean_given_others, *lost, "ancestral"), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_the_bound_is_above_the_negative_log_likelihood_of_the_sampler_whatever_the_network_says(name):
    """Of the chain with many steps; a wrong network loses something in the mean."""
    sampler = "ancestral" if "ancestral" in METHODS[name].can.samplers else "tweedie"
    gap = exact_bound(name, wrong(name)) + np.log(law_after(name, wrong(name), 512, sampler))
    assert gap.min() > -0.01
    assert gap.max() > 0.01


@pytest.mark.parametrize("t", [0.5, 0.05])
def test_the_last_step_of_euler_is_tweedie_s_and_no_other_is(t):
    last, euler = (kernel("sedd-uniform", wrong("sedd-uniform"), t, 0.0, sampler) for sampler in ("tweedie", "euler"))
    np.testing.assert_array_equal(euler, last)
    inner, euler = (kernel("sedd-uniform", wrong("sedd-uniform"), t, t / 2, sampler) for sampler in ("tweedie", "euler"))
    assert abs(euler - inner).max() > 1e-6


def test_euler_s_step_goes_by_the_rate_of_the_noise_where_it_begins():
    """σ' by a difference of the paper's σ; a step to y has the weight σ'(t) (t - s) s_y / V."""
    t, s, h, network, z = 0.6, 0.57, 1e-5, wrong("sedd-uniform"), space("sedd-uniform")
    low, high = (1e-4 ** (1 - time) * 20**time for time in (t - h, t + h))
    kept = math.exp(-(1e-4 ** (1 - t) * 20**t - 1e-4))
    go = (high - low) / (2 * h) * (t - s) / V * network(z, None, torch.full((len(z), L), kept, dtype=torch.float64)).exp()
    go.scatter_(-1, z[..., None], 0.0)
    law = go.scatter(-1, z[..., None], 1 - go.sum(-1, keepdim=True))
    assert law.min() > 0
    np.testing.assert_allclose(METHODS["sedd-uniform"].law(network, PROCESS, z, t, s, "euler"), law, rtol=1e-6)


def test_the_prior_of_uniform_score_entropy_is_what_noise_that_ends_early_leaves(monkeypatch):
    """With the paper's noise it is nearly nothing; here a quarter of the tokens is left."""
    monkeypatch.setattr(sedd, "SIGMA", (1e-4, math.log(4)))
    kept = math.exp(-(math.log(4) - 1e-4))
    q = np.array([kept + (1 - kept) / V, *[(1 - kept) / V] * (V - 1)])
    assert METHODS["sedd-uniform"].prior(PROCESS) == pytest.approx((q * np.log(q * V)).sum(), rel=1e-9)


def test_a_bound_has_the_prior_of_every_site(monkeypatch):
    """Which is nearly nothing with the paper's noise, so that only a made-up one is seen."""
    method = METHODS["sedd-uniform"]

    def nats(prior):
        monkeypatch.setattr(method, "prior", lambda process: prior)
        how = BoundOptions(draws=1, generator=torch.Generator().manual_seed(0))
        return method.bounds(EXACT["sedd-uniform"], PROCESS, STATES, how).nats["sedd-uniform"]

    np.testing.assert_allclose(nats(0.5) - nats(0.0), 0.5 * L, rtol=1e-9)


@pytest.mark.parametrize("draws", [1, 3])
def test_the_times_of_a_bound_are_one_from_each_of_as_many_equal_parts_as_there_are_terms(draws):
    seen = []
    integral(lambda x, t: seen.append(t) or t, STATES, V, draws, torch.Generator().manual_seed(0))
    parts = (torch.cat(seen) * draws * len(STATES)).long()
    assert parts.sort().values.tolist() == list(range(draws * len(STATES)))


def test_the_times_of_a_bound_lie_anywhere_in_their_parts():
    """∫ t² dt = 1/3, of which one row's time in the middle would make 1/4. False alarm: one in a million."""
    generator = torch.Generator().manual_seed(0)
    found = [integral(lambda x, t: t**2, STATES[:1], V, 1, generator).item() for _ in range(2000)]
    assert abs(np.mean(found) - 1 / 3) < 5 * np.std(found) / len(found) ** 0.5 < 0.04


DIFFUSIONS = [name for name in METHODS if not METHODS[name].plan(PROCESS.schedule, TransformerConfig(V, L)).by_chain]
"""The methods that are no chain."""


def sample(name, network, process, rows, calls, generator=None, sampler=None, order=None, ban=()):
    """By a method's own plan for so many calls."""
    config = TransformerConfig(process.vocab, process.length)
    asked = Request(calls=calls, sampler=sampler, order=order, options={"ban": ban} if len(ban) else {})
    plan = METHODS[name].plan(process.schedule, config, asked)
    return METHODS[name].sample(network, process, plan, rows, Run(generator=generator))


def steps(method, network, process, rows, calls, **options):
    """By a method that is not in the registry."""
    asked = Request(calls=calls, options=options)
    plan = method.plan(process.schedule, TransformerConfig(process.vocab, process.length), asked)
    return method.sample(network, process, plan, rows, Run(generator=torch.Generator().manual_seed(0)))


def loss_of(name, network, process, x0, generator=None, spec=None):
    return METHODS[name].loss(network, process, x0, LossOptions(spec, generator=generator))


def at_sites(network):
    """As a `Transformer`, which masks the sites that it is asked about and answers for these alone."""

    def asked(z, t, survival, sites=None):
        every = network(z if sites is None else z.scatter(1, sites, V), t, survival)
        return every if sites is None else every.gather(1, sites[..., None].expand(-1, -1, V))

    return asked


def drawn(name, network, calls, rows=20_000, **options):
    found = sample(name, at_sites(network), PROCESS, rows, calls, torch.Generator().manual_seed(2), **options)
    assert found.tokens.shape == (rows, L)
    return np.bincount(index(found.tokens.numpy(), V), minlength=V**L), found.calls


@pytest.mark.parametrize(("name", "sampler"), CHAINS)
def test_sample_draws_from_the_law_of_its_kernel(name, sampler):
    """A false alarm in a hundred thousand; three steps are far enough from the data's law to be told from it."""
    counts, calls = drawn(name, EXACT[name], 3, sampler=sampler)
    assert chi_square(counts, law_after(name, EXACT[name], 3, sampler)) > 1e-5
    assert chi_square(counts, TABLE) < 1e-5
    assert calls == 3 or name == "mdlm"


# ---- banned tokens


@pytest.mark.parametrize(("name", "sampler"), [*CHAINS, ("mdlm", "first-hitting"), ("plaid", "ancestral")])
@pytest.mark.parametrize("calls", [2, 7])
def test_a_banned_token_is_never_drawn_whatever_the_sampler_and_the_calls(name, sampler, calls):
    """The two that the network likes best."""
    network, process = small(name)

    def tokens(**ban):
        return sample(name, network, process, 200, calls, torch.Generator().manual_seed(0), sampler, **ban).tokens

    often = tokens().flatten().bincount(minlength=6)
    best = often.argsort(descending=True)[:2]
    assert often[best].min() > 0
    drawn = tokens(ban=best.tolist())
    assert not torch.isin(drawn, best).any()
    assert drawn.max() < 6


def test_uniform_tokens_are_all_alike_but_for_those_that_are_banned():
    """A false alarm in a hundred thousand."""
    process = Process(Schedule.round_robin(2, 2, keep=0.0), NoiseLaw.uniform(7))
    counts = uniform_tokens(process, (6000, 2), torch.Generator().manual_seed(0), ban=[5, 2, 3, 2]).flatten().bincount()
    assert counts[[2, 3, 5]].tolist() == [0, 0, 0]
    assert chi_square(counts[[0, 1, 4, 6]].numpy(), np.full(4, 1 / 4)) > 1e-5


@pytest.mark.parametrize("name", ["mdlm", "sedd"])
def test_a_banned_token_leaves_the_shares_of_the_others_as_they_are(name):
    """One site at a time, in one order. A false alarm in a hundred thousand."""
    network, order = wrong(name), [2, 0, 1]

    def without(z, t, survival):
        return network(z, t, survival).index_fill(-1, torch.tensor([1]), -torch.inf)

    counts, _ = drawn(name, network, L, order=torch.tensor(order), ban=[1])
    law = one_site_at_a_time(without, [order])
    assert chi_square(counts[law > 0], law[law > 0]) > 1e-5
    assert counts[law == 0].sum() == 0


def test_a_chain_of_another_method_bans_as_well():
    for name, calls in (("ar", 8), ("mlm", 8), ("ggm", 4)):
        network = METHODS[name].network(TransformerConfig(6, 8, width=16, layers=1, heads=2, causal=name == "ar"))
        schedule = Schedule.round_robin(8, 8, keep=0.0, order="left-to-right")
        found = sample(name, network, Process(schedule, NoiseLaw.uniform(6)), 100, calls, ban=[2, 5]).tokens
        assert set(found.unique().tolist()) <= {0, 1, 3, 4}


@pytest.mark.parametrize("name", METHODS)
def test_the_paper_s_language_recipe_bans_the_end_of_text_of_the_data_s_codec_whatever_the_method(name):
    paper = recipe("paper-owt")
    plan = replace(paper, method=name, network=replace(paper.network, conditioning="survival"))
    for codec, ban in ((ByteCodec(), [256]), (CharCodec("ab"), [2]), (None, [])):
        assert fit(plan, data()._replace(codec=codec)).sampling["ban"] == ban


def test_a_model_of_another_method_keeps_to_the_ban_that_it_was_saved_with(tmp_path):
    for name in DIFFUSIONS:
        network, process = small(name)
        Model(network, process, method=name, sampling={"ban": [5]}).save(tmp_path / name)
        model = load(tmp_path / name)
        assert not (model.sample_tokens(200, seed=0, calls=3) == 5).any()
        assert (model.sample_tokens(200, seed=0, calls=3, ban=[]) == 5).any()


# ---- masked diffusion: one site at a time, and the cache


def one_site_at_a_time(network, orders):
    """(27,) the law of unmasking in each of the orders alike, from the network's answers."""
    law = np.zeros(V**L)
    for order in orders:
        for number, row in enumerate(STATES):
            z, p = torch.full((1, L), V), 1.0
            for site in order:
                p *= network(z, None, (z < V).double()).softmax(-1)[0, site, row[site]].item()
                z[0, site] = row[site]
            law[number] += p / len(orders)
    return law


def test_first_hitting_with_an_exact_network_is_the_data_s_law_in_every_order():
    for order in itertools.permutations(range(L)):
        np.testing.assert_allclose(one_site_at_a_time(clean_given_tokens, [order]), TABLE, rtol=0, atol=1e-12)


def test_the_first_hitting_sampler_has_the_law_of_the_continuous_chain_also_where_the_network_is_wrong():
    """A false alarm in a hundred thousand each."""
    orders, network = list(itertools.permutations(range(L))), wrong("mdlm")
    law = one_site_at_a_time(network, orders)
    assert tv(law, TABLE) > 0.05
    counts, calls = drawn("mdlm", network, L)
    assert (chi_square(counts, law) > 1e-5, calls) == (True, L)
    assert tv(law_after("mdlm", network, 512, "ancestral"), law) < 2e-3
    counts, _ = drawn("mdlm", network, L, order=torch.tensor([2, 0, 1]))
    assert chi_square(counts, one_site_at_a_time(network, [(2, 0, 1)])) > 1e-5
    counts, _ = drawn("sedd", wrong("sedd"), L, order=torch.tensor([2, 0, 1]))
    assert chi_square(counts, one_site_at_a_time(wrong("sedd"), [(2, 0, 1)])) > 1e-5


def test_with_few_calls_each_row_is_unmasked_in_a_random_order_of_its_own():
    """Two calls: the first site, then the other two given it; each of the six orders alike."""
    network, law = wrong("mdlm"), np.zeros(V**L)
    first = network(torch.full((1, L), V), None, None)[0].softmax(-1)
    for site, token in itertools.product(range(L), range(V)):
        z = torch.full((1, L), V)
        z[0, site] = token
        then, others = network(z, None, None)[0].softmax(-1), [j for j in range(L) if j != site]
        for row in STATES[STATES[:, site] == token]:
            law[index(row.numpy()[None], V)] += (first[site, token] * then[others, row[others]].prod()).item() / L
    counts, _ = drawn("mdlm", network, 2)
    assert abs(law.sum() - 1) < 1e-9
    assert chi_square(counts, law) > 1e-5
    assert chi_square(counts, one_site_at_a_time(network, list(itertools.permutations(range(L))))) < 1e-5


@pytest.mark.parametrize(("calls", "parts"), [(3, [2, 2, 3]), (5, [1, 1, 2, 1, 2]), (7, [1] * 7), (9, [1] * 7)])
def test_calls_that_do_not_divide_the_sites_share_them_out_as_evenly_as_can_be(calls, parts):
    """Which is how the bound of few calls cuts them."""
    process, seen = Process(Schedule.round_robin(7, 7, keep=0.0), NoiseLaw.uniform(V)), []

    def network(z, t, survival, sites):
        seen.append(sites.shape[1])
        return torch.zeros(*sites.shape, V)

    assert sample("mdlm", network, process, 4, calls).calls == len(parts)
    assert seen == parts


def test_two_sites_that_are_unmasked_with_one_call_do_not_know_of_each_other():
    """With order (2, 0, 1) and two calls: site 2, then 0 and 1 given it."""
    network, law = wrong("mdlm"), np.zeros(V**L)
    answer = network(torch.full((1, L), V), None, None)[0, 2].softmax(-1)
    for k, token in enumerate(answer):
        z = torch.tensor([[V, V, k]])
        first, second = network(z, None, None)[0, :2].softmax(-1)
        for row in STATES[STATES[:, 2] == k]:
            law[index(row.numpy()[None], V)] = token * first[row[0]] * second[row[1]]
    counts, calls = drawn("mdlm", network, 2, order=torch.tensor([2, 0, 1]))
    assert (chi_square(counts, law) > 1e-5, calls) == (True, 2)


def test_the_bound_of_mdlm_is_the_mean_over_orders_of_the_negative_log_likelihood():
    network, orders = wrong("mdlm"), list(itertools.permutations(range(L)))
    expected = np.mean([-np.log(one_site_at_a_time(network, [order])) for order in orders], 0)
    np.testing.assert_allclose(exact_bound("mdlm", network), expected, rtol=0, atol=1e-9)


def test_what_is_unmasked_is_drawn_from_the_network_s_answer_and_nothing_else_is_touched():
    grid = (torch.arange(3000).double() + 0.5) / 3000
    for z in space("mdlm"):
        rows, p = z.expand(3000, -1), clean_given_tokens(z[None], None, None)[0].exp()
        for site in (z == V).nonzero().flatten().tolist():
            goes = torch.zeros(3000, L, dtype=torch.bool)
            goes[:, site] = True
            new, asked = unmask(clean_given_tokens, PROCESS, rows, goes, grid[:, None].expand(-1, L))
            share = new[:, site].bincount(minlength=V).double() / 3000
            torch.testing.assert_close(share, p[site], rtol=0, atol=2 / 3000)
            assert asked == 3000
            assert torch.equal(new[:, [j for j in range(L) if j != site]], rows[:, [j for j in range(L) if j != site]])


def test_a_row_in_which_nothing_is_unmasked_needs_no_call():
    """A site goes in any of N steps alike, so a step is idle with (1 - 1/N)^L; 5 standard errors."""
    steps, rows, seen = 40, 4000, []

    def network(z, t, survival):
        seen.append(len(z))
        return clean_given_tokens(z, t, survival)

    counts, calls = drawn("mdlm", network, steps, rows, sampler="ancestral")
    assert calls == sum(seen) / rows
    assert calls <= L
    assert abs(calls - steps * (1 - (1 - 1 / steps) ** L)) < 5 * 0.5 / rows**0.5
    assert counts.sum() == rows


# ---- Gaussian diffusion over embeddings: its law on a grid, its bound by quadrature


def exact_plaid(law, angles):
    """A network that knows the law (V,) of its one token, or the laws (L, V) of independent ones; its embeddings are unit
    vectors at these angles, or ±1 where there are two tokens. The method itself adds the evidence of z."""
    law = torch.as_tensor(law, dtype=torch.float64).view(-1, len(angles))
    vectors = torch.stack([torch.cos(angles), torch.sin(angles)], 1) if len(angles) > 2 else torch.cos(angles)[:, None]

    class Exact(Plaid):
        def tokens(self, z, t, guess):
            return law.log().expand(len(z), -1, -1)

    network = Exact(TransformerConfig(len(angles), len(law), width=8, layers=1, heads=1), dimension=vectors.shape[1]).double()
    network.embed.weight.data = vectors.double()
    return network


TWO = torch.tensor([0.2, 0.8], dtype=torch.float64)
UNLIKE = torch.tensor([[0.2, 0.8], [0.65, 0.35]], dtype=torch.float64)
LINE = torch.tensor([0.0, math.pi])
ONE_SITE = Process(Schedule.round_robin(1, 1, keep=0.0), NoiseLaw.uniform(2))
GRID = torch.linspace(-6, 6, 601, dtype=torch.float64)


def normal_density(x, mean, spread):
    return torch.exp(-0.5 * ((x - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))


@torch.no_grad()
def plaid_law_after(network, steps, temperature=1.0):
    """(2,) the law of the one token after so many steps and the last draw, by pushing the density of z over a fine grid.

    The paper's temperature divides the noise that it finds in z, and takes the guess anew from what is left.
    """
    density, cell = normal_density(GRID, 0.0, 1.0), float(GRID[1] - GRID[0])
    for k in range(steps):
        t, s = 1 - k / steps, (steps - k - 1) / steps
        guess = network(GRID.view(-1, 1, 1), torch.full_like(GRID, t)).guess.flatten()
        alpha2 = 1 / (1 + math.exp(9 * t - 3))
        found = (GRID - math.sqrt(alpha2) * guess) / math.sqrt(1 - alpha2) / temperature
        mean, spread = step(GRID, (GRID - math.sqrt(1 - alpha2) * found) / math.sqrt(alpha2), t, s)
        density = (density * cell) @ normal_density(GRID[None], mean[:, None], spread)
    p = network(GRID.view(-1, 1, 1), torch.zeros_like(GRID)).log_law.exp()[:, 0]
    return ((density * cell) @ p).numpy()


def test_with_an_exact_network_the_law_of_plaid_goes_to_the_data_s_with_the_number_of_steps():
    network = exact_plaid(TWO, LINE)
    errors = [tv(plaid_law_after(network, steps), TWO.numpy()) for steps in (8, 32, 128)]
    assert errors[2] < errors[1] / 2.5 < errors[0] / 6
    assert errors[2] < 0.004


def test_plaid_draws_from_the_law_of_its_steps():
    """A false alarm in a hundred thousand; two steps are far enough from the data's law to be told from it."""
    network, method = exact_plaid(TWO, LINE), EmbeddingDiffusion(dimension=1)
    found = steps(method, network, ONE_SITE, 40_000, 3)
    counts = found.tokens.flatten().bincount(minlength=2).numpy()
    assert found.calls == 3
    assert chi_square(counts, plaid_law_after(network, 2)) > 1e-5
    assert chi_square(counts, TWO.numpy()) < 1e-5


def test_plaid_with_a_temperature_draws_from_the_law_of_its_steps_with_the_noise_divided_by_it():
    """A false alarm in a hundred thousand; at temperature 1 it would be one in every run."""
    network, method = exact_plaid(TWO, LINE), EmbeddingDiffusion(dimension=1)
    found = steps(method, network, ONE_SITE, 40_000, 5, temperature=0.9)
    counts = found.tokens.flatten().bincount(minlength=2).numpy()
    assert chi_square(counts, plaid_law_after(network, 4, 0.9)) > 1e-5
    assert chi_square(counts, plaid_law_after(network, 4)) < 1e-5


def test_several_temperatures_of_plaid_hold_for_equal_parts_of_its_calls(monkeypatch):
    heats = []

    def watched(z, guess, t, s, temperature):
        heats.append(temperature)
        return step(z, guess, t, s, temperature)

    monkeypatch.setattr("glauber.method.plaid.step", watched)
    steps(EmbeddingDiffusion(dimension=1), exact_plaid(TWO, LINE), ONE_SITE, 2, 6, temperature=[1.2, 1.0, 0.8])
    assert heats == [1.2, 1.2, 1.0, 1.0, 0.8, 0.8]


def test_plaid_draws_every_site_by_its_own_noise():
    """At two unlike sites. A false alarm in a hundred thousand; with the laws exchanged it would be one in every run."""
    network, method = exact_plaid(UNLIKE, LINE), EmbeddingDiffusion(dimension=1)
    process = Process(Schedule.round_robin(2, 2, keep=0.0), NoiseLaw.uniform(2))
    found = steps(method, network, process, 40_000, 5).tokens
    first, second = (plaid_law_after(exact_plaid(law, LINE), 4) for law in UNLIKE)
    counts = (2 * found[:, 0] + found[:, 1]).bincount(minlength=4).numpy()
    assert chi_square(counts, np.outer(first, second).ravel()) > 1e-5
    assert chi_square(counts, np.outer(second, first).ravel()) < 1e-5


class Watched(Plaid):
    """Writes down what it is told and what it answers."""

    def __init__(self):
        super().__init__(TransformerConfig(5, 6, width=8, layers=1, heads=1))
        self.answers, self.shown, self.times = [], [], []
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))

    def forward(self, *inputs, **options):
        self.answers.append(super().forward(*inputs, **options))
        return self.answers[-1]

    def tokens(self, z, t, guess):
        self.shown.append(guess)
        self.times.append(t)
        return super().tokens(z, t, guess)

    def forget(self):
        for seen in (self.answers, self.shown, self.times):
            seen.clear()


FIVE_TOKENS = Process(Schedule.round_robin(6, 6, keep=0.0), NoiseLaw.uniform(5))


def test_plaid_is_shown_its_own_guesses():
    """A quarter of the training rows that of a first pass, the bound all of them, the sampler that of the step before."""
    network, method, process = Watched(), METHODS["plaid"], FIVE_TOKENS
    answers, shown = network.answers, network.shown
    x0 = torch.randint(5, (8, 6), generator=torch.Generator().manual_seed(0))

    steps(method, network, process, 8, 4)
    assert (len(shown), bool(shown[0].any())) == (4, False)
    assert all(torch.equal(guess, before.guess) for guess, before in zip(shown[1:], answers, strict=False))
    told, untold = (network.tokens(answers[0].z, torch.ones(8), guess) for guess in (shown[1], shown[0]))
    assert not torch.allclose(told, untold)

    network.forget()
    found = method.bounds(network, process, x0, BoundOptions(draws=3))
    assert len(shown) == found.calls == 8
    for first, second, answer in zip(shown[::2], shown[1::2], answers[::2], strict=True):
        assert not first.any()
        assert torch.equal(second, answer.guess)

    starts = set()
    for seed in range(40):
        network.forget()
        method.loss(network, process, x0, LossOptions(generator=KeyedGenerator((seed,), torch.arange(8), 8)))
        assert [len(guess) for guess in shown] == [2, 8]
        first = int(shown[1].abs().sum((1, 2)).nonzero()[0])
        starts.add(first)
        assert torch.equal(shown[1][first::4], answers[0].guess)
        assert not shown[1][[row for row in range(8) if row % 4 != first]].any()
    assert starts == {0, 1, 2, 3}  # a start is missed in one of 25,000 such tests


def test_the_self_conditioned_times_of_plaid_cover_all_of_them_alike():
    """At a batch of 16, of which each row has its sixteenth of them. One eighth trains the reconstruction, at time 0."""
    network, times = Watched(), []
    for seed in range(400):
        network.forget()
        loss_of(
            "plaid", network, FIVE_TOKENS, torch.zeros(16, 6).long(), generator=KeyedGenerator((seed,), torch.arange(16), 16)
        )
        times.append(network.times[1][network.shown[1].abs().sum((1, 2)) > 0])
    found = torch.cat(times)
    assert len(found) == 4 * 400
    shares = torch.cat([(found == 0).sum()[None], found[found > 0].mul(7).long().bincount(minlength=7)])
    assert chi_square(shares.numpy(), np.full(8, 1 / 8)) > 1e-5  # by twos of the 16 rows


def test_the_self_conditioned_rows_of_plaid_give_its_embeddings_no_gradient_and_all_else_one():
    (network, _), x0 = small("plaid"), alike_rows(16, 3)
    t, noise, guess = torch.rand(16), torch.randn(16, 8, 16), torch.randn(16, 8, 16)

    def gradients(rows, conditioned):
        network.zero_grad()
        answer = network(x0[rows], t[rows], noise[rows], guess[rows], conditioned[rows])
        (reconstruction(answer, x0[rows]) + diffusion(answer, t[rows]) + prior(answer.clean)).sum().backward()
        return [network.embed.weight.grad.clone(), network.entrance.weight.grad.clone(), network.head.weight.grad.clone()]

    conditioned, every = torch.arange(16) % 4 == 1, torch.ones(16, dtype=torch.bool)
    (both, *mixed), (table, *learned) = gradients(every, conditioned), gradients(~conditioned, conditioned)
    torch.testing.assert_close(both, table, rtol=1e-4, atol=1e-5)
    none, *others = gradients(conditioned, conditioned)
    assert not none.any()
    assert all(part.abs().sum() > 0 for part in others)
    for whole, one, other in zip(mixed, learned, others, strict=True):
        torch.testing.assert_close(whole, one + other, rtol=1e-4, atol=1e-4)


THREE = torch.tensor([0.15, 0.6, 0.25], dtype=torch.float64)
ANGLES = torch.tensor([0.3, 1.4, 4.0], dtype=torch.float64)


def hermite(number=32):
    """Nodes (number², 2) and weights of a standard normal in the plane."""
    node, weight = np.polynomial.hermite_e.hermegauss(number)
    pairs = torch.cartesian_prod(torch.from_numpy(node), torch.from_numpy(node))
    weights = torch.cartesian_prod(torch.from_numpy(weight), torch.from_numpy(weight)).prod(1)
    return pairs, weights / weights.sum()


def every_row(network):
    """(V^L, L)."""
    return torch.from_numpy(states(network.config.vocab, network.config.length))


@torch.no_grad()
def plaid_terms(network, part, t):
    """(V^L,) the mean over the noise of a term at time t, for each row. The noise is two numbers, of one site or of both."""
    (noise, weight), rows = hermite(), every_row(network)
    x, time = rows.repeat_interleave(len(noise), 0), torch.full((len(rows) * len(noise),), t, dtype=torch.float64)
    answer = network(x, time, noise.repeat(len(rows), 1).view(*x.shape, -1))
    return part(answer, x, time).view(len(rows), -1) @ weight


def plaid_bound(network, steps=None):
    """(V^L,) the bound of each row: in continuous time, or in so many steps by Kingma et al.'s ½ (SNR(s) - SNR(t)) ‖E - x̂‖²."""
    ends = plaid_terms(network, lambda answer, x, t: reconstruction(answer, x) + prior(answer.clean), 0.0)
    if steps is None:
        node, weight = np.polynomial.legendre.leggauss(40)
        times = [((v + 1) / 2, w / 2) for v, w in zip(node, weight, strict=True)]
        return ends + sum(w * plaid_terms(network, lambda answer, x, t: diffusion(answer, t), v) for v, w in times)
    for k in range(steps):
        s, t = k / steps, (k + 1) / steps
        gain = 0.5 * (math.exp(3 - 9 * s) - math.exp(3 - 9 * t))
        ends = ends + plaid_terms(network, lambda answer, x, _: gain * (answer.clean - answer.guess).square().sum((1, 2)), t)  # noqa: B023
    return ends


@pytest.mark.parametrize(("laws", "angles"), [(THREE[None], ANGLES), (UNLIKE, LINE)], ids=["one site", "two unlike sites"])
def test_with_an_exact_network_the_bound_of_plaid_is_the_entropy_and_how_far_the_end_is_from_pure_noise(laws, angles):
    """In continuous time. The rest, KL(q(z_1) ‖ N(0, 1)), is worked out from the mixture of Gaussians that q(z_1) is."""
    network = exact_plaid(laws, angles)
    rows, (noise, weight) = every_row(network), hermite()
    law = laws[torch.arange(len(laws)), rows].prod(1)
    alpha2 = 1 / (1 + math.exp(6.0))
    centres = math.sqrt(alpha2) * network.embed.weight[rows].detach().flatten(1)
    rest = 0.0
    for centre, p in zip(centres, law, strict=True):
        z = centre + math.sqrt(1 - alpha2) * noise
        mixture = (law * normal_density(z[:, None], centres, math.sqrt(1 - alpha2)).prod(-1)).sum(1)
        rest += p * (weight @ (mixture / normal_density(z, 0.0, 1.0).prod(-1)).log())
    assert 0 < rest < 0.01
    torch.testing.assert_close(law @ plaid_bound(network), -(law * law.log()).sum() + rest, rtol=0, atol=1e-5)


def test_the_bound_of_plaid_falls_with_the_number_of_steps_to_that_of_continuous_time():
    network = exact_plaid(THREE, ANGLES)
    limit = THREE @ plaid_bound(network)
    gaps = [(THREE @ plaid_bound(network, steps) - limit).item() for steps in (4, 16, 64)]
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2] > 0


def test_the_estimate_of_plaid_s_bound_and_its_loss_are_unbiased():
    """5 standard errors. The network is wrong: it takes all tokens for equally likely."""
    network, method = exact_plaid(torch.full((3,), 1 / 3), ANGLES), EmbeddingDiffusion(dimension=2)
    process = Process(Schedule.round_robin(1, 1, keep=0.0), NoiseLaw.uniform(3))
    expected = plaid_bound(network)
    assert THREE @ expected > -(THREE * THREE.log()).sum()
    x0 = torch.arange(3).repeat(3000)[:, None]
    found = method.bound(network, process, x0, 4, torch.Generator().manual_seed(0)).view(-1, 3)
    assert (abs(found.mean(0) - expected) < 5 * found.std(0) / 3000**0.5).all()
    parts = [
        method.loss(network, process, x0, LossOptions(generator=KeyedGenerator((seed,), torch.arange(len(x0)), len(x0)))).item()
        for seed in range(20)
    ]
    assert abs(np.mean(parts) - expected.mean().item()) < 5 * np.std(parts) / 19**0.5


# ---- trained, saved, used


def alike_rows(number, seed, vocab=6, length=8):
    """Rows of one token, but for a few sites that hold any. All tokens are equally frequent."""
    g = torch.Generator().manual_seed(seed)
    other = torch.rand(number, length, generator=g) < 0.1
    return torch.where(
        other, torch.randint(vocab, (number, length), generator=g), torch.randint(vocab, (number, 1), generator=g)
    )


def true_nll(rows):
    """(B,) -log of the probability that `alike_rows` draws a row."""
    each = 0.9 * (rows[:, None] == torch.arange(6)[:, None]) + 0.1 / 6  # (B, 6, L)
    return -each.double().prod(-1).mean(1).log()


def data():
    rows = InMemory(alike_rows(2000, 0)), InMemory(alike_rows(64, 1))
    return Data(*rows, 6, 8, torch.ones(6), None, "rows that are nearly alike")


def plan(method, steps, **train):
    spec = TrainSpec(
        steps=steps, batch=64, lr=1e-2, warmup=10, grad_clip=1.0, ema_decay=0.95, evaluate_every=steps, samples=2, **train
    )
    return replace(recipe("tiny"), method=method, train=spec)


STEPS = {"sedd-uniform": 250, "plaid": 250, "udlm": 200}


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].can.clean_conditional])  # the others: test_paper
def test_every_method_trains_saves_samples_and_scores_and_beats_the_unigram_bound(name, tmp_path):
    """The network is the smallest there is, and seconds are enough."""
    outcome = run(plan(name, STEPS.get(name, 120)), data(), tmp_path / "run", say=lambda words: None)
    model = load(tmp_path / "run")
    assert model.method is METHODS[name]
    method, process, held_out = METHODS[name], model.process, alike_rows(64, 1)
    found = sample(name, model.network.eval(), process, 200, 8, torch.Generator().manual_seed(0))
    assert found.tokens.shape == (200, 8)
    assert 0 < found.calls <= 8
    alike = (found.tokens[:, 1:] == found.tokens[:, :-1]).double().mean()
    assert alike > 0.3  # one in six by chance, 0.81 in the data
    if name == "mlm":
        with refused("has no bound"):
            method.bound(model.network, process, held_out)
        return
    nats = method.bound(model.network, process, held_out, 32, torch.Generator().manual_seed(0)).mean().item() / 8
    assert true_nll(held_out).mean().item() / 8 - 0.02 < nats < 0.8 * math.log(6)
    logged = read_log(tmp_path / "run" / "log.jsonl")[-1]["valid_bits_per_token"]
    assert logged * math.log(2) == pytest.approx(nats, abs=0.3)
    assert outcome.finished


def small(name, seed=0):
    """An untrained network whose answers are no longer all alike, and its process."""
    torch.manual_seed(seed)
    network = METHODS[name].network(TransformerConfig(6, 8, width=16, layers=1, heads=2))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network, Process(Schedule.round_robin(8, 8, keep=0.0), NoiseLaw.uniform(6))


@pytest.mark.parametrize("name", DIFFUSIONS)
def test_the_loss_of_a_batch_and_its_gradient_are_the_mean_of_its_parts_and_every_weight_is_reached(name):
    """However the rows are shared out, each has its own random numbers."""
    (network, process), x0, found = small(name), alike_rows(16, 3), []
    network.double()
    for number in (1, 2, 4, 8, 16):
        network.zero_grad()
        losses = []
        for rows in torch.arange(16).chunk(number):
            loss = loss_of(name, network, process, x0[rows], generator=KeyedGenerator((1, 2), rows, 16)) / number
            loss.backward()
            losses.append(loss.item())
        found.append([torch.tensor(sum(losses)), *(parameter.grad.clone() for parameter in network.parameters())])
    for parts in found[1:]:
        for part, whole in zip(parts, found[0], strict=True):
            torch.testing.assert_close(part, whole, rtol=1e-9, atol=1e-9)
    for (parameter_name, _), gradient in zip(network.named_parameters(), found[0][1:], strict=True):
        assert gradient.abs().sum() > 0, parameter_name


def test_the_loss_of_mdlm_is_the_same_in_chunks_as_are_its_gradients():
    (network, process), x0 = small("mdlm"), alike_rows(16, 3)
    found = []
    for spec in (None, TrainSpec(steps=1, batch=16)):  # a training run never holds all logits
        network.zero_grad()
        loss = loss_of("mdlm", network, process, x0, generator=KeyedGenerator((1,), torch.arange(16), 16), spec=spec)
        loss.backward()
        found.append([loss.detach().float(), *(parameter.grad.clone() for parameter in network.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_network_of_a_masked_diffusion_is_told_masks_and_no_time():
    """So that its answers can be kept from one step to the next."""
    seen = []

    def network(z, t, survival):
        seen.append((t.unique().tolist(), torch.equal(survival, (z < V).double())))
        return clean_given_tokens(z, t, survival)

    for name in ABSORBING:
        loss_of(name, network, PROCESS, STATES)
        sample(name, at_sites(network), PROCESS, 5, 3)
    assert seen
    assert all(said == ([0.0], True) for said in seen)


def test_a_model_of_another_method_is_used_as_any_other_and_refuses_what_it_cannot_do():
    models = {}
    for name in ("mdlm", "udlm", "plaid"):
        network, process = small(name)
        models[name] = Model(network, process, method=name)
        assert models[name].sample_tokens(3, seed=0, calls=4).shape == (3, 8)
        assert torch.equal(models[name].sample_tokens(3, seed=0, calls=4), models[name].sample_tokens(3, seed=0, calls=4))
        assert models[name].score(alike_rows(5, 0))["bits_per_token"] > 0
    mdlm, udlm = models["mdlm"], models["udlm"]
    assert mdlm.sample_tokens(3, seed=0, calls=4, order="strided").shape == (3, 8)
    given, tokens = torch.arange(8) < 3, alike_rows(1, 0)[0]
    assert (mdlm.sample_tokens(4, seed=0, clamp=(given, tokens))[:, :3] == tokens[:3]).all()
    dense = Model(small("ggm")[0], small("ggm")[1])
    timed = Model(METHODS["mdlm"].network(replace(mdlm.network.config, conditioning="time")), mdlm.process, method="mdlm")
    for model, about, options in [
        (timed, "knows no noise but masks", {"clamp": (given, tokens)}),
        (udlm, "cannot fill gaps", {"clamp": (given, tokens)}),
        (udlm, "no order of sites", {"order": "right-to-left"}),
        (udlm, "the sampler of this method is ancestral", {"sampler": "euler"}),
        (mdlm, "but no top_p", {"top_p": 0.9}),
        (mdlm, "but no temperature", {"temperature": 0.9}),
        (models["plaid"], "temperature must be above 0", {"temperature": 0}),
        (mdlm, "banned tokens must be whole numbers in 0..5", {"ban": [6]}),
        (udlm, "every token is banned", {"ban": range(6)}),
        (mdlm, "but no sweeps", {"sweeps": 2}),
        (mdlm, "at least one network call", {"calls": 0}),
        (mdlm, "goes with the first-hitting sampler", {"sampler": "ancestral", "order": "right-to-left"}),
        (models["plaid"], "at least 2 network calls", {"calls": 1}),
        (dense, "for methods that are no chain", {"sampler": "euler"}),
    ]:
        with refused(about):
            model.sample_tokens(2, seed=0, **options)
    with refused("but no sweeps"):
        mdlm.score(alike_rows(5, 0), sweeps=2)


def test_the_methods_with_a_call_for_each_site_refuse_fewer():
    for name in ("ar", "mlm"):
        network, process = small("ggm")
        with refused("8 calls"):
            sample(name, network, process, 2, 4)
        assert not METHODS[name].can.fewer_calls
