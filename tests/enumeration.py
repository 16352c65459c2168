"""The process and its reversal on a small space, a second time: full transition matrices pushed step by step in numpy.

Nothing here comes from glauber, and nothing knows of survival, mixtures or skips except the few formulas marked as such. A
law is a vector over the N = V^L rows of `states`, a step a row-stochastic N × N matrix.
"""

import itertools
from functools import cached_property

import numpy as np
from scipy import stats

HEAT_BATH, REVERSAL = KERNELS = ("heat-bath", "reversal")


def random_law(size, seed, spread=1.0):
    """A random vector of positive probabilities; the smaller the spread, the more unequal."""
    weights = np.random.default_rng(seed).gamma(spread, size=size) + 1e-3
    return weights / weights.sum()


def states(V, L):
    """(V^L, L), the last site running fastest."""
    return np.array(list(itertools.product(range(V), repeat=L))).reshape(-1, L)


def index(x, V):
    """The row of `states` that each sequence of x (..., L) is."""
    return np.asarray(x) @ (V ** np.arange(np.shape(x)[-1])[::-1])


def tv(p, q):
    return np.abs(p - q).sum() / 2


def kl(q, p):
    """KL(q ‖ p) over the last axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(q > 0, q * np.log(q / p), 0).sum(-1)


class World:
    """A target P*, a noise law and a list of visits: X_0 ~ P*, visit t noises site `sites[t]` unless it keeps it.

    Labelled noise is the same kind of process with one more token, the mark, and a noise law that always draws it.
    """

    def __init__(self, table, pi, sites, keep):
        self.table, self.pi, self.sites, self.keep = np.asarray(table), np.asarray(pi), list(sites), list(keep)
        self.V, self.T, self.N = len(self.pi), len(self.sites), len(self.table)
        self.L = round(np.log(self.N) / np.log(self.V))
        self.states = states(self.V, self.L)
        same = self.states[:, None] == self.states[None]
        self.same_off = [np.delete(same, i, axis=2).all(2) for i in range(self.L)]  # equal but perhaps at site i
        self.at = np.eye(self.V)[self.states.T]  # (L, N, V) one-hot tokens

    def marked(self):
        """The world of pairs (token, is it signal?), where every noise token is the mark V."""
        table = np.zeros((self.V + 1) ** self.L)
        table[index(self.states, self.V + 1)] = self.table
        return World(table, np.eye(self.V + 1)[self.V], self.sites, self.keep)

    def never_visiting(self, given):
        """The process that leaves the given sites alone."""
        keep = [1.0 if i in given else k for i, k in zip(self.sites, self.keep, strict=True)]
        return World(self.table, self.pi, self.sites, keep)

    def forward(self, t):
        """P(X_{t+1} = y | X_t = x)."""
        i = self.sites[t]
        return self.keep[t] * np.eye(self.N) + (1 - self.keep[t]) * self.same_off[i] * self.pi[self.states[:, i]]

    @cached_property
    def pushed(self):
        """For t = 0..T: P(X_t = y | X_0 = x)."""
        matrices = [np.eye(self.N)]
        for t in range(self.T):
            matrices.append(matrices[-1] @ self.forward(t))
        return matrices

    @cached_property
    def laws(self):
        """P_t for t = 0..T."""
        return [self.table @ matrix for matrix in self.pushed]

    @property
    def noise(self):
        """π^L."""
        return self.pi[self.states].prod(1)

    def survival(self, t):
        """S_t by its definition, a product over the visits before t."""
        S = np.ones(self.L)
        for s in range(t):
            S[self.sites[s]] *= self.keep[s]
        return S

    def clean(self, t, site, together=()):
        """(N, V) P(X_0[site] = a | X_t[j] = x_j at every other j), leaving out also the sites asked `together`."""
        same = self.same_off[site].astype(float)
        for other in together:
            same = ((same @ self.same_off[other]) > 0).astype(float)
        return ratio(same @ (self.table[:, None] * self.pushed[t]).T @ self.at[site])

    def posterior(self, t, site):
        """(N, V) P(X_0[site] = a | X_t = x)."""
        return ratio((self.table[:, None] * self.pushed[t]).T @ self.at[site])

    def step_law(self, t):
        """(N, V) p_t: P(X_t[i] = a | X_t = x at every other site), i = i_t."""
        i = self.sites[t]
        return ratio(self.same_off[i] @ (self.laws[t][:, None] * self.at[i]))

    def is_noise(self, t):
        """(N, V) P(Z_t = a | X_{t+1}[i] = a, X_{t+1} = x at every other site), i = i_t: the paper's classifier."""
        i = self.sites[t]
        drawn = (1 - self.keep[t]) * (self.same_off[i] @ self.laws[t])[:, None] * self.pi  # and Z_t = a
        ended = self.same_off[i] @ (self.laws[t + 1][:, None] * self.at[i])  # X_{t+1} = x with a at i
        return drawn / ended

    def back(self, kernel, t):
        """The step that undoes t. Heat bath: redraw the site from P_t given the others. Reversal: Bayes on the forward step.

        Rows of states that cannot occur are zero.
        """
        if kernel == HEAT_BATH:
            return ratio(self.same_off[self.sites[t]] * self.laws[t])
        return ratio(self.laws[t] * self.forward(t).T)

    def block_back(self, kernel, t, block):
        """The step that undoes t..t+block-1 at once: each site drawn on its own, from what the sites outside the block tell."""
        sites, S = self.sites[t : t + block], self.survival(t)
        outside = [j for j in range(self.L) if j not in sites]
        matrix = (self.states[:, None, outside] == self.states[None, :, outside]).all(2).astype(float)
        for place, i in enumerate(sites):
            c = self.clean(t, i, together=[j for j in sites if j != i])
            laws = [site_law(kernel, c[n], S[i], self.keep[t + place], self.pi, x[i]) for n, x in enumerate(self.states)]
            matrix *= np.array(laws)[:, self.states[:, i]]
        return matrix

    def reverse(self, kernel, law, since=None, held=()):
        """The law of the chain at t = 0, begun with `law` at time `since`; the `held` sites are left as they are."""
        for t in reversed(range(self.T if since is None else since)):
            law = law if self.sites[t] in held else law @ self.back(kernel, t)
        return law

    def given(self, clamp, law):
        """The law with the clamped sites set to their tokens."""
        moved = self.states.copy()
        for site, token in clamp.items():
            moved[:, site] = token
        return np.bincount(index(moved, self.V), weights=law, minlength=self.N)

    def conditional(self, clamp):
        """P*(· | the clamped sites hold these tokens)."""
        fits = np.all([self.states[:, site] == token for site, token in clamp.items()], axis=0)
        return ratio(self.table * fits)


