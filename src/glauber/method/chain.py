"""Methods whose sampler is the chain: GGM with its three losses, the autoregressive model, Gibbs sampling with a masked LM."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glauber.chain import CallCounter, check_options, run_chain
from glauber.chain.bounds import row_bounds
from glauber.chain.budget import schedule_within
from glauber.chain.clamp import is_beginning
from glauber.conditional import CausalConditional, StepLaw, TransformerConfig
from glauber.method.base import BoundOptions, Bounds, Method
from glauber.method.sampling import Request, Run, Samples, SamplingPlan, as_noised, one_permutation
from glauber.process import Process, Schedule, Tokens


class ChainMethod(Method):
    """It samples by `run_chain`, on the model's own schedule or, where it can, on another one."""

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """As in `Method`. A number of calls chooses the sweeps, the block and the order."""
        if request.sampler is not None:
            raise ValueError("a sampler is for methods that are no chain; this model has calls, or sweeps and a block")
        schedule = own
        if request.calls is not None:
            if any(option is not None for option in (request.sweeps, request.block, request.order)):
                raise ValueError("calls chooses the sweeps, the block and the order; leave either these out or calls")
            schedule = self.within(own, config, request.calls)
        elif any(option is not None for option in (request.sweeps, request.block, request.order)):
            self.require_any_schedule(config)
            schedule = changed(own, request)
        return chain_plan(self, schedule, config, request)

    def within(self, own: Schedule, config: TransformerConfig, calls: int) -> Schedule:
        """A schedule with at most so many network calls."""
        self.require_any_schedule(config)
        return schedule_within(calls, own.length).to(own.order.device)

    def require_any_schedule(self, config: TransformerConfig) -> None:
        """Refuse a model that can run on its own schedule alone."""
        if not self.can.any_schedule:
            raise ValueError(
                f"a model of the method {self.name} runs on its own schedule alone; leave sweeps, block, order and calls out"
            )
        if config.conditioning == "time":
            raise ValueError(
                "a model told the time, and not each site's survival, runs on its own schedule alone; "
                "leave sweeps, block, order and calls out"
            )

    def sample(self, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run = Run()) -> Samples:
        """The chain on the plan's schedule."""
        if plan.whole_rows and (run.clamp is not None or run.start is not None):
            raise ValueError("calls is for whole samples; with a prompt, or to fill gaps or to vary, choose sweeps and a block")
        return sample_chain(self, network, process, plan, num, run)

    def bounds(self, network: Any, process: Process, x0: Tokens, how: BoundOptions = BoundOptions()) -> Bounds:
        """Of each kernel's chain (identity 7), from the same network calls; exact where it is autoregressive."""
        conditional = self.conditional(network, process)
        exact = isinstance(conditional, CausalConditional)
        nats = row_bounds(conditional, process, x0, how.kernels, how.draws, how.generator, how.known, how.progress)
        return Bounds(dict(zip(how.kernels, nats, strict=True)), 1 if exact else how.draws, exact)

    def plan_bound(
        self, network: Any, process: Process, plan: SamplingPlan, x0: Tensor, how: BoundOptions = BoundOptions()
    ) -> Tensor | None:
        """Of the plan's own chain, with its blocks; none is known with marked noise."""
        if plan.options.get("mark_noise"):
            return None
        own = replace(how, kernels=(plan.options.get("kernel", "heat-bath"),), draws=min(how.draws, plan.calls))
        (nats,) = self.bounds(network, Process(plan.schedule, process.noise), x0, own).nats.values()
        return nats


def chain_plan(method: Method, schedule: Schedule, config: TransformerConfig, request: Request) -> SamplingPlan:
    """The chain on this schedule, with the options of the request."""
    options = {**method.sampling, **request.options}
    check_options(options, config.vocab)
    return SamplingPlan(
        schedule,
        len(schedule.times),
        options=options,
        class_=request.class_,
        guidance=request.guidance,
        whole_rows=request.calls is not None,
    )


def sample_chain(method: Method, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run) -> Samples:
    """Rows by `run_chain`, with what the network knows."""
    process = Process(plan.schedule, process.noise)
    gaps = run.clamp is not None and not is_beginning(run.clamp)
    conditional = method.conditional(network, process, gaps, plan.class_, plan.guidance)
    counted = None if isinstance(conditional, StepLaw) else CallCounter(conditional)  # a step law is called at each step
    log_law = _no_law_yet(plan.schedule, num, run)
    tokens = run_chain(
        conditional if counted is None else counted,
        process,
        num,
        start=run.start,
        stop=run.stop,
        clamp=run.clamp,
        absent=run.absent,
        generator=run.generator,
        on_step=run.on_step,
        progress=run.progress,
        _rules=run.rules,
        _runner=run.runner,
        _rows=run.rows,
        _log_law=log_law,
        **plan.options,
    )
    if run.record is not None:
        run.record.log_law = log_law
    return Samples(tokens, plan.calls if counted is None else counted.rows / max(1, len(tokens)))


def _no_law_yet(schedule: Schedule, num: int | None, run: Run) -> Tensor | None:
    """(rows,) zeros for the law of rows that is to be recorded; None where nobody asks, or where it would not be known."""
    if run.record is None or run.start is not None or not schedule.draws_once:
        return None
    return torch.zeros(1 if num is None else num, dtype=torch.float64, device=schedule.order.device)


def changed(own: Schedule, request: Request) -> Schedule:
    """The same with other sweeps, another block or order. Other sweeps let the survival fall linearly to 0."""
    settings = own.to_dict()
    if request.sweeps is not None and request.sweeps < 1:
        raise ValueError(f"sweeps must be at least 1, not {request.sweeps}")
    if request.sweeps is not None and request.sweeps != own.sweeps:
        settings |= {"steps": request.sweeps * own.length, "keep": "linear"}
    if request.block is not None:
        settings["block"] = request.block
    if request.order is not None:
        settings["order"] = request.order if isinstance(request.order, str) else as_noised(request.order)
    return Schedule.round_robin(**settings, generator=one_permutation()).to(own.order.device)
