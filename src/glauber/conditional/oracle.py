"""The exact clean conditional of a small space, by enumeration."""

import torch
from torch import Tensor

from glauber.process import NoiseLaw
from glauber.process.noise import probability

MOST_STATES = 1 << 20


class Oracle:
    """P(X_0[site] = a | the others) for a known P*, under any survival pattern.

    By Bayes over all V^L clean states: P*(x_0) ∏_{j not asked} [S_j 1(x_{0,j} = x_j) + (1 - S_j) π(x_j)], where a masked
    site has no factor.

    Args:
        table: P*, of shape (V, V, ..., V), one axis per site.
        noise: the law π over the same V tokens.
    """

    def __init__(self, table: Tensor, noise: NoiseLaw):
        table = torch.as_tensor(table, dtype=torch.float64)
        V, L = noise.vocab, table.dim()
        if L < 1 or table.shape != (V,) * L:
            raise ValueError(f"the table needs one axis of {V} entries per site, got shape {tuple(table.shape)}")
        if table.numel() > MOST_STATES:
            raise ValueError(f"the table has {table.numel()} states; the oracle enumerates at most {MOST_STATES}")
        if not bool((table >= 0).all()) or abs(table.sum().item() - 1) > 1e-9:
            raise ValueError("the table must hold probabilities that sum to 1")
        self.table, self.noise, self.length, self.vocab = table, noise, L, V
        self.states = torch.cartesian_prod(*[torch.arange(V)] * L).view(-1, L).to(table.device)  # (V^L, L)

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        if x.shape[-1] != self.length:
            raise ValueError(f"the oracle knows sequences of length {self.length}, got {x.shape[-1]}")
        told = (x < self.vocab).scatter(1, sites, False)  # (B, L) asked and masked sites tell nothing
        pi = probability(self.noise.table, x.clamp_max(self.vocab - 1)) * (1 - survival)
        same = self.states[None] == x[:, None]  # (B, V^L, L)
        factor = torch.where(told[:, None], survival[:, None] * same + pi[:, None], 1.0)
        weight = self.table.flatten() * factor.prod(-1)  # (B, V^L)
        if not bool((weight.sum(-1) > 0).all()):
            raise ValueError("these tokens cannot occur: the table gives them probability 0")
        token = self.states[:, sites].permute(1, 2, 0)  # (B, b, V^L) the token of each state at each asked site
        law = weight.new_zeros(*sites.shape, self.vocab)
        law.scatter_add_(-1, token, weight[:, None].expand_as(token))
        return (law / law.sum(-1, keepdim=True)).log()
