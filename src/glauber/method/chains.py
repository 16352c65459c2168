"""The methods that are chains: GGM itself, the autoregressive model and Gibbs sampling with a masked language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glauber.chain import run_chain
from glauber.chain.bounds import row_bounds
from glauber.chain.counting import CallCounter
from glauber.conditional import conditional_of
from glauber.conditional.adapters import Network
from glauber.method.diffusion import Samples
from glauber.method.mlm import gibbs_process
from glauber.objective import OBJECTIVES
from glauber.process import Process, Schedule
from glauber.process.draws import Generator


@dataclass(frozen=True)
class Chain:
    """A method whose sampler is `run_chain`.

    The autoregressive model goes on its own schedule of L calls, Gibbs sampling makes whole sweeps, GGM takes blocks so large
    that the calls suffice.
    """

    objective: str
    fewer_calls: bool = False
    samplers: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def loss(self, network: Network, process: Process, x0: Tensor, **options: Any) -> Tensor:
        """The loss of that name, with its options."""
        return OBJECTIVES[self.objective](network, process, x0, **options)

    @torch.no_grad()
    def bound(
        self, network: Network, process: Process, x0: Tensor, draws: int = 8, generator: Generator | None = None
    ) -> Tensor:
        """(B,) nats: the bound of the reversal chain (identity 7), which is exact for the autoregressive model."""
        if self.objective == "masked":
            raise ValueError("Gibbs sampling never becomes noise, so it has no bound; judge its samples instead")
        return row_bounds(conditional_of(self.objective, network, process), process, x0, draws=draws, generator=generator)[0]

    def bound_calls(self, draws: int) -> int:
        """As in `Diffusion`."""
        return 1 if self.objective == "reading" else draws

    def sample(
        self,
        network: Network,
        process: Process,
        rows: int,
        calls: int,
        generator: torch.Generator | None = None,
        sampler: str | None = None,
        order: Tensor | None = None,
        progress: bool = False,
        ban: Sequence[int] = (),
    ) -> Samples:
        """The heat bath, with the skip; `calls` network calls at most."""
        if sampler is not None:
            raise ValueError("a chain has no sampler to choose; leave it out")
        if order is not None and self.objective != "dense":
            raise ValueError("this chain has its own order of sites; leave the order out")
        process = self._process(process, calls, order)
        counted: Any = CallCounter(conditional_of(self.objective, network, process))  # type: ignore[arg-type]
        tokens = run_chain(counted, process, rows, generator=generator, progress=progress, ban=ban)
        return Samples(tokens, counted.rows / max(1, rows))

    def _process(self, process: Process, calls: int, order: Tensor | None) -> Process:
        own, L = process.schedule, process.length
        if self.objective == "dense":
            return Process(within(own, calls, order), process.noise)
        if calls < L or calls % L or (self.objective == "reading" and calls != L):
            raise ValueError(f"this method makes {L} calls, one a site, and Gibbs sampling a multiple of that, not {calls}")
        return gibbs_process(process.vocab, L, calls // L).to(own.order.device) if self.objective == "masked" else process


def within(own: Schedule, calls: int, order: Tensor | None = None) -> Schedule:
    """The schedule in the smallest blocks with which it makes at most so many calls, with fewer sweeps where none will do."""
    if calls < 1:
        raise ValueError(f"a sampler makes at least one network call, not {calls}")
    L, settings = own.length, own.to_dict()
    if own.sweeps > calls:
        settings |= {"steps": calls * L, "keep": "linear"}
    fitting = (block for block in range(1, L + 1) if L % block == 0 and settings["steps"] % block == 0)
    settings["block"] = next(block for block in fitting if settings["steps"] <= block * calls)
    if order is not None:
        settings["order"] = order.cpu()
    elif settings["block"] > 1 and settings["order"] in ("right-to-left", "left-to-right"):
        settings["order"] = "segments"  # sites updated together are then far apart
    return Schedule.round_robin(**settings).to(own.order.device)
