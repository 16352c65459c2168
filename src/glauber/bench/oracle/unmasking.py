"""Samplers of others that any conditional can drive: all unmask a row in some number of calls, some also take tokens back.

Written from the papers. α_t = 1 - t is the share of sites that hold a token.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from glauber.bench.oracle.samplers import Setting, blocks
from glauber.bench.oracle.spaces import Space
from glauber.method import Samples
from glauber.process.draws import categorical, uniform

CAP = 0.1
"""The most that ReMDM takes back, its η_cap."""
CORRECTIONS = 3
"""Gibbs steps after each step of the predictor."""


def others(L: int) -> Iterator[Setting]:
    """All of them."""
    for calls in blocks(L):
        said = f"{calls} steps"
        yield Setting("certainty", "most certain first, chosen, then drawn", said, calls == L, most_certain(calls))
        yield Setting("certainty", "MaskGIT: drawn, then the most certain kept", said, False, maskgit(calls))
    for bound in (0.0, 0.1, 0.5, 1.0, 2.0):
        yield Setting("certainty", "entropy-bounded", f"γ = {bound:g}", bound == 0, entropy_bounded(bound))
    for calls in (*blocks(L)[1:], 2 * L, 4 * L):
        yield Setting("remasking", f"ReMDM, cap {CAP:g}", f"{calls} steps", False, remasking(calls))
    for calls in blocks(L)[1:]:
        said = f"{calls} steps, {CORRECTIONS} corrections each"
        yield Setting("remasking", "MDLM, ancestral, with Gibbs steps", said, False, predictor_corrector(calls))


Draw = Callable[[Space, int, torch.Generator], Samples]


def most_certain(calls: int) -> Draw:
    """Unmask L / calls sites with each call: those whose likeliest token is likeliest.

    One at a time it is exact: the site is chosen by what is known already, and its token is drawn from the exact conditional.
    """

    def step(law: Tensor, z: Tensor, u: Tensor, space: Space) -> Tensor:
        return _highest(law.amax(-1), z == space.noise.mask, space.length // calls)

    return _unmasking(step)


def maskgit(calls: int) -> Draw:
    """Draw a token at every mask and keep the L / calls that were likeliest (Chang et al., 2022, arXiv 2202.04200, no noise).

    Never exact: whether a token is kept depends on what it is, so likely ones are favoured.
    """

    def step(law: Tensor, z: Tensor, u: Tensor, space: Space) -> Tensor:
        drawn = law.gather(-1, categorical(law, u)[..., None]).squeeze(-1)
        return _highest(drawn, z == space.noise.mask, space.length // calls)

    return _unmasking(step)


def entropy_bounded(bound: float) -> Draw:
    """Unmask the most certain sites, as many as have a total entropy of at most γ besides the largest one.

    The EB-sampler (Ben-Hamu et al., 2025, arXiv 2505.24857). With γ = 0 one at a time, unless others are certain.
    """

    def step(law: Tensor, z: Tensor, u: Tensor, space: Space) -> Tensor:
        entropy = torch.special.entr(law).sum(-1).masked_fill(z != space.noise.mask, torch.inf)
        order = entropy.argsort(1)
        before = torch.nn.functional.pad(entropy.gather(1, order).cumsum(1)[:, :-1], (1, 0))  # all but the largest one
        return torch.zeros_like(order, dtype=torch.bool).scatter(1, order, before <= bound + 1e-12) & (z == space.noise.mask)

    return _unmasking(step)


def _unmasking(step: Callable[[Tensor, Tensor, Tensor, Space], Tensor]) -> Draw:
    """Call for each row until none of its sites is masked; `step` says which (B, L) are drawn, from the law and its draws."""

    def draw(space: Space, num: int, generator: torch.Generator) -> Samples:
        z, calls = _masks(space, num), 0
        while len(rows := (z == space.noise.mask).any(1).nonzero().squeeze(1)):
            now, u = z[rows], uniform((len(rows), space.length), generator, z.device)
            law = masked_law(space, now)
            z[rows] = torch.where(step(law, now, u, space), categorical(law, u), now)
            calls += len(rows)
        return Samples(z, calls / num)

    return draw


def remasking(calls: int) -> Draw:
    """MDLM's ancestral steps which also mask tokens again: ReMDM (Wang et al., 2025, arXiv 2503.00307), capped.

    From time t to s a token goes with probability σ = min(η, (1 - α_s) / α_t), and a mask becomes a token with probability
    (α_s - (1 - σ) α_t) / (1 - α_t), so that the share of tokens stays that of the forward process.
    """

    def draw(space: Space, num: int, generator: torch.Generator) -> Samples:
        z, mask = _masks(space, num), space.noise.mask
        for k in range(calls):
            now, then = k / calls, (k + 1) / calls  # α_t and α_s
            back = min(CAP, (1 - then) / now) if now > 0 else 0.0
            onward = (then - (1 - back) * now) / (1 - now)
            coin, u = uniform((2, *z.shape), generator, z.device)
            token = categorical(masked_law(space, z), u)
            z = torch.where(z == mask, torch.where(coin < onward, token, mask), torch.where(coin < back, mask, z))
        return Samples(z, float(calls))

    return draw


def predictor_corrector(calls: int) -> Draw:
    """MDLM's ancestral steps, each followed by Gibbs steps: one token of the row, any alike, is drawn anew given the others.

    As in Campbell et al. (2022, arXiv 2205.14987): a Gibbs step leaves the law at its time as it is, and mends what is not.
    """

    def draw(space: Space, num: int, generator: torch.Generator) -> Samples:
        z, mask, queried = _masks(space, num), space.noise.mask, 0
        for k in range(calls):
            coin, u = uniform((2, *z.shape), generator, z.device)
            goes = (z == mask) & (coin < 1 / (calls - k))
            z = torch.where(goes, categorical(masked_law(space, z), u), z)
            queried += int(goes.any(1).sum())
            for _ in range(CORRECTIONS):
                z, corrected = _gibbs_step(space, z, generator)
                queried += corrected
        return Samples(z, queried / num)

    return draw


def _gibbs_step(space: Space, z: Tensor, generator: torch.Generator) -> tuple[Tensor, int]:
    """One token of each row anew, and how many rows had one."""
    which, u = uniform((2, *z.shape), generator, z.device)
    site = which.masked_fill(z == space.noise.mask, -1.0).argmax(1, keepdim=True)
    some = (z != space.noise.mask).any(1)
    law = masked_law(space, z.scatter(1, site, space.noise.mask)).gather(1, site[..., None].expand(-1, -1, space.vocab))
    moved = z.scatter(1, site, categorical(law, u[:, :1]))
    return torch.where(some[:, None], moved, z), int(some.sum())


def masked_law(space: Space, z: Tensor) -> Tensor:
    """(B, L, V) P(X_0[j] = a | the tokens of z): one call."""
    return space.posterior(space.evidence(z, torch.ones(z.shape, dtype=torch.float64)))


def _masks(space: Space, num: int) -> Tensor:
    return torch.full((num, space.length), space.noise.mask)


def _highest(score: Tensor, allowed: Tensor, number: int) -> Tensor:
    """(B, L) bool, the `number` allowed sites of each row with the highest scores."""
    chosen = score.masked_fill(~allowed, -1.0).topk(number, dim=1).indices
    return torch.zeros_like(allowed).scatter(1, chosen, True) & allowed
