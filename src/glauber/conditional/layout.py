"""The parameters of a network before there is one."""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from glauber.conditional.transformer import OCTAVES, SINUSOIDS, TransformerConfig

BLOCKS = "blocks."
Shapes = dict[str, tuple[int, ...]]


class Layout(NamedTuple):
    """Names and shapes. Those of one block stand for all of them, so that a million blocks take no time."""

    once: Shapes
    """Of the parameters outside the blocks."""
    block: Shapes
    """Of those in each block."""
    layers: int

    @classmethod
    def of(cls, config: TransformerConfig) -> "Layout":
        """Those of a `Transformer`."""
        V, L, D, C = config.vocab, config.length, config.width, config.cond_dim
        once: Shapes = {"embed.weight": (V + 1 + config.causal, D)}
        once |= {"position_embedding": (L, D)} if config.learned_positions else {}
        if config.conditioning == "survival":
            once |= _linear("condition.features", 2 * OCTAVES + 3, C)
            once |= _linear("condition.per_site", C, D) | _linear("condition.overall", C, C)
        else:
            once |= _linear("condition.first", SINUSOIDS, C) | _linear("condition.second", C, C)
        once |= {"final_norm.weight": (D,)} | _linear("final_modulation", C, 2 * D) | _linear("head", D, V)
        once |= {"classes.weight": (config.classes + 1, C)} if config.classes else {}
        block: Shapes = {"norm_attention.weight": (D,), "qkv.weight": (3 * D, D), "out.weight": (D, D), "norm_mlp.weight": (D,)}
        block |= _linear("mlp.0", D, 4 * D) | _linear("mlp.2", 4 * D, D) | _linear("modulation", C, 6 * D)
        return cls(once, block, config.layers)

    @property
    def parameters(self) -> int:
        """How many numbers they are."""
        return sum(map(prod, self.once.values())) + self.layers * sum(map(prod, self.block.values()))

    def shapes(self) -> Shapes:
        """Of every parameter, by its name."""
        numbers = range(self.layers)
        return self.once | {f"{BLOCKS}{k}.{name}": shape for k in numbers for name, shape in self.block.items()}


def layers_of(names: Iterable[str]) -> int:
    """How many blocks have parameters of these names."""
    return len({name.split(".")[1] for name in names if name.startswith(BLOCKS)})


def _linear(name: str, width: int, out: int) -> Shapes:
    return {f"{name}.weight": (out, width), f"{name}.bias": (out,)}
