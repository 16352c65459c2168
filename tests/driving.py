"""The exact law of one step of the real `run_chain`.

A step takes all its randomness from two uniforms per site, a coin and a draw, and is constant on rectangles of their unit
square. `step_law` cuts the square where an independent computation says that the answer may change, asks `run_chain` just
inside all four corners of every rectangle, insists that they agree, and adds up the areas.
"""

import contextlib
from unittest import mock

import numpy as np
import torch
from enumeration import common_part, index, ratio, site_law

from glauber import NoiseLaw, Oracle, Process, Schedule, run_chain
from glauber.chain import driver

INSIDE = 1e-13


class _OneStep(Exception):
    pass


def one_step(conditional, process, x, t, u, **options):
    """X_t from X_{t+b} = x, with run_chain's uniforms replaced by u (2, rows, b)."""
    seen = []

    def on_step(time, state):
        seen.append(state)
        if time == t:
            raise _OneStep

    def uniform(shape, generator, device, rows=0):
        assert tuple(shape) == tuple(u.shape)
        return u

    with mock.patch.object(driver, "uniform", uniform), contextlib.suppress(_OneStep):
        run_chain(conditional, process, start=(x, t + process.schedule.block), on_step=on_step, **options)
    return seen[1]


def step_law(conditional, process, x, t, coins, draws, place=0, **options):
    """(n, V+1) the law of the new token at the place-th site that step t visits, from each of the states x (n, L).

    Args:
        coins, draws: (n, any) where the answer may change, in [0, 1].
    """
    n, block = len(x), process.schedule.block
    edges = [np.sort(np.pad(np.clip(cuts, 0, 1), ((0, 0), (1, 1)), constant_values=(0, 1))) for cuts in (coins, draws)]
    wide = [np.diff(edge) > 4 * INSIDE for edge in edges]
    row, i, j = np.nonzero(wide[0][:, :, None] & wide[1][:, None, :])  # the rectangles; thinner ones are rounding
    (left, right), (low, high) = ((edge[row, k], edge[row, k + 1]) for edge, k in zip(edges, (i, j), strict=True))
    coin, draw = np.stack([left, left, right, right]), np.stack([low, high, low, high])
    inward = np.array([[1], [1], [-1], [-1]]), np.array([[1], [-1], [1], [-1]])
    u = torch.full((2, coin.size, block), 0.4, dtype=torch.float64)
    u[0, :, place] = torch.from_numpy((coin + INSIDE * inward[0]).ravel())
    u[1, :, place] = torch.from_numpy((draw + INSIDE * inward[1]).ravel())

    before = torch.as_tensor(x[np.tile(row, 4)])
    after = one_step(conditional, process, before, t, u, **options)
    visited = process.schedule.order[(t + torch.arange(block)) % process.length]
    assert torch.equal(before.index_fill(1, visited, 0), after.index_fill(1, visited, 0)), "a site was changed out of turn"
    token = after[:, visited[place]].numpy().reshape(4, -1)
    assert (token == token[0]).all(), "the step changes its answer inside a rectangle"
    law = np.zeros((n, process.vocab + 1))
    np.add.at(law, (row, token[0]), (right - left) * (high - low))
    assert np.allclose(law.sum(1), 1, atol=1e-10)
    return law


def cuts(kernel, c, S, keep, pi, x):
    """Where the coin and the draw may change the answer at a site that holds x: two vectors.

    The coin: at the mass of what needs no network, or of its two parts, "stay" and "a noise token". The draw: at the
    cumulative sums of the noise law, of the whole law, of what remains of it, and of c.
    """
    law, common = site_law(kernel, c, S, keep, pi, x), common_part(kernel, S, keep, pi, x)
    others = [common[a] / pi[a] for a in range(len(pi)) if a != x and pi[a] > 0]
    noise = min(others, default=0.0)
    masses = np.array([common.sum(), common[x] - noise * pi[x], noise, S])
    rest = law - common
    rest = rest / rest.sum() if rest.sum() > 1e-12 else pi
    return np.concatenate([masses, 1 - masses]), np.concatenate([np.cumsum(part) for part in (pi, law, rest, c)])


