"""How each method of the table samples with a budget of network calls, and what bounds the law of that very chain."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.chain import run_chain
from glauber.chain.bounds import row_bounds
from glauber.conditional import CausalConditional, Denoiser
from glauber.method import DIFFUSIONS
from glauber.method.diffusion import integral
from glauber.method.mdlm import clean_logits
from glauber.model import Model
from glauber.process import NoiseLaw, Process, Schedule
from glauber.process.draws import uniform
from glauber.runtime.runners import cuda_runner
from glauber.tasks.score import Windows, ratio, score_windows

METHODS = {"ggm": "ggm", "ar": "ar", "mdlm": "mdlm", "sedd": "sedd", "udlm": "udlm", "plaid": "plaid", "mlm-gibbs": "mlm"}
"""Their names in the table, and in a recipe."""
PARTS = (16, 4, 1)
"""Budgets are L over these."""
GIBBS_SWEEPS = (1, 4)
"""Gibbs sampling makes whole sweeps, and one from noise is hardly a sample of its chain."""
DRAWS = 64
"""Network calls of a bound for each row, at most."""


class Plan(NamedTuple):
    """A row of the table: network calls of a sample, and the order of sites, "random", "best" or, all at once, none."""

    calls: int
    order: str | None

    @property
    def name(self) -> str:
        return f"{self.calls} calls" + (f", {self.order} order" if self.order else "")


def plans(method: str, length: int) -> list[Plan]:
    """All that a method allows."""
    if length % PARTS[0] or length < 2 * PARTS[0]:
        raise ValueError(f"the table needs rows of 32, 48, 64, ... tokens, not {length}; prepare the data with --length 256")
    if method == "ar":
        return [Plan(length, "best")]
    budgets = [length // part for part in PARTS]
    if method in ("udlm", "plaid"):
        return [Plan(calls, None) for calls in budgets]
    budgets = [sweeps * length for sweeps in GIBBS_SWEEPS] if method == "mlm-gibbs" else budgets
    return [Plan(calls, order) for calls in budgets for order in ("random", "best")]


def order_of(model: Model, plan: Plan) -> str | None:
    """The order in words: the best is "reading", from left to right, or "onward", in parts; GGM has a choice."""
    if plan.order != "best":
        return plan.order
    process, options = chain_of(model, plan)
    schedule, said = process.schedule, process.schedule.to_dict()["order"]
    words = ["random" if not isinstance(said, str) else "reading" if said == "left-to-right" else said, *options]
    several = schedule.sweeps > 1 and model.objective == "dense"
    return ", ".join([*words, f"{schedule.sweeps} sweeps"] if several else words)


def draw(model: Model, plan: Plan, rows: int, generator: torch.Generator) -> Tensor:
    """(rows, L) tokens, with float64 draws and without any truncation."""
    with model.evaluating():
        if model.objective in DIFFUSIONS:
            sites = chain_of(model, plan)[0].schedule.order.flip(0) if plan.order == "best" else None
            method, arguments = DIFFUSIONS[model.objective], (model.network, model.process, rows, plan.calls)
            return method.sample(*arguments, generator, order=sites, progress=True).tokens
        process, options = chain_of(model, plan)
        conditional = Denoiser(model.network) if model.objective == "masked" else model.conditional_for(process)
        return run_chain(conditional, process, rows, generator=generator, progress=True, **options, _runner=cuda_runner)


def chain_of(model: Model, plan: Plan) -> tuple[Process, dict[str, Any]]:
    """The chain of a way, and options of `run_chain`. A random order is one permutation, the same for all rows."""
    L, noise, block = model.process.length, model.process.noise, max(1, model.process.length // plan.calls)
    if model.objective == "dense" and plan.order == "best":
        schedule, options = model.plan(plan.calls)
        return Process(schedule, noise), options
    order, generator = "random" if plan.order == "random" else "segments", torch.Generator().manual_seed(0)
    if model.objective == "masked":
        schedule, noise = Schedule.round_robin(L, plan.calls, 1.0, order, generator=generator), NoiseLaw.uniform(noise.vocab)
    else:
        schedule = Schedule.round_robin(L, L, 0.0, order, block, generator=generator)
    return Process(schedule, noise).to(model.device), {}


def bound(model: Model, plan: Plan, windows: Windows) -> dict[str, float] | None:
    """Bits per character of held-out rows, an upper bound for the law that `draw` samples from; none where none is known.

    A chain's is its own, with its blocks. A diffusion's is that of many small steps, and stands where there are L calls.
    """
    L = model.process.length
    if model.objective == "masked":
        return None
    if model.objective in DIFFUSIONS and plan.order in (None, "random"):
        if plan.calls == L:
            (found,) = score_windows(model, windows, (), DRAWS).values()
            return {"bits_per_char": found["bits_per_character"], "error": found["standard_error_per_character"]}
        return _figures(_unmasking(model, plan.calls, windows.tokens), windows) if model.objective == "mdlm" else None
    process, options = chain_of(model, plan)
    if options.get("mark_noise"):
        return None
    conditional, x0 = model.conditional_for(process), windows.tokens.to(model.device)
    draws = 1 if isinstance(conditional, CausalConditional) else min(DRAWS, process.schedule.steps // process.schedule.block)
    kernels = (options.get("kernel", "heat-bath"),)
    with model.evaluating():
        nats = row_bounds(conditional, process, x0, kernels, draws, torch.Generator().manual_seed(0), progress=True)
    return _figures(nats[0], windows)


@torch.no_grad()
def _unmasking(model: Model, calls: int, x0: Tensor) -> Tensor:
    """(B,) nats: what MDLM's calls pay for the sites that they draw, each row in random orders of its own, of which the mean
    is a bound. So many calls, at most DRAWS, are looked at, each in an order of its own."""
    process, generator = model.process, torch.Generator().manual_seed(0)

    def term(x: Tensor, t: Tensor) -> Tensor:
        now = (t * calls).long()[:, None]
        rank = uniform(x.shape, generator, x.device).argsort(1)
        drawn_by = ((rank + 1) * calls - 1) // process.length  # as `unmask_in_order` cuts the sites
        z = torch.where(drawn_by < now, x, process.noise.mask)
        paid = F.cross_entropy(clean_logits(model.network, process, z).mT.double(), x, reduction="none")
        return calls * torch.where(drawn_by == now, paid, 0.0).sum(1)

    with model.evaluating():
        return integral(term, x0.to(model.device), process.vocab, min(DRAWS, calls), generator)


def _figures(nats: Tensor, windows: Windows) -> dict[str, float]:
    assert windows.characters is not None
    bits, error = ratio(nats.cpu() / math.log(2), windows.characters.double())
    return {"bits_per_char": bits, "error": error}
