"""Run the chain: Algorithm 2 of the paper, made general."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from glauber.chain.banned import Rule, rules_on
from glauber.chain.clamp import Clamp, clamped_sites
from glauber.chain.counting import CallCounter
from glauber.chain.engine import Walk, walk
from glauber.chain.options import ChainOptions
from glauber.chain.runner import Graph, Runner, eager
from glauber.chain.step import Chain, Query, Rows, uncounted
from glauber.conditional import CausalConditional, Conditional, StepLaw
from glauber.process import Mask, Process, Tokens, as_mask
from glauber.process.draws import Generator, uniform
from glauber.runtime.memory import require_memory
from glauber.runtime.progress import progress_bar

MANY, TOKEN = 2**22, 32
"""Tokens from which on the memory is looked at, and bytes that each takes at least: itself, its survival, and two draws."""
OnStep = Callable[[int, Tensor], None]
Bar = Callable[[int], AbstractContextManager[Any]]
"""A progress bar of so many steps."""
WINDOW = 2**24
"""Random numbers that are drawn in advance at once."""


@torch.no_grad()
def run_chain(
    conditional: Conditional | StepLaw,
    process: Process,
    num: int | None = None,
    *,
    kernel: str = "heat-bath",
    skip: bool = True,
    mark_noise: bool = False,
    start: tuple[Tokens, int] | None = None,
    stop: int = 0,
    clamp: Clamp | None = None,
    absent: Mask | None = None,
    clamp_rule: str = "exact",
    temperature: float | Sequence[float] = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    ban: Sequence[int] = (),
    truncate: str = "clean",
    generator: Generator | None = None,
    on_step: OnStep | None = None,
    progress: bool = False,
    _rules: Sequence[Rule] = (),
    _runner: Runner = eager,
    _rows: Rows | None = None,
    _log_law: Tensor | None = None,
) -> Tensor:
    """Walk the schedule back from noise to data: (num, L) int64 tokens, on the device of `process`.

    Args:
        conditional: the clean conditional, or a `StepLaw` such as the paper's classifier (no skip, no marked noise there).
        num: rows; taken from `start` when that is given, else 1.
        kernel: "heat-bath" forgets the site's token (the paper), "reversal" keeps it as evidence (identity 6).
        skip: do not call the network where its answer cannot matter; the same law with fewer calls (identities 5, 6).
            Ignored where it would change the law: truncated mixtures and step laws.
        mark_noise: remember where noise fell (identity 9); noise sites then hold the mask id.
        start: (x, t), a state (rows, L) and the step that it is the state of, in place of noise at T. With `mark_noise` its
            masked sites are the noise.
        stop: the step whose state is returned, for those who need not go to the end.
        clamp: {site: token}, or (mask, tokens): sites held fixed.
        absent: (L,) or (rows, L) bool, sites that are no part of the sequence: shown as noise that tells nothing, and never
            drawn. The law of the chain is then that of the other sites. Not for a `StepLaw`, which has no such condition.
        clamp_rule: "exact" gives the network survival 1 there (identity 8); "paper" does not, its zero-shot rule.
        temperature: of the law that a token is drawn from; several hold for equal parts of the chain.
        top_p: draw from the likeliest tokens with so much of the mass.
        top_k: draw from so many of the likeliest tokens.
        ban: tokens that are never drawn.
        truncate: which law these four change, "clean" or "mixture", see `Truncation`.
        on_step: called as on_step(t, x) with a copy of every state X_t, the start included.
        progress: show a bar, from the third second on.
        _rules: tokens that some sites must not hold, see `chain.banned`.
        _runner: how steps are repeated, see `chain.runner`.
        _rows: what `on_step` wants to know of each row, and which rows it takes out.
        _log_law: (rows,) to which the log-probability of each token drawn from the network's law is added: of a plan that draws
            each site once that is the law of the row.
    """
    options = ChainOptions(kernel, clamp_rule, truncate, temperature, top_p, top_k, ban, skip, mark_noise)
    options.require_fit(conditional, process)
    x, t_start = _start(process, num, start, mark_noise, generator)
    if not isinstance(stop, int) or not 0 <= stop <= t_start or stop % process.schedule.block:
        raise ValueError(f"the last step must lie in 0..{t_start} and be a multiple of the block, not {stop}")
    given, tokens = clamped_sites(clamp, process, len(x))
    x = torch.where(given, tokens, x)
    _check_masks(process, x, t_start)
    away, rules = _absent(absent, conditional, process, len(x)), rules_on(x.device, _rules)
    chain = Chain(conditional, process, options, given, away, rules, _rows, _log_law)
    block = process.schedule.block
    times = range(t_start - block, stop - 1, -block)

    def bar(total: int) -> AbstractContextManager[Any]:
        return progress_bar(progress, total, "chain", "step", leave=False)

    if on_step is None and len(x) and len(times) and _may_run_async(chain, times):
        return _run_async(chain, x, times, generator, bar, _runner)
    return _run_together(chain, x, times, generator, bar, on_step)


def _run_together(
    chain: Chain, x: Tensor, times: range, generator: Generator | None, bar: Bar, on_step: OnStep | None
) -> Tensor:
    """All rows through each step at once."""
    block = chain.process.schedule.block
    if on_step is not None:
        on_step(times.start + block, x.clone())
    with bar(len(times)) as shown:
        for t in times:
            x = chain.reverse_step(x, t, uniform((2, len(x), block), generator, x.device, rows=1))
            shown.update()
            if on_step is not None:
                on_step(t, x.clone())
    return x


def _may_run_async(chain: Chain, times: range) -> bool:
    """Whether every row may go at its own pace, see `engine`: its coins alone must say where the network is needed.

    Rows of a causal conditional must go together. They do if each step needs the network: no site is given or left out.
    """
    if isinstance(uncounted(chain.conditional), CausalConditional):
        whole = chain.process.schedule.causal and len(times) == chain.process.length
        if not whole or not bool(chain.free.all()):
            return False
    return chain.may_skip and chain.options.kernel == "heat-bath"


def _run_async(chain: Chain, x: Tensor, times: range, generator: Generator | None, bar: Bar, runner: Runner) -> Tensor:
    """The tokens of `_run_together` with as few calls as can be."""
    inner: Any = uncounted(chain.conditional)
    causal, counter = isinstance(inner, CausalConditional), chain.conditional
    with runner(inner, x, _calls(chain.process, times)) as graph:
        if causal:
            chain = replace(chain, conditional=inner.together(len(x)))
        elif graph is not None:
            chain = replace(chain, conditional=inner)
        x, calls, rows = _walk_all(chain, x, times, generator, bar, graph)
    if chain.conditional is not counter and isinstance(counter, CallCounter):  # which has seen none of them
        counter.calls += calls
        counter.rows += rows
    return x


def _walk_all(
    chain: Chain, x: Tensor, times: range, generator: Generator | None, bar: Bar, graph: Graph | None
) -> tuple[Tensor, int, int]:
    """As `walk`, with random numbers for WINDOW of them at a time."""
    block, calls, rows = chain.process.schedule.block, 0, 0
    window = max(1, WINDOW // (2 * len(x) * block))
    source = x.device if generator is None else generator.device
    law = partial(_law, chain, graph is None)
    for first in range(0, len(times), window):
        part = times[first : first + window]
        u = torch.stack([uniform((2, len(x), block), generator, source, rows=1) for _ in part]).to(x.device)
        steps = Walk(chain.process, x, part[0] + block, u, chain.free, chain.options.mark_noise, chain.log_law)
        x, more_calls, more_rows = walk(steps, law, graph, bar)
        calls, rows = calls + more_calls, rows + more_rows
    return x, calls, rows


def _law(chain: Chain, check: bool, rows: Tensor, x: Tensor, time: Tensor, sites: Tensor, S: Tensor, now: Tensor) -> Tensor:
    """What a `Walk` draws from; `check` looks at each answer, which makes a GPU wait, else the walk does in the end."""
    survival = chain.conditioning(x, chain.process.schedule.survival(time), rows)
    return chain.law_if_called(Query(x, time, survival, sites), rows, time, S, now, torch.zeros_like(S), check)


def _calls(process: Process, times: range) -> float:
    """Network calls that a row makes at these times, in the mean."""
    schedule = process.schedule
    signal = schedule.signal[times[-1] : times[0] + schedule.block].view(-1, schedule.block)
    return (1 - (1 - signal).prod(1)).sum().item()


def _absent(absent: Mask | None, conditional: Conditional | StepLaw, process: Process, rows: int) -> Tensor:
    """(rows, L) bool."""
    if absent is None:
        return torch.zeros(rows, process.length, dtype=torch.bool, device=process.noise.probs.device)
    if isinstance(conditional, StepLaw):
        raise ValueError("this conditional knows only the step law, in which no site can be absent; leave absent out")
    away = as_mask(absent, "absent")
    if away.shape not in ((process.length,), (rows, process.length)):
        raise ValueError(f"absent says of each of the {process.length} sites whether it is; give as many booleans")
    return away.to(process.noise.probs.device).expand(rows, process.length)


def _start(
    process: Process, num: int | None, start: tuple[Tokens, int] | None, mark_noise: bool, generator: Generator | None
) -> tuple[Tensor, int]:
    """The first state (B, L) and its time."""
    T, mask = process.schedule.steps, process.noise.mask
    if start is None:
        rows = 1 if num is None else num
        if not isinstance(rows, Integral) or rows < 0:
            raise ValueError(f"cannot draw {rows} samples; ask for a whole number, 0 or more")
        if process.length > T:
            raise ValueError(f"the schedule visits only {T} of {process.length} sites, so the rest would stay noise")
        require_room(int(rows), process)
        shape = (int(rows), process.length)
        if mark_noise:
            return torch.full(shape, mask, device=process.noise.probs.device), T
        return process.noise.sample(shape, generator), T
    x, t = process.check_tokens(start[0], mask=mark_noise), start[1]
    if num is not None and num != len(x):
        raise ValueError(f"num is {num}, but the start has {len(x)} rows; leave num out")
    if not isinstance(t, Integral) or not 0 <= t <= T or t % process.schedule.block:
        raise ValueError(f"the start's step must lie in 0..{T} and be a multiple of the block, not {t}")
    return x.to(process.noise.probs.device, copy=True), int(t)


def require_room(rows: int, process: Process) -> None:
    """Refuse more rows than the memory can hold, before any is made."""
    if rows * process.length > MANY:
        what = f"a chain of {rows:,} rows of {process.length:,} tokens"
        require_memory(TOKEN * float(rows) * process.length, what, "ask for fewer at once", process.noise.probs.device)


def _check_masks(process: Process, x: Tensor, t: int) -> None:
    """A site that is never visited again must not be a mask."""
    never_noised = process.schedule.survival(torch.tensor([t], device=x.device)) == 1
    if bool(((x == process.noise.mask) & never_noised).any()):
        raise ValueError(f"the start is masked at a site that is never noised before step {t}")