def ratio(weights):
    """Rows normalised, rows of zeros left alone."""
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights, dtype=float), where=total > 0)


def site_law(kernel, c, S, keep, pi, x):
    """The law of one reversed step at a site that holds x, by Bayes from a clean conditional c."""
    likelihood = np.ones(len(pi)) if kernel == HEAT_BATH else keep * (np.arange(len(pi)) == x) + (1 - keep) * pi[x]
    return ratio((S * c + (1 - S) * pi) * likelihood)


def common_part(kernel, S, keep, pi, x):
    """(V,) what `site_law` gives to each token at least, whatever c is: its least over the corners c = δ_a that allow x."""
    corners = np.array([site_law(kernel, c, S, keep, pi, x) for c in np.eye(len(pi))])
    return corners[corners.sum(1) > 0].min(0)


def chi_square(counts, law):
    """The chance of counts at least this far from the law. Rare cells are pooled; impossible ones must be empty."""
    counts, expected = np.asarray(counts, float).ravel(), np.asarray(law).ravel() * float(counts.sum())
    assert counts[expected < 1e-9].sum() == 0, "something impossible was drawn"
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    pooled = 1 + max(np.searchsorted(expected.cumsum(), 8), np.searchsorted(expected, 8) - 1)
    counts, expected = (np.append(part[pooled:], part[:pooled].sum()) for part in (counts, expected))
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), max(len(counts) - 1, 1))
