"""What the discrete diffusions share: noise over times in [0, 1], a bound that is an integral over them, a chain back.

Each is told by four things: how x_0 is noised, what its bound integrates, the law of a step back, and where that chain starts.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glauber.chain import check_options
from glauber.conditional import Conditional, StepLaw, TransformerConfig
from glauber.conditional.adapters import Network
from glauber.method.base import PARTS, BoundOptions, Bounds, Compared, LossOptions, Method
from glauber.method.sampling import Request, Run, Samples, SamplingPlan, as_noised
from glauber.process import Process, Schedule, Tokens, as_tokens
from glauber.process.draws import Generator, KeyedGenerator, categorical, uniform
from glauber.recipe import Recipe
from glauber.runtime.progress import watched

EDGE = 1e-9  # times stay this far from 0 and 1, where a weight may be 0 · ∞
TICKS = 1000.0  # as what the time 1 is told, to a network that knows the time
NUMBERS = 2**24  # of one table (rows, L, V) in float64


class StepsMethod(Method):
    """It goes from noise to data in a number of steps, all sites at once, and not by a chain on a schedule."""

    def resolve(self, recipe: Recipe) -> Recipe:
        """Its time is not the schedule's, and its noise its own."""
        process = replace(recipe.process, sweeps=1, keep=0.0, last_keep=None, noise="uniform")
        kept = {name: value for name, value in recipe.sampling.items() if name == "ban"}
        return replace(recipe, process=process, network=replace(recipe.network, causal=False), sampling=kept)

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """Refused: it is no chain."""
        raise ValueError(f"the method {self.name} changes all sites at once and cannot fill gaps; use another method")

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """A number of calls, one of its samplers and perhaps an order."""
        return steps_plan(self, own, config, request)

    def plan_bound(
        self, network: Any, process: Process, plan: SamplingPlan, x0: Tensor, how: BoundOptions = BoundOptions()
    ) -> Tensor | None:
        """That of many small steps, which stands where there are as many calls as sites."""
        if plan.calls != process.length or plan.order is not None:
            return None
        return self.bounds(network, process, x0, how).nats[self.name]

    def compared(self, length: int) -> list[Compared]:
        """All sites at once; with an order in that one, too."""
        orders = (("random", None), ("best", "segments")) if self.can.orders else ((None, None),)
        calls = [length // part for part in PARTS]
        return [Compared(number, said, Request(calls=number, order=order)) for number in calls for said, order in orders]


class Diffusion(StepsMethod):
    """A discrete diffusion. Shapes: x0, z (B, L), t (B,) in (0, 1); the network is called as a `Transformer` is."""

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

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """The bound per token, at one low-discrepancy time a row."""
        clean = process.check_tokens(x0) if how.check else as_tokens(x0)
        t = draw_times(len(clean), how.generator, clean.device)
        z = self.noised(process, clean, t, how.generator)
        return self.term(network, process, clean, z, t).sum() / clean.numel()

    @torch.no_grad()
    def bounds(self, network: Any, process: Process, x0: Tokens, how: BoundOptions = BoundOptions()) -> Bounds:
        """Unbiased, from `draws` network calls; of whole rows."""
        clean = whole_rows(self, process, x0, how)

        def term(x: Tensor, t: Tensor) -> Tensor:
            return self.term(network, process, x, self.noised(process, x, t, how.generator), t)

        nats = integral(term, clean, process.vocab, how.draws, how.generator) + self.prior(process) * clean.shape[1]
        return Bounds({self.name: nats}, how.draws, False)

    @torch.no_grad()
    def sample(self, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run = Run()) -> Samples:
        """Go from time 1 to time 0 in equal steps."""
        ban, calls = plan.options.get("ban", ()), plan.calls
        z = self.start(process, whole_start(self, num, run), run.generator, ban)
        network = without(network, ban)
        for k in watched(range(calls), run.progress, calls, "sample", "step", leave=False):
            weights = self.law(network, process, z, 1 - k / calls, (calls - k - 1) / calls, str(plan.sampler))
            z = categorical(weights, uniform(z.shape, run.generator, z.device))
        return Samples(z, float(calls))


def steps_plan(
    method: Method, own: Schedule, config: TransformerConfig, request: Request, known: Sequence[str] = ("ban",)
) -> SamplingPlan:
    """A plan of so many steps, as many as there are sites if nothing is said; `known` are the options that the method takes."""
    wrong = [name for name in ("sweeps", "block", "class_") if getattr(request, name) is not None]
    wrong += (["guidance"] if request.guidance else []) + [name for name in request.options if name not in known]
    if wrong:
        taken = ", ".join(("calls", "sampler", "order", *known))
        raise ValueError(f"the method {method.name} takes {taken}, but no {wrong[0].removesuffix('_')}")
    check_options(request.options, config.vocab)
    calls = own.length if request.calls is None else request.calls
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
        raise ValueError(f"a sampler makes at least one network call, not {calls}")
    samplers = method.can.samplers
    if request.sampler is not None and request.sampler not in samplers:
        raise ValueError(f"the sampler of this method is {' or '.join(samplers)}, not {request.sampler!r}")
    order = sites_in(request.order, own.length, calls)
    if order is not None and not method.can.orders:
        raise ValueError("this method updates all sites at once, so it has no order of sites; leave the order out")
    kind = samplers[0] if request.sampler is None else request.sampler
    return SamplingPlan(own, calls, kind, order, dict(request.options), by_chain=False, whole_rows=True)


def whole_start(method: Method, num: int | None, run: Run) -> int:
    """How many rows, all of which begin as noise."""
    for name in ("clamp", "start", "absent", "on_step"):
        if getattr(run, name) is not None:
            raise ValueError(f"the method {method.name} changes all sites at once: it cannot fill gaps, and takes no {name}")
    return 1 if num is None else num


def whole_rows(method: Method, process: Process, x0: Tokens, how: BoundOptions) -> Tensor:
    """The rows of a bound, all of whose tokens must be known."""
    clean = process.check_tokens(x0)
    if how.known is not None and not bool(how.known.all()):
        raise ValueError(
            f"the method {method.name} scores whole windows of {clean.shape[1]} tokens; take as many as there are with --rows"
        )
    return clean


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


def sites_in(order: Any, length: int, calls: int) -> Tensor | None:
    """(L,) the sites in the order of writing; None for a random order in each row."""
    if order is None or (isinstance(order, str) and order == "random"):
        return None
    if not isinstance(order, str):
        order = as_noised(order)
    block = max(1, length // calls) if isinstance(order, str) and order in ("strided", "segments") else 1
    return Schedule.round_robin(length, length, 0.0, order, block).order.flip(0)


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
