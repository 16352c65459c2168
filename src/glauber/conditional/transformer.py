"""The network: a DiT over tokens. It knows nothing of processes or devices.

Shapes: B rows, L sites, b asked sites, V tokens, D width, C conditioning width.
"""

import math
import reprlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Readout = Callable[[Tensor, nn.Linear], Tensor]
CONDITIONINGS = ("survival", "time")
SINUSOIDS = 256  # of the scalar time
OCTAVES = 8  # of the survival
MOST = {"vocab": 2**31, "length": 2**20, "width": 2**20, "layers": 2**31, "heads": 2**20, "cond_dim": 2**20, "classes": 2**31}
"""Beyond these no network is meant."""
NOT_CAUSAL = "this network is not causal; set network.causal=true and train it so"


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a `Transformer`."""

    vocab: int
    """V, without the mask."""
    length: int
    """L, the number of sites."""
    width: int = 128
    """D; the heads divide it."""
    layers: int = 4
    heads: int = 4
    conditioning: str = "survival"
    """"survival": each site's survival, so any order, schedule and prompt is one task. "time": the paper's scalar t."""
    grid: tuple[int, int] | None = None
    """Rows and columns of an image, for rotary positions in two dimensions; none for a sequence."""
    learned_positions: bool = False
    """Add a learned vector per site: small images need to know where they are, rotary tells only how far apart."""
    cond_dim: int = 128
    """C, the width of the vector that feeds adaLN."""
    causal: bool = False
    """Read the answer about a site one slot to its left, behind an extra first slot. With attention to the left alone one pass
    answers for a whole sweep from left to right, as an autoregressive network does; the same weights also look both ways."""
    classes: int = 0
    """How many classes it can be told; it also knows what "no class" means. 0 for a network without them."""

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if type(value := getattr(self, name)) is not int or value > most:
                raise ValueError(f"a network's {name} is a whole number of at most {most:,}, not {reprlib.repr(value)}")
        if type(self.learned_positions) is not bool or type(self.causal) is not bool:
            raise ValueError("a network's learned_positions and causal are true or false")
        if self.vocab < 2 or self.length < 1 or min(self.width, self.layers, self.heads, self.cond_dim) < 1:
            raise ValueError("a network needs a vocabulary of at least 2 and a positive length, width, layers and heads")
        if self.classes < 0 or (self.classes and self.causal):
            raise ValueError("a network has 0 or more classes, and a causal one has none")
        turns = 2 if self.grid is None else 4
        if self.width % (self.heads * turns):
            raise ValueError(f"width must be a multiple of {turns} × heads for the rotary positions, not {self.width}")
        if self.conditioning not in CONDITIONINGS:
            raise ValueError(f"conditioning is 'survival' or 'time', not {self.conditioning!r}")
        if self.grid is not None:
            object.__setattr__(self, "grid", tuple(self.grid))
            if any(type(side) is not int or side < 1 for side in self.grid):
                raise ValueError(f"a grid is made of rows and columns, two whole numbers, not {reprlib.repr(self.grid)}")
            if len(self.grid) != 2 or math.prod(self.grid) != self.length:
                raise ValueError(f"a grid of {'×'.join(map(str, self.grid))} does not hold {self.length} sites")
        if self.causal and self.conditioning != "survival":
            raise ValueError("a causal network is conditioned on the survival, not on the time")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Transformer(nn.Module):
    """Logits over the V tokens at every site, or at the asked sites only.

    With 24 layers, 16 heads, width 1024, V = 32100 and time conditioning it is the paper's network: 387,272,292
    parameters (the layout of SEDD: untied embeddings, bias-free attention, adaLN-Zero fed by 128 numbers).
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config, self.compiled = config, False
        D, C = config.width, config.cond_dim
        self.embed = nn.Embedding(config.vocab + 1 + config.causal, D)  # row V is the mask, V+1 the first slot of a causal one
        self.position_embedding = nn.Parameter(torch.zeros(config.length, D)) if config.learned_positions else None
        self.condition = SurvivalCondition(D, C) if config.conditioning == "survival" else TimeCondition(C)
        self.blocks = nn.ModuleList(Block(D, config.heads, C) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(D, bias=False)
        self.final_modulation = nn.Linear(C, 2 * D)
        self.head = nn.Linear(D, config.vocab)
        self.classes = nn.Embedding(config.classes + 1, C) if config.classes else None  # the last row is "no class"
        cos, sin = rotary_tables(config.length, D // config.heads, config.grid, first_slot=config.causal)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        # adaLN-Zero: every block starts as the identity, and the first answer is the uniform law.
        if self.position_embedding is not None:
            nn.init.normal_(self.position_embedding, std=0.02)
        for module in self.modules():
            if isinstance(module, Block):
                nn.init.zeros_(module.modulation.weight)
        nn.init.zeros_(self.final_modulation.weight)
        nn.init.zeros_(self.head.weight)

    @property
    def mask(self) -> int:
        return self.config.vocab

    @property
    def begin(self) -> int:
        """What the first slot of a causal network holds."""
        return self.config.vocab + 1

    def forward(
        self,
        x: Tensor,
        t: Tensor,
        survival: Tensor,
        sites: Tensor | None = None,
        readout: Readout | None = None,
        causal_rows: int = 0,
        class_: Tensor | int | None = None,
    ) -> Tensor:
        """
        Args:
            x: (B, L) tokens and masks.
            t: (B,) the step; read when conditioned on time.
            survival: (B, L) read when conditioned on survival.
            sites: (B, b) sites to mask and to answer for; None answers for every site, and masks none.
            readout: what to do with the last features (B, L, D) and the head instead of making all logits.
            causal_rows: in the first so many rows, which are clean, every site is answered for given the sites before it alone:
                the L states of a sweep from left to right (all before the site clean, all after it noise) in one pass.
            class_: of each row, (B,), or of all of them; none for "no class". For a network that has classes.

        Returns:
            (B, b, V) or (B, L, V) logits, or what the readout gives.
        """
        if x.shape[-1] != self.config.length:
            raise ValueError(f"this network was made for length {self.config.length}, got {x.shape[-1]}")
        if causal_rows and not self.config.causal:
            raise ValueError(NOT_CAUSAL)
        if sites is not None:
            x = x.scatter(1, sites, self.mask)
        if class_ is not None and self.classes is None:
            raise ValueError("this network was not trained on classes, and cannot be told one")
        x, survival = self._marked(x, survival)
        h, c = _part("enter", self.compiled)(self, self.embed(x), t, survival)
        if self.classes is not None:
            number = self.config.classes if class_ is None else class_
            c = c + (self.classes.weight[number] if isinstance(number, int) else self.classes(number))
        for block in self.blocks:
            h = block(h, c, self.cos, self.sin, causal_rows)
        if sites is not None:
            h = h.gather(1, sites[..., None].expand(-1, -1, h.shape[-1]))
        elif self.config.causal:
            h = h[:, :-1]  # the answer about site j stands in slot j, left of the site's own
        return self._answer(h, c, readout)

    def _marked(self, x: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """All slots: their tokens and survival. A mask and a site of survival 0 tell the same, nothing, and look the same."""
        if self.config.conditioning == "survival":
            survival = torch.where(x == self.mask, 0.0, survival)
            x = torch.where(survival == 0, self.mask, x)
            if self.config.causal:
                x, survival = F.pad(x, (1, 0), value=self.begin), F.pad(survival, (1, 0), value=1.0)
        return x, survival

    def enter(self, embedded: Tensor, t: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """What goes into the first block: (B, slots, D), and the condition (B, C).

        Tokens come embedded: compiled, the gradient of a table is summed in an order that differs from run to run.
        """
        if self.config.conditioning == "survival":
            per_site, c = self.condition(survival)
            h = embedded + per_site
        else:
            h, c = embedded, self.condition(t)
        return h if self.position_embedding is None else h + self._places(slice(None)), c

    def _places(self, slots: slice | Tensor) -> Tensor:
        """The learned vectors of these slots; the first slot of a causal network is no site and has none."""
        assert self.position_embedding is not None
        return (F.pad(self.position_embedding, (0, 0, 1, 0)) if self.config.causal else self.position_embedding)[slots]

    def leave(self, h: Tensor, c: Tensor) -> Tensor:
        """What goes into the head: the last features, levelled and modulated."""
        shift, scale = self.final_modulation(c)[:, None].chunk(2, dim=-1)
        return modulate(self.final_norm(h), shift, scale)

    def compile_parts(self) -> None:
        """Compile what comes before the blocks, one block for all of them, and what comes after; the weights stay in place."""
        for block in self.blocks:
            block.compile()
        self.compiled = True

    def extend(self, x: Tensor, cache: "Cache", slot: Tensor | None = None) -> Tensor:
        """Go on from the cache, without going over what it holds; what `forward` says of causal rows.

        Args:
            x: (B, n) the tokens of the next slots: `begin`, then those of the sites 0, 1, ... The cache then holds them too.
                The first piece may be of any length, the others are one slot.
            slot: (1,) the number of the next slot, where that must be a tensor: extending by one slot then is the same work for
                every slot, and can be a CUDA graph. The cache does not count along.

        Returns:
            (B, V) logits of the token to come.
        """
        if not self.config.causal:
            raise ValueError(NOT_CAUSAL)
        if cache.filled and x.shape[1] != 1:
            raise ValueError(f"the cache is extended by one slot at a time once it holds something, not by {x.shape[1]}")
        per_site, c = self.condition(torch.ones(1, 1, dtype=torch.float64, device=x.device))  # the same for every slot and row
        h = self.embed(x) + per_site
        here = slice(cache.filled, cache.filled + x.shape[1]) if slot is None else slot
        if self.position_embedding is not None:
            h = h + self._places(here)
        cos, sin = self.get_buffer("cos")[here], self.get_buffer("sin")[here]
        for number, block in enumerate(self.blocks):
            h = block(h, c, cos, sin, len(x), cache.of(number, slot))
        cache.filled += x.shape[1] if slot is None else 0
        return self._answer(h[:, -1:], c, None)[:, 0]

    def _answer(self, h: Tensor, c: Tensor, readout: Readout | None) -> Tensor:
        features = _part("leave", self.compiled)(self, h, c)
        out: Tensor = self.head(features) if readout is None else readout(features, self.head)
        return out


def _part(name: str, compiled: bool) -> Callable[..., Any]:
    """A method of `Transformer` as a function of the network: a copy of a compiled network has its own weights."""
    method: Callable[..., Any] = getattr(Transformer, name)
    return _compiled(method) if compiled else method


@cache
def _compiled(method: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(method)


class TimeCondition(nn.Module):
    """The paper's: t → sinusoids → two layers → (B, C)."""

    def __init__(self, cond_dim: int):
        super().__init__()
        self.first = nn.Linear(SINUSOIDS, cond_dim)
        self.second = nn.Linear(cond_dim, cond_dim)

    def forward(self, t: Tensor) -> Tensor:
        half = SINUSOIDS // 2
        rate = torch.exp(-math.log(10_000) * torch.arange(half, device=t.device) / half)
        angle = t[:, None].float() * rate
        features = torch.cat([angle.cos(), angle.sin()], dim=-1)
        return F.silu(self.second(F.silu(self.first(features.to(self.first.weight.dtype)))))


class SurvivalCondition(nn.Module):
    """Each site's survival, as an addition to its embedding (B, L, D), and its mean over the sites for adaLN (B, C)."""

    def __init__(self, width: int, cond_dim: int):
        super().__init__()
        self.features = nn.Linear(2 * OCTAVES + 3, cond_dim)
        self.per_site = nn.Linear(cond_dim, width)
        self.overall = nn.Linear(cond_dim, cond_dim)

    def forward(self, survival: Tensor) -> tuple[Tensor, Tensor]:
        s = survival[..., None]
        angle = s * (math.pi * 2.0 ** torch.arange(OCTAVES, device=s.device))
        log_odds = torch.logit(s, eps=1e-4) / 8
        features = torch.cat([angle.cos(), angle.sin(), log_odds, s == 0, s == 1], dim=-1)
        h = F.silu(self.features(features.to(self.features.weight.dtype)))
        return self.per_site(h), F.silu(self.overall(h.mean(1)))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a norm whose shift, scale and gate the condition sets."""

    def __init__(self, width: int, heads: int, cond_dim: int):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_mlp = nn.LayerNorm(width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Linear(cond_dim, 6 * width)

    def forward(
        self, h: Tensor, c: Tensor, cos: Tensor, sin: Tensor, causal_rows: int = 0, past: "Past | None" = None
    ) -> Tensor:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(c)[:, None].chunk(6, dim=-1)
        h = h + gate_a * self.attend(modulate(self.norm_attention(h), shift_a, scale_a), cos, sin, causal_rows, past)
        out: Tensor = h + gate_m * self.mlp(modulate(self.norm_mlp(h), shift_m, scale_m))
        return out

    def attend(self, h: Tensor, cos: Tensor, sin: Tensor, causal_rows: int, past: "Past | None") -> Tensor:
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, heads, L, D/heads)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = mix(q, k, v, causal_rows) if past is None else past.attend(q, k, v, causal_rows)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return projected


def mix(q: Tensor, k: Tensor, v: Tensor, causal_rows: int) -> Tensor:
    """Attention: in the first `causal_rows` rows to the left alone, in the others both ways."""
    if causal_rows in (0, len(q)):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal_rows > 0)
    left = F.scaled_dot_product_attention(q[:causal_rows], k[:causal_rows], v[:causal_rows], is_causal=True)
    both = F.scaled_dot_product_attention(q[causal_rows:], k[causal_rows:], v[causal_rows:])
    return torch.cat([left, both])


class Past(NamedTuple):
    """The keys and values of one block, (B, heads, slots, D/heads), of which `filled` are there, or those before `slot`."""

    keys: Tensor
    values: Tensor
    filled: int
    slot: Tensor | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, causal_rows: int) -> Tensor:
        """Attention of what is new to itself and to all that there is; the past then holds it, too."""
        if self.slot is None:
            end = self.filled + k.shape[2]
            self.keys[:, :, self.filled : end], self.values[:, :, self.filled : end] = k, v
            return mix(
                q, self.keys[:, :, :end].to(q.dtype), self.values[:, :, :end].to(q.dtype), 0 if self.filled else causal_rows
            )
        self.keys.index_copy_(2, self.slot, k.to(self.keys.dtype))
        self.values.index_copy_(2, self.slot, v.to(self.values.dtype))
        there = torch.arange(self.keys.shape[2], device=q.device) <= self.slot
        return F.scaled_dot_product_attention(q, self.keys.to(q.dtype), self.values.to(q.dtype), attn_mask=there[None])


class Cache:
    """What a causal network has seen of B rows: the keys and values of each block, in the precision of its products."""

    def __init__(self, network: Transformer, rows: int):
        config, like = network.config, network.embed.weight
        shape = (config.layers, rows, config.heads, config.length + 1, config.width // config.heads)
        device = like.device.type
        cast = torch.is_autocast_enabled(device) and like.dtype != torch.float64  # which autocast leaves as it is
        dtype = torch.get_autocast_dtype(device) if cast else like.dtype
        self.keys, self.values, self.filled = like.new_zeros(shape, dtype=dtype), like.new_zeros(shape, dtype=dtype), 0

    def keep(self, rows: Tensor) -> None:
        """Only these rows (R,)."""
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]

    def of(self, block: int, slot: Tensor | None = None) -> Past:
        return Past(self.keys[block], self.values[block], self.filled, slot)


def modulate(h: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """The adaLN step: scale and shift what the norm has levelled."""
    return h * (1 + scale) + shift


def rotary_tables(length: int, width: int, grid: tuple[int, int] | None, first_slot: bool = False) -> tuple[Tensor, Tensor]:
    """Cosines and sines (L, width/2) of the angle by which each pair of channels turns at each site.

    In one dimension pair k turns by position · 10000^(-2k/width). On a grid the first half of the pairs turns with the row
    and the second half with the column, each at the rates of a head of half the width. With `first_slot` there is one place
    more, before the first: in one dimension the sites move up, on a grid it does not turn.
    """

    def angles(position: Tensor, width: int) -> Tensor:
        rate = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        return position.double()[:, None] * rate

    site = torch.arange(length)
    if grid is None:
        angle = angles(torch.arange(length + first_slot), width)
    else:
        angle = torch.cat([angles(site // grid[1], width // 2), angles(site % grid[1], width // 2)], dim=-1)
        angle = F.pad(angle, (0, 0, int(first_slot), 0))
    return angle.cos().float(), angle.sin().float()


def rotate(h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the channel pairs (k, k + width/2) of h (..., L, width) by each site's angles."""
    a, b = h.chunk(2, dim=-1)
    cos, sin = cos.to(h.dtype), sin.to(h.dtype)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
