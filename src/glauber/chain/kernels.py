"""The law of one reversed step at one site, and the part of it that needs no network.

Symbols: S = S_t(i) survival, κ = κ_t keep, π noise law, c clean conditional, p = S c + (1-S) π the step law (identity 1),
x the site's own token at t+1, r = κ / ((1-κ) π(x)) the odds with which it speaks for itself (0 for the heat bath, which
does not look at it). Both kernels are then one formula (identity 6):

    law(a) = p(a) (1 + r 1[a=x]) / (1 + r p(x)).

Shapes: S, κ, r, x are (B, b); p, c, laws are (B, b, V), in float64; π is (V,), or (B, b, V) where sites have their own.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from glauber.process.noise import probability

KERNELS = ("heat-bath", "reversal")


def own_odds(kernel: str, keep: Tensor, pi_x: Tensor) -> Tensor:
    """r: how strongly the kernel trusts the site's own token. Infinite where that token must have been kept."""
    if kernel == "heat-bath":
        return torch.zeros_like(keep)
    return torch.where(keep > 0, keep / ((1 - keep) * pi_x), 0.0)


def mixture(clean: Tensor, survival: Tensor, pi: Tensor) -> Tensor:
    """p = S c + (1-S) π."""
    S = survival[..., None]
    return S * clean + (1 - S) * pi


def step(p: Tensor, x: Tensor, odds: Tensor) -> Tensor:
    """The law of the new token from the step law p."""
    own = torch.isinf(odds)
    finite = torch.where(own, 0.0, odds)[..., None]
    at_x = one_hot(x, p)
    law = p * (1 + finite * at_x)
    return torch.where(own[..., None], at_x, law / law.sum(-1, keepdim=True))


class CallFree(NamedTuple):
    """law = stay δ_x + noise π + residual(c): the first two parts are the same whatever c is, so they need no network.

    They are the most that can be had without it: at each token, the least that the law gives over all c.
    """

    stay: Tensor
    noise: Tensor


def call_free(survival: Tensor, odds: Tensor, pi_x: Tensor) -> CallFree:
    """noise = (1-S) / (1 + r (S + (1-S) π(x))), reached at c = δ_x; stay fills the entry a = x up to its least, at c(x) = 0.

    For the heat bath that is the skip (0, 1-S); for the reversal, stay + noise ≥ κ(1-S)/(1-κS) (identities 5 and 6).
    """
    S, r = survival, torch.where(torch.isinf(odds), 0.0, odds)
    noise = (1 - S) / (1 + r * (S + (1 - S) * pi_x))
    at_x = (1 - S) * pi_x * (1 + r) / (1 + r * (1 - S) * pi_x)
    stay = (at_x - noise * pi_x).clamp_min(0)
    own = torch.isinf(odds)
    return CallFree(torch.where(own, 1.0, stay), torch.where(own, 0.0, noise))


def residual(clean: Tensor, survival: Tensor, x: Tensor, odds: Tensor, pi: Tensor) -> Tensor:
    """law - stay δ_x - noise π, unnormalised, as sums of terms that cannot round below zero.

    With Z = 1 + r p(x), Z_0 its least (c(x) = 0) and Z_1 its greatest (c(x) = 1):
    a ≠ x: S c(a) / Z + (1-S) π(a) r S (1 - c(x)) / (Z Z_1);   a = x: (1+r) S c(x) / (Z Z_0).
    """
    S, r = survival[..., None], torch.where(torch.isinf(odds), 0.0, odds)[..., None]
    c_x, pi_x = clean.gather(-1, x[..., None]), probability(pi, x)[..., None]
    Z = 1 + r * (S * c_x + (1 - S) * pi_x)
    Z_0, Z_1 = 1 + r * (1 - S) * pi_x, 1 + r * (S + (1 - S) * pi_x)
    other = S * clean / Z + (1 - S) * pi * (r * S * (1 - c_x).clamp_min(0) / (Z * Z_1))
    return other.scatter(-1, x[..., None], (1 + r) * S * c_x / (Z * Z_0))


def marked(kernel: str, survival: Tensor, keep: Tensor, signal: Tensor) -> tuple[Tensor, Tensor]:
    """With marked noise (identity 9): the probabilities that the site stays as it is, and that it is drawn from c.

    Otherwise it is marked as noise. The heat bath forgets the mark; the reversal keeps a signal, since noise cannot turn
    into signal forward, and turns noise into signal with probability P(signal at t | noise at t+1) = S (1-κ) / (1-κS).
    """
    if kernel == "heat-bath":
        return torch.zeros_like(survival), survival
    was_noise = 1 - keep * survival
    revived = torch.where(was_noise > 0, survival * (1 - keep) / was_noise, 1.0)
    return signal.double(), torch.where(signal, 0.0, revived)


def one_hot(x: Tensor, like: Tensor) -> Tensor:
    """δ_x as a law (..., V) of the shape and kind of `like`."""
    return torch.zeros_like(like).scatter(-1, x[..., None], 1.0)
