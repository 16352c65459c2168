"""`bench oracle`: its conditionals and samplers against enumeration, and its verdicts against theory."""

import itertools

import numpy as np
import pytest
import torch
from commands import glauber
from enumeration import chi_square, index, random_law, states

from glauber.bench.oracle import run as bench
from glauber.bench.oracle.spaces import HiddenMarkov, Table
from glauber.bench.oracle.unmasking import CAP, CORRECTIONS, entropy_bounded, maskgit, predictor_corrector, remasking

V, L = 2, 3
MASK = V
LAW = random_law(V**L, 5, 0.4)
SPACE = Table(torch.from_numpy(LAW).view((V,) * L))
ROWS = states(V, L)


# ---- the conditionals


def markov() -> tuple[HiddenMarkov, np.ndarray, np.ndarray, np.ndarray]:
    """One of 3 hidden states, 3 tokens and length 4; and its law over all rows, by summing over all hidden paths."""
    rng = np.random.default_rng(0)
    move, emit = (rng.gamma(0.6, size=(3, 3)) + 0.05 for _ in range(2))
    move, emit = move / move.sum(1, keepdims=True), emit / emit.sum(1, keepdims=True)
    begin = np.linalg.matrix_power(move, 200)[0]
    law = np.zeros(3**4)
    for path in itertools.product(range(3), repeat=4):
        chance = begin[path[0]] * np.prod([move[a, b] for a, b in itertools.pairwise(path)])
        law += chance * emit[list(path)][np.arange(4), states(3, 4)].prod(1)
    return HiddenMarkov(torch.from_numpy(move), torch.from_numpy(emit), 4), law, move, emit


