"""What the discrete diffusions share: noise over times in [0, 1], a bound that is an integral over them, a chain back.

Each is told by four things: how x_0 is noised, what its bound integrates, the law of a step back, and where that chain starts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glauber.conditional.adapters import Network
from glauber.process import Process, Schedule
from glauber.process.draws import Generator, KeyedGenerator, categorical, uniform
from glauber.runtime.progress import watched

EDGE = 1e-9  # times stay this far from 0 and 1, where a weight may be 0 · ∞
TICKS = 1000.0  # as what the time 1 is told, to a network that knows the time
NUMBERS = 2**24  # of one table (rows, L, V) in float64


class Samples(NamedTuple):
    """Samples, and what they cost."""

    tokens: Tensor  # (rows, L) int64
    calls: float  # network calls of a row, in the mean


class Diffusion(ABC):
    """A discrete diffusion. Shapes: x0, z (B, L), t (B,) in (0, 1); the network is called as a `Transformer` is."""

    objective: str
    """The name of the loss, by which a saved model knows its method."""
    samplers: tuple[str, ...]
    """The first is the default."""
    fewer_calls = True
    """Whether fewer network calls than sites can be made."""
    options: tuple[str, ...] = ("ban",)

    @abstractmethod
    def noised(self, process: Process, x0: Tensor, t: Tensor, generator: Generator | None) -> Tensor:
        """Draw z from q(z_t | x_0)."""

    @abstractmethod
    def term(self, network: Network, process: Process, x0: Tensor, z: Tensor, t: Tensor) -> Tensor:
        """(B,) nats: what the bound integrates over t."""

    @abstractmethod
    def law(self, network: Network, process: Process, z: Tensor, t: float, s: float, sampler: str) -> Tensor:
        """(B, L, V or V+1) what each site of z at time t turns into at time s < t; the sites are drawn on their own."""

    @abstractmethod
    def start(self, process: Process, rows: int, generator: Generator | None, ban: Sequence[int] = ()) -> Tensor:
        """The state at time 1, in which no token of `ban` stands."""

    def prior(self, process: Process) -> float:
        """KL(q(z_1 | x_0) ‖ the law of `start`) of a site."""
        return 0.0

    def loss(
        self, network: Network, process: Process, x0: Tensor, check: bool = True, generator: Generator | None = None
    ) -> Tensor:
        """The bound per token, at one low-discrepancy time a row. `check` looks at the tokens, which makes a GPU wait."""
        if check:
            x0 = process.check_tokens(x0)
        t = draw_times(len(x0), generator, x0.device)
        return self.term(network, process, x0, self.noised(process, x0, t, generator), t).sum() / x0.numel()

    @torch.no_grad()
    def bound(
        self, network: Network, process: Process, x0: Tensor, draws: int = 8, generator: Generator | None = None
    ) -> Tensor:
        """(B,) nats: an upper bound on -log p(x_0) of each row, unbiased, from `draws` network calls."""
        x0 = process.check_tokens(x0)

        def term(x: Tensor, t: Tensor) -> Tensor:
            return self.term(network, process, x, self.noised(process, x, t, generator), t)

        return integral(term, x0, process.vocab, draws, generator) + self.prior(process) * x0.shape[1]

    def bound_calls(self, draws: int) -> int:
        """Network calls of `bound`, for each row."""
        return draws

    @torch.no_grad()
    def sample(
        self,
        network: Network,
        process: Process,
        rows: int,
        calls: int,
        generator: Generator | None = None,
        sampler: str | None = None,
        order: Tensor | None = None,
        progress: bool = False,
        ban: Sequence[int] = (),
    ) -> Samples:
        """Go from time 1 to time 0 in `calls` equal steps, with one of the `samplers`."""
        kind = self.chosen(sampler, calls)
        if order is not None:
            raise ValueError("this method updates all sites at once, so it has no order of sites; leave the order out")
        z, network = self.start(process, rows, generator, ban), without(network, ban)
        for k in bar(range(calls), progress):
            weights = self.law(network, process, z, 1 - k / calls, (calls - k - 1) / calls, kind)
            z = categorical(weights, uniform(z.shape, generator, z.device))
        return Samples(z, float(calls))

    def chosen(self, sampler: str | None, calls: int) -> str:
        """The sampler, or the default one."""
        if calls < 1:
            raise ValueError(f"a sampler makes at least one network call, not {calls}")
        if sampler is not None and sampler not in self.samplers:
            raise ValueError(f"the sampler of this method is {' or '.join(self.samplers)}, not {sampler!r}")
        return self.samplers[0] if sampler is None else sampler


def without(network: Network, ban: Sequence[int]) -> Network:
    """The network, but that it gives the tokens of `ban` no probability."""
    if not ban:
        return network

    def answer(*inputs: Tensor, **options: Any) -> Tensor:
        logits = network(*inputs, **options).clone()
        for token in ban:
            logits[..., token] = -torch.inf
        return logits

    return answer


def draw_times(rows: int, generator: Generator | None, device: torch.device) -> Tensor:
    """(rows,) times in (0, 1), low-discrepancy: row k of the whole batch draws from its k-th part."""
    row, total = torch.arange(rows, device=device), rows
    if isinstance(generator, KeyedGenerator):
        row, total = generator.rows.to(device), generator.total
    return ((row + uniform((rows,), generator, device)) / total).clamp(EDGE, 1 - EDGE)


def query(network: Network, z: Tensor, t: Tensor, survival: Tensor, sites: Tensor | None = None) -> Tensor:
    """(B, L, V) logits in float32 at least, of a network told the time (B,) or each site's survival, (B,) or (B, L).

    With `sites` (B, b), which must be masked, (B, b, V) for these alone.
    """
    some = () if sites is None else (sites,)
    logits = network(z, t * TICKS, survival if survival.dim() == 2 else survival[:, None].expand(z.shape), *some)
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def sites_in(order: str | None, length: int, calls: int) -> Tensor | None:
    """(L,) the sites as a chain on a schedule of that order undoes them; None for a random order in each row."""
    if order in (None, "random"):
        return None
    block = max(1, length // calls) if order in ("strided", "segments") else 1
    return Schedule.round_robin(length, length, 0.0, order or "right-to-left", block).order.flip(0)


def integral(
    term: Callable[[Tensor, Tensor], Tensor], x0: Tensor, vocab: int, draws: int, generator: Generator | None
) -> Tensor:
    """(B,) ∫₀¹ E[term(x0, t)] dt for each row of x0, from `draws` times of its own that are spread over [0, 1]."""
    if draws < 1:
        raise ValueError(f"a bound needs at least one draw per row, not {draws}")
    total = torch.zeros(len(x0), dtype=torch.float64, device=x0.device)
    size = max(1, NUMBERS // (x0.shape[1] * vocab))
    for k in range(draws):
        row, within = uniform((2, len(x0)), generator, x0.device)
        t = ((k + (row.argsort() + within) / len(x0)) / draws).clamp(EDGE, 1 - EDGE)
        for start in range(0, len(x0), size):
            part = slice(start, start + size)
            total[part] += term(x0[part], t[part]).double() / draws
    return total


def bar(steps: range, progress: bool) -> Iterable[int]:
    """Shown from the third second on."""
    return watched(steps, progress, len(steps), "sample", "step", leave=False)
