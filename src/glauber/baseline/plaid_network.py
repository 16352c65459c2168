"""The network of Plaid: the same blocks, which see noised embeddings instead of tokens."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.baseline.diffusion import TICKS
from glauber.conditional import Transformer, TransformerConfig

GAMMA = (-3.0, 6.0)
"""γ at times 0 and 1."""
DIMENSION = 16


class Answer(NamedTuple):
    """What the network says of rows of vectors z."""

    z: Tensor  # (B, L, d)
    clean: Tensor  # (B, L, d) E(x) of the tokens; z where it was given no tokens
    log_law: Tensor  # (B, L, V) log-probabilities of the tokens
    guess: Tensor  # (B, L, d) x̂


class Plaid(Transformer):
    """The blocks of a `Transformer` behind an entrance for vectors, told the noise as the survival α², or as the time."""

    def __init__(self, config: TransformerConfig, dimension: int = DIMENSION):
        super().__init__(config)
        if config.reads:
            raise ValueError("a network over embeddings does not read; set network.reads=false")
        self.embed = nn.Embedding(config.vocab, dimension, _weight=F.normalize(torch.randn(config.vocab, dimension), dim=-1))
        self.entrance = nn.Linear(2 * dimension, config.width)

    def forward(self, x: Tensor, t: Tensor, noise: Tensor | None = None, guess: Tensor | None = None) -> Answer:  # type: ignore[override]
        """
        Args:
            x: (B, L) tokens, to be noised with `noise` (B, L, d); or (B, L, d) vectors z_t as they are.
            t: (B,) in [0, 1].
            guess: (B, L, d) an earlier x̂ of the same rows, or zeros: self-conditioning.
        """
        table, variance = F.normalize(self.embed.weight, dim=-1), torch.sigmoid(gamma(t))
        alpha, sigma = ((part.sqrt()[:, None, None]).to(table.dtype) for part in (1 - variance, variance))
        clean = x.to(table.dtype) if noise is None else F.embedding(x, table)
        z = clean if noise is None else alpha * clean + sigma * noise.to(table.dtype)
        logits = self.tokens(z, t, torch.zeros_like(z) if guess is None else guess.to(table.dtype))
        with torch.autocast(z.device.type, enabled=False):  # the evidence is large
            log_law = (logits.to(table.dtype) + (alpha / sigma**2) * (z @ table.T)).log_softmax(-1)
            return Answer(z, clean, log_law, log_law.exp() @ table)

    def tokens(self, z: Tensor, t: Tensor, guess: Tensor) -> Tensor:
        """(B, L, V) logits, to which the evidence is still to be added."""
        kept = torch.sigmoid(-gamma(t))
        scale = (kept / z.shape[-1] + 1 - kept).rsqrt()[:, None, None].to(z.dtype)  # to variance 1
        h, c = self.admit(torch.cat([z * scale, guess * z.shape[-1] ** 0.5], -1), t * TICKS, kept[:, None].expand(z.shape[:2]))
        for block in self.blocks:
            h = block(h, c, self.cos, self.sin)
        logits: Tensor = self.head(self.leave(h, c))
        return logits

    def admit(self, x: Tensor, t: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """As `enter`, of vectors."""
        h = self.entrance(x)
        if self.config.conditioning == "survival":
            per_site, c = self.condition(survival)
            h = h + per_site
        else:
            c = self.condition(t)
        return h if self.place is None else h + self.place, c


def gamma(t: Tensor) -> Tensor:
    """γ, minus the logarithm of the signal-to-noise ratio."""
    return GAMMA[0] + (GAMMA[1] - GAMMA[0]) * t