def test_forward_and_backward_are_bayes_over_all_rows():
    space, law, *_ = markov()
    x = torch.from_numpy(states(4, 4))  # all states, masks among them
    survival = torch.rand(len(x), 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = np.tile(law, (len(x), 1))
    for site, row in itertools.product(range(4), range(len(x))):
        token, kept = int(x[row, site]), float(survival[row, site])
        if token < 3:
            weight[row] *= kept * (states(3, 4)[:, site] == token) + (1 - kept) / 3
    found = space.posterior(space.evidence(x, survival))
    for site, token in itertools.product(range(4), range(3)):
        right = weight[:, states(3, 4)[:, site] == token].sum(1) / weight.sum(1)
        np.testing.assert_allclose(found[:, site, token], right, atol=1e-12)


def test_the_log_probability_and_the_windows_are_those_of_the_law():
    space, law, *_ = markov()
    np.testing.assert_allclose(space.log_prob(torch.from_numpy(states(3, 4))), np.log(law), atol=1e-12)
    windows = np.bincount(index(states(3, 4)[:, 1:], 3), weights=law)
    np.testing.assert_allclose(space.windows, windows, atol=1e-12)


def test_given_others_leaves_the_own_token_out():
    x = torch.tensor([[0, 1, 1], [1, 1, MASK]])
    survival = torch.tensor([[0.3, 0.9, 0.5], [0.2, 0.7, 0.0]], dtype=torch.float64)
    found = SPACE.given_others(x, survival)
    for site in range(L):
        asked = torch.full((2, 1), site)
        alone = SPACE(x, torch.zeros(2), survival, asked).exp()[:, 0]
        torch.testing.assert_close(found[:, site], alone)


# ---- the samplers of others, by pushing their kernels


def clean(z):
    """(L, V) P(X_0[j] = a | the tokens of z)."""
    weight = LAW * [all(t in (MASK, r) for t, r in zip(z, row, strict=True)) for row in ROWS]
    return np.array([[weight[ROWS[:, j] == a].sum() for a in range(V)] for j in range(L)]) / weight.sum()


def pushed(steps, *step):
    """The law of the end: `step(z, k)` gives the states that follow z and their chances."""
    law = {(MASK,) * L: 1.0}
    for k, one in itertools.product(range(steps), step):
        after: dict = {}
        for z, p in law.items():
            for then, q in one(z, k):
                after[then] = after.get(then, 0.0) + p * q
        law = after
    assert all(MASK not in z for z, p in law.items() if p > 1e-12)
    return np.array([law.get(tuple(row), 0.0) for row in ROWS.tolist()])


def each_site(laws):
    """The states of sites that are drawn on their own, by a dict of chances each."""
    for choice in itertools.product(*(law.items() for law in laws)):
        yield tuple(token for token, _ in choice), float(np.prod([p for _, p in choice]))


def ancestral(steps, cap):
    def step(z, k):
        now, then = k / steps, (k + 1) / steps
        back = min(cap, (1 - then) / now) if now else 0.0
        onward = (then - (1 - back) * now) / (1 - now)
        p = clean(z)
        masked = [{MASK: 1 - onward, **{a: onward * p[j, a] for a in range(V)}} for j in range(L)]
        return each_site([masked[j] if z[j] == MASK else {z[j]: 1 - back, MASK: back} for j in range(L)])

    return step


def gibbs(z, k):
    tokens = [j for j in range(L) if z[j] != MASK]
    if not tokens:
        yield z, 1.0
    for j in tokens:
        p = clean((*z[:j], MASK, *z[j + 1 :]))[j]
        for a in range(V):
            yield (*z[:j], a, *z[j + 1 :]), p[a] / len(tokens)


def kept_if_likely(z, k):
    p, masked = clean(z), [j for j in range(L) if z[j] == MASK]
    for tokens in itertools.product(range(V), repeat=len(masked)):
        chances = [p[j, a] for j, a in zip(masked, tokens, strict=True)]
        best = int(np.argmax(chances))
        yield tuple(tokens[best] if j == masked[best] else z[j] for j in range(L)), float(np.prod(chances))


def bounded(bound):
    def step(z, k):
        p = clean(z)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = {j: float(-np.nansum(p[j] * np.log(p[j]))) for j in range(L) if z[j] == MASK}
        chosen, spent = set(), 0.0
        for j in sorted(entropy, key=entropy.__getitem__):
            if spent <= bound + 1e-12:
                chosen.add(j)
            spent += entropy[j]
        return each_site([dict(enumerate(p[j])) if j in chosen else {z[j]: 1.0} for j in range(L)])

    return step


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (remasking(6), lambda: pushed(6, ancestral(6, CAP))),
        (maskgit(L), lambda: pushed(L, kept_if_likely)),
        (entropy_bounded(0.5), lambda: pushed(L, bounded(0.5))),
        (predictor_corrector(2), lambda: pushed(2, ancestral(2, 0.0), *[gibbs] * CORRECTIONS)),
    ],
    ids=["remdm", "maskgit", "entropy-bounded", "gibbs-corrected"],
)
def test_a_sampler_of_others_has_the_law_of_its_kernel(draw, law):
    rows = draw(SPACE, 40_000, torch.Generator().manual_seed(2)).tokens
    assert chi_square(np.bincount(index(rows.numpy(), V), minlength=V**L), law()) > 1e-3


# ---- the verdicts


@pytest.fixture(scope="module")
def found():
    return [bench.measured(space, rows) for space, rows in bench.spaces(quick=True)]


def test_no_exact_sampler_is_told_apart_from_the_truth(found):
    exact = [row for law in found for row in law["found"] if row["exact"]]
    assert len(exact) > 20
    assert not [row for row in exact if row["told_apart"]]


def test_what_draws_all_sites_at_once_and_what_truncates_is_told_apart(found):
    for law in found:
        wrong = [row for row in law["found"] if row["calls"] == 1 or "top-p" in row["sampler"] or "MaskGIT" in row["sampler"]]
        assert len(wrong) > 8
        assert all(row["told_apart"] for row in wrong)


def test_no_sampler_takes_fewer_calls_than_one_or_more_than_it_says(found):
    for row in (row for law in found for row in law["found"]):
        assert row["calls"] >= 1
        if row["setting"].endswith("steps"):
            assert row["calls"] <= int(row["setting"].split()[0])


def test_the_command_overwrites_no_picture(tmp_path):
    (tmp_path / "oracle.png").write_bytes(b"mine")
    refused = glauber("bench", "oracle", "--quick", "--out", tmp_path / "oracle.json")
    assert refused.returncode == 2
    assert "oracle.png" in refused.stderr
    assert (tmp_path / "oracle.png").read_bytes() == b"mine"