def driver_step(world, process, conditional, t, kernel, clean=None, survival=None, support=None, **options):
    """(N, N) the step of the real chain that undoes t, on the states of `world` (its labelled one where noise is labelled).

    Args:
        clean: for each place of the block, (N, V) the clean conditional, for the cuts; the exact one if none.
        survival: (L,) for the cuts, the schedule's if none.
        support: the states to start from, True where the row is wanted; those that can occur if none.
    """
    block = process.schedule.block
    sites = world.sites[t : t + block]
    if clean is None:
        clean = [world.clean(t, i, together=[j for j in sites if j != i]) for i in sites]
    wanted = np.flatnonzero(world.laws[t + block] > 0 if support is None else support)
    x, S = world.states[wanted], world.survival(t) if survival is None else survival
    new = np.repeat(x[:, None], world.V**block, axis=1)  # (n, V^b, L) every outcome
    outcomes = np.array(np.meshgrid(*[np.arange(world.V)] * block, indexing="ij")).reshape(block, -1).T
    weight = np.ones(new.shape[:2])
    for place, i in enumerate(sites):
        pieces = [
            cuts(kernel, clean[place][n], S[i], world.keep[t + place], world.pi, row[i])
            for n, row in zip(wanted, x, strict=True)
        ]
        coins, draws = (np.array(part) for part in zip(*pieces, strict=True))
        law = step_law(conditional, process, x, t, coins, draws, place, kernel=kernel, **options)
        assert (law[:, world.V :] == 0).all()
        new[:, :, i] = outcomes[:, place]
        weight *= law[:, outcomes[:, place]]
    matrix = np.zeros((world.N, world.N))
    np.add.at(matrix, (wanted[:, None], index(new, world.V)), weight)
    return matrix


def driven(world, process, conditional, law, kernel, since=None, **options):
    """The laws of the real chain at times since..0, begun with `law`: {t: vector}."""
    since, block = process.schedule.steps if since is None else since, process.schedule.block
    laws = {since: law}
    for t in range(since - block, -1, -block):
        law = law @ driver_step(world, process, conditional, t, kernel, support=law > 0, **options)
        laws[t] = law
    return laws


class Tabular:
    """A network, or a conditional, that looks its answer up: values (T, N, V) by step and state, the asked site aside."""

    def __init__(self, values, L):
        self.values, self.V = torch.as_tensor(values), np.shape(values)[-1]
        self.place = torch.as_tensor(self.V ** np.arange(L)[::-1].copy())

    def __call__(self, x, t, survival, sites):
        return self.values[t, (x.scatter(1, sites, 0) * self.place).sum(1)][:, None]


def any_conditional(world, seed):
    """A conditional that is right about nothing: (T, N, V) probabilities, and the callable."""
    laws = ratio(np.random.default_rng(seed).gamma(0.7, size=(world.T, world.N, world.V)))
    for t, i in enumerate(world.sites):
        aside = world.states.copy()
        aside[:, i] = 0
        laws[t] = laws[t, index(aside, world.V)]
    return laws, Tabular(np.log(laws), world.L)


def exact_classifier(world):
    """The network that answers the paper's question, noise or signal?, exactly: logits."""
    y = np.array([world.is_noise(t) for t in range(world.T)])
    return Tabular(np.log(y) - np.log1p(-y), world.L)


def package(world, block=1):
    """The package's process and oracle for a world whose visits are a round robin."""
    schedule = Schedule.round_robin(world.L, world.T, keep=world.keep, order=world.sites[: world.L], block=block)
    noise = NoiseLaw(torch.from_numpy(world.pi))
    return Process(schedule, noise), Oracle(torch.from_numpy(world.table).reshape((world.V,) * world.L), noise)
