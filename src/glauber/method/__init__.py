"""Other methods on the same network, data and trainer: `--set method=mdlm`. docs/baselines.md has their equations.

ar           autoregressive: one sweep in reading order with keep 0, a corner of the same chain
mlm          Gibbs sampling with a masked language model: the heat bath with keep 1, another corner
mdlm         masked diffusion
sedd         score entropy, absorbing; sedd-uniform with uniform noise
udlm         uniform-state diffusion
plaid        Gaussian diffusion over learned embeddings
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor

from glauber.conditional import Layout, Transformer, TransformerConfig
from glauber.method import sedd
from glauber.method.chains import Chain
from glauber.method.diffusion import Diffusion, Samples
from glauber.method.mdlm import MDLM
from glauber.method.mlm import MaskedLM, gibbs_process
from glauber.method.plaid import EmbeddingDiffusion
from glauber.method.plaid_network import Plaid
from glauber.method.udlm import UDLM
from glauber.objective import OBJECTIVES
from glauber.process import Process
from glauber.process.draws import Generator


class Method(Protocol):
    """All that a comparison needs of a method. Networks are called as `Transformer` is, but for Plaid's own."""

    @property
    def objective(self) -> str:
        """The name of its loss, which a saved model remembers."""
        ...

    @property
    def fewer_calls(self) -> bool:
        """Whether it can make fewer network calls than there are sites."""
        ...

    @property
    def samplers(self) -> tuple[str, ...]:
        """Its samplers by name, the default one first; none to choose where it is empty."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """What else `sample` takes of the options of `run_chain`, for a method that is no chain."""
        ...

    @property
    def loss(self) -> Callable[..., Tensor]:
        """(network, process, x0, check=, generator=) → the mean over all tokens, to be minimised."""
        ...

    def bound(self, network: Any, process: Process, x0: Tensor, draws: int = 8, generator: Generator | None = None) -> Tensor:
        """(B,) nats: an upper bound on -log p of each row of x0 (B, L)."""
        ...

    def bound_calls(self, draws: int) -> int:
        """Network calls of `bound`, for each row."""
        ...

    def sample(
        self,
        network: Any,
        process: Process,
        rows: int,
        calls: int,
        generator: Any = None,
        sampler: str | None = None,
        order: Tensor | None = None,
        progress: bool = False,
        ban: Sequence[int] = (),
    ) -> Samples:
        """Rows of tokens, none of them in `ban`, with at most `calls` network calls each; `order` (L,) of the sites where the
        method has one."""
        ...


METHODS: dict[str, Method] = {
    "ggm": Chain("dense", fewer_calls=True),
    "ar": Chain("reading"),
    "mlm": Chain("masked"),
    "mdlm": MDLM(),
    "sedd": sedd.Absorbing(),
    "sedd-uniform": sedd.Uniform(),
    "udlm": UDLM(),
    "plaid": EmbeddingDiffusion(),
}
"""By the name that a recipe's `method` has."""

DIFFUSIONS: dict[str, Method] = {method.objective: method for method in METHODS.values() if not isinstance(method, Chain)}
"""The methods that are no chain of ours, by their objective."""

LOSSES: dict[str, Callable[..., Tensor]] = OBJECTIVES | {name: method.loss for name, method in DIFFUSIONS.items()}
"""Every loss by the name of its objective."""


def network_of(objective: str, config: TransformerConfig) -> Transformer:
    """A new network, as this objective wants it."""
    return Plaid(config) if objective == "plaid" else Transformer(config)


def layout_of(objective: str, config: TransformerConfig) -> Layout:
    """What `network_of` would make."""
    return Plaid.layout(config) if objective == "plaid" else Layout.of(config)


__all__ = [
    "DIFFUSIONS",
    "LOSSES",
    "MDLM",
    "METHODS",
    "UDLM",
    "Chain",
    "Diffusion",
    "EmbeddingDiffusion",
    "MaskedLM",
    "Method",
    "Plaid",
    "Samples",
    "gibbs_process",
    "layout_of",
    "network_of",
]
