"""The network of Plaid: the same blocks, which see noised embeddings instead of tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.conditional import Layout, Transformer, TransformerConfig
from glauber.method.diffusion import TICKS

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
        if config.causal:
            raise ValueError("a network over embeddings is not causal; set network.causal=false")
        self.embed = nn.Embedding(config.vocab, dimension, _weight=F.normalize(torch.randn(config.vocab, dimension), dim=-1))
        self.entrance = nn.Linear(2 * dimension, config.width)

    @staticmethod
    def layout(config: TransformerConfig, dimension: int = DIMENSION) -> Layout:
        """Its parameters, before there is one."""
        common = Layout.of(config)
        entrance = {"entrance.weight": (config.width, 2 * dimension), "entrance.bias": (config.width,)}
        return common._replace(once=common.once | {"embed.weight": (config.vocab, dimension)} | entrance)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        t: Tensor,
        noise: Tensor | None = None,
        guess: Tensor | None = None,
        conditioned: Tensor | None = None,
        ban: Sequence[int] = (),
    ) -> Answer:
        """
        Args:
            x: (B, L) tokens, to be noised with `noise` (B, L, d); or (B, L, d) vectors z_t as they are.
            t: (B,) in [0, 1].
            guess: (B, L, d) an earlier x̂ of the same rows, or zeros: self-conditioning.
            conditioned: (B,) bool, the rows from which no gradient reaches the embeddings; none if not given.
            ban: tokens of probability 0.
        """
        table, variance = F.normalize(self.embed.weight, dim=-1), torch.sigmoid(gamma(t))
        alpha, sigma = ((part.sqrt()[:, None, None]).to(table.dtype) for part in (1 - variance, variance))
        held = (
            torch.zeros(len(x), 1, 1, dtype=torch.bool, device=x.device) if conditioned is None else conditioned[:, None, None]
        )
        clean = x.to(table.dtype) if noise is None else F.embedding(x, table)
        clean = torch.where(held, clean.detach(), clean)
        z = clean if noise is None else alpha * clean + sigma * noise.to(table.dtype)
        logits = self.tokens(z, t, torch.zeros_like(z) if guess is None else guess.to(table.dtype))
        with torch.autocast(z.device.type, enabled=False):  # the evidence is large
            tables = torch.cat([table, table.detach()], -1)  # (V, 2d); the rows that are held use the second
            evidence = torch.cat([torch.where(held, 0.0, z), torch.where(held, z, 0.0)], -1) @ tables.T
            weights = logits.to(table.dtype) + (alpha / sigma**2) * evidence
            for token in ban:
                weights[..., token] = -torch.inf
            log_law = weights.log_softmax(-1)
            free, fixed = (log_law.exp() @ tables).chunk(2, -1)
            return Answer(z, clean, log_law, torch.where(held, fixed, free))

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
        return h if self.position_embedding is None else h + self.position_embedding, c


def gamma(t: Tensor) -> Tensor:
    """γ, minus the logarithm of the signal-to-noise ratio."""
    return GAMMA[0] + (GAMMA[1] - GAMMA[0]) * t
