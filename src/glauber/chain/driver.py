"""Run the chain: Algorithm 2 of the paper, made general."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from glauber.chain import kernels
from glauber.chain.banned import WithoutBanned
from glauber.chain.clamp import RULES, Clamp, clamped_sites
from glauber.chain.counting import CallCounter
from glauber.chain.engine import Walk, walk
from glauber.chain.truncation import Truncation
from glauber.conditional import CausalConditional, Conditional, Denoiser, StepLaw, Transformer
from glauber.process import Mask, Process, Tokens, as_mask
from glauber.process.draws import Generator, categorical, uniform
from glauber.runtime.fast import compiled
from glauber.runtime.memory import require_memory
from glauber.runtime.progress import progress_bar

MANY, TOKEN = 2**22, 32
"""Tokens from which on the memory is asked for, and bytes that each takes at least: itself, its survival, and two draws."""
OnStep = Callable[[int, Tensor], None]
WINDOW = 2**24
"""Random numbers that are drawn ahead at once."""
COMPILED = 5e15
"""Products of two numbers from which on a chain on a GPU compiles the network first, which takes some twenty seconds."""


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
    generator: torch.Generator | None = None,
    ahead: int = 1,
    on_step: OnStep | None = None,
    progress: bool = False,
) -> Tensor:
    """Walk the schedule back from noise to data: (num, L) int64 tokens, on the device of `process`.

    Args:
        conditional: the clean conditional, or a `StepLaw` such as the paper's classifier (no skip, no labels there).
        num: rows; taken from `start` when that is given, else 1.
        kernel: "heat-bath" forgets the site's token (the paper), "reversal" keeps it as evidence (identity 6).
        skip: do not call the network where its answer cannot matter; the same law with fewer calls (identities 5, 6).
            Ignored where it would change the law: truncated mixtures and step laws.
        labels: remember where noise fell (identity 9); noise sites then hold the mask id.
        start: (x, t), a state (rows, L) and the step that it is the state of, in place of noise at T. With `labels` its
            masked sites are the noise.
        stop: the step whose state is returned, for those who need not go to the end.
        clamp: {site: token}, or (mask, tokens): sites held fixed.
        absent: (L,) bool, sites that are no part of the sequence: shown as noise that tells nothing, and never drawn. The law
            of the chain is then that of the other sites. Not for a `StepLaw`, which cannot be told.
        clamp_rule: "exact" tells the network that they are clean (identity 8); "paper" does not, its zero-shot rule.
        temperature, top_p, top_k, ban, truncate: see `Truncation`; `truncate` says of which law, "clean" or "mixture".
        ahead: let each call answer for so many steps of each row, on guessed states, and use what was guessed right: the same
            tokens in fewer calls of more rows (see `engine`), for few rows on a GPU, where a call of ten costs that of one.
            The conditional must then answer on any state. Without effect where rows must go together: with `on_step`, the
            reversal, a model that reads, a step law, a truncated mixture, or without the skip.
        on_step: called as on_step(t, x) with a copy of every state X_t, the start included.
        progress: show a bar, from the third second on.
    """
    if not isinstance(ahead, int) or isinstance(ahead, bool) or ahead < 1:
        raise ValueError(f"a call answers for at least one step of each row, so ahead must be 1 or more, not {ahead}")
    truncation = _settings(process.vocab, kernel, clamp_rule, temperature, top_p, top_k, ban, truncate)
    _check_together(conditional, process, mark_noise, truncation)

    x, t_start = _start(process, num, start, mark_noise, generator)
    if not isinstance(stop, int) or not 0 <= stop <= t_start or stop % process.schedule.block:
        raise ValueError(f"the last step must lie in 0..{t_start} and be a multiple of the block, not {stop}")
    given, tokens = clamped_sites(clamp, process, len(x))
    x = torch.where(given, tokens, x)
    _check_masks(process, x, t_start)
    away = _absent(absent, conditional, process)
    chain = _Chain(conditional, process, kernel, skip, mark_noise, given, away, clamp_rule == "exact", truncation)
    if on_step is not None:
        on_step(t_start, x.clone())
    block = process.schedule.block
    times = range(t_start - block, stop - 1, -block)
    if on_step is None and len(x) and len(times) and chain.may_run_async(times):
        return chain.run_async(x, times, ahead, generator, progress)
    with _bar(len(times), progress) as bar:
        for t in times:
            x = chain.reverse_step(x, t, uniform((2, len(x), block), generator, x.device))
            bar.update()
            if on_step is not None:
                on_step(t, x.clone())
    return x


def check_options(options: Mapping[str, Any], vocab: int) -> None:
    """Refuse options of `run_chain` that it does not have or would refuse; for those that are kept with a model."""
    try:
        _settings(vocab, **{name: value for name, value in options.items() if name not in ("skip", "mark_noise", "ahead")})
    except TypeError as error:
        raise ValueError(f"the sampling options do not fit: {error}") from error


def _settings(
    vocab: int,
    kernel: str = "heat-bath",
    clamp_rule: str = "exact",
    temperature: float | Sequence[float] = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    ban: Sequence[int] = (),
    truncate: str = "clean",
) -> Truncation:
    if kernel not in kernels.KERNELS:
        raise ValueError(f"kernel is 'heat-bath' or 'reversal', not {kernel!r}")
    if clamp_rule not in RULES:
        raise ValueError(f"clamp_rule is 'exact' or 'paper', not {clamp_rule!r}")
    truncation = Truncation(temperature, top_p, top_k, ban, truncate)
    truncation.check_vocab(vocab)
    return truncation


@dataclass(frozen=True)
class _Chain:
    """One chain's settings, and the step that they make."""

    conditional: Conditional | StepLaw
    process: Process
    kernel: str
    skip: bool
    mark_noise: bool
    given: Tensor  # (B, L) clamped sites
    absent: Tensor  # (L,) sites that are no part of the sequence
    exact_clamp: bool
    truncation: Truncation

    def reverse_step(self, x: Tensor, t: int, u: Tensor) -> Tensor:
        """X_t from X_{t+b}: all randomness comes from u (2, B, b), a coin and a token for each site."""
        schedule, noise = self.process.schedule, self.process.noise
        time = torch.full((len(x),), t, device=x.device)
        sites, keep = schedule.sites(time), schedule.keeps(time)
        survival, now = schedule.survival(time), x.gather(1, sites)
        S, free = survival.gather(1, sites), ~(self.given | self.absent).gather(1, sites)
        coin, draw = u
        odds = torch.zeros_like(S)
        if self.mark_noise:
            stay, call = kernels.marked(self.kernel, S, keep, now != noise.mask)
            new = torch.where(coin < stay, now, noise.mask)
            called = coin >= 1 - call
        else:
            odds = kernels.own_odds(self.kernel, keep, noise.probs[now])
            stay, noise_only = kernels.call_free(S, odds, noise.probs[now])
            new = torch.where(coin < stay, now, noise.draw(draw))
            called = (coin >= stay + noise_only) & (S > 0) if self._may_skip else torch.ones_like(free)
        asked = (called & free if self.skip else free).any(1).nonzero().squeeze(1)  # other rows need no network
        if len(asked):
            told = self._conditioning(x, survival, self.given)
            # A clamped site is evidence and no question: in its place a free one is asked about twice.
            query_sites = torch.where(free, sites, sites.gather(1, free.int().argmax(1, keepdim=True)))
            query = x[asked], time[asked], told[asked], query_sites[asked]
            law = self._law_if_called(query, t, S[asked], now[asked], odds[asked])
            new = torch.where(called, new.index_copy(0, asked, categorical(law, draw[asked])), new)
        return x.scatter(1, sites, torch.where(free, new, now))

    def may_run_async(self, times: range) -> bool:
        """Whether every row may go at its own pace, see `engine`: its coins alone must say where the network is needed.

        Rows that are read must go together. They do if each step needs the network: none is given or left out.
        """
        if isinstance(_inner(self.conditional), CausalConditional):
            whole = self.process.schedule.causal and len(times) == self.process.length
            together = whole and not bool((self.given | self.absent).any())
            if not together or not isinstance(_uncounted(self.conditional), CausalConditional):
                return False
        return self._may_skip and self.kernel == "heat-bath"

    def run_async(self, x: Tensor, times: range, ahead: int, generator: Generator | None, progress: bool) -> Tensor:
        """`undo` for all times, the same tokens with as few calls as can be."""
        block, inner = self.process.schedule.block, _inner(self.conditional)
        causal = isinstance(inner, CausalConditional)
        # What a recorded call does in Python happens once; we only know of our own network that this is all right.
        graphed = x.is_cuda and isinstance(inner, Denoiser | CausalConditional) and isinstance(inner.network, Transformer)
        chain, uncounted = self, graphed or causal  # what is counted, is then counted below
        if causal:
            chain, ahead = replace(self, conditional=inner.together(len(x))), 1
        elif graphed:
            chain = replace(self, conditional=_uncounted(self.conditional))
        check = not graphed and ahead == 1  # else the engine does: a guessed state may be one that cannot be
        pays = graphed and not causal and find_spec("triton") is not None and self._pays(inner.network, x, times)
        faster = compiled(inner.network) if pays else nullcontext()

        def ask(rows: Tensor, x: Tensor, time: Tensor, sites: Tensor, S: Tensor, now: Tensor) -> Tensor:
            told = chain._conditioning(x, chain.process.schedule.survival(time), self.given[rows])
            return chain._law_if_called((x, time, told, sites), time, S, now, torch.zeros_like(S), check)

        window = max(1, WINDOW // (2 * len(x) * block))
        source = x.device if generator is None else generator.device
        with faster:
            for start in range(0, len(times), window):
                part = times[start : start + window]
                u = torch.stack([uniform((2, len(x), block), generator, source) for _ in part]).to(x.device)
                steps = Walk(self.process, x, part[0] + block, u, ~(self.given | self.absent), self.mark_noise, ahead)
                x, calls, rows = walk(steps, ask, graphed, lambda total: _bar(total, progress))
                if uncounted and isinstance(self.conditional, CallCounter):
                    self.conditional.calls += calls
                    self.conditional.rows += rows
        return x

    def _pays(self, network: Transformer, x: Tensor, times: range) -> bool:
        """Whether to compile: not for those who want float32, and so the network as it is, nor for a short chain."""
        schedule = self.process.schedule
        calls = schedule.signal[times[-1] : times[0] + schedule.block].sum().item() / schedule.block
        products = calls * x.numel() * sum(parameter.numel() for parameter in network.blocks.parameters())
        return torch.is_autocast_enabled(x.device.type) and products > COMPILED

    def _law_if_called(
        self,
        query: tuple[Tensor, Tensor, Tensor, Tensor],
        t: int | Tensor,
        S: Tensor,
        now: Tensor,
        odds: Tensor,
        check: bool = True,
    ) -> Tensor:
        """(rows, b, V) weights of the new tokens, given that the coin asked for the network."""
        pi = self.process.noise.probs
        steps = self.process.schedule.steps
        done = steps - t - self.process.schedule.block
        log_law = self._ask(query, check)
        if isinstance(self.conditional, StepLaw):
            return kernels.step(self.truncation(log_law, done, steps, check), now, odds)
        if self._on_mixture:
            log_p = kernels.mixture(log_law.exp(), S, pi).log()
            return kernels.step(self.truncation(log_p, done, steps, check), now, odds)
        clean = self.truncation(log_law, done, steps, check)
        if self.mark_noise:
            return clean
        if self._may_skip:
            return kernels.residual(clean, S, now, odds, pi)
        return kernels.step(kernels.mixture(clean, S, pi), now, odds)

    def _ask(self, query: tuple[Tensor, Tensor, Tensor, Tensor], check: bool) -> Tensor:
        """The conditional's answer, (rows, b, V) in float64."""
        knows = self.conditional.step_law if isinstance(self.conditional, StepLaw) else self.conditional
        answer, due = knows(*query).double(), (*query[3].shape, self.process.vocab)
        if answer.shape != due:
            raise ValueError(f"the conditional answered with shape {tuple(answer.shape)} where {due} was due")
        if check and not bool((answer.amax(-1) > -torch.inf).all()):  # NaN is not above anything
            raise ValueError("the conditional answered with NaN, or left some site no token; are its weights whole?")
        return answer

    def _conditioning(self, x: Tensor, survival: Tensor, given: Tensor) -> Tensor:
        """(B, L) the survival that the network is told of each site."""
        if self.mark_noise:
            survival = (x != self.process.noise.mask).double()
        elif self.exact_clamp:
            survival = torch.where(given, 1.0, survival)
        return torch.where(self.absent, 0.0, survival)

    @property
    def _on_mixture(self) -> bool:
        return self.truncation.active and self.truncation.place == "mixture"

    @property
    def _may_skip(self) -> bool:
        return self.skip and not self._on_mixture and not isinstance(self.conditional, StepLaw)


def _uncounted(conditional: Any) -> Any:
    return conditional.function if isinstance(conditional, CallCounter) else conditional


def _inner(conditional: Any) -> Any:
    """What answers in the end, behind what counts or restricts it."""
    while isinstance(conditional, CallCounter | WithoutBanned):
        conditional = conditional.function if isinstance(conditional, CallCounter) else conditional.conditional
    return conditional


def _absent(absent: Mask | None, conditional: Conditional | StepLaw, process: Process) -> Tensor:
    """(L,) bool."""
    if absent is None:
        return torch.zeros(process.length, dtype=torch.bool, device=process.noise.probs.device)
    if isinstance(conditional, StepLaw):
        raise ValueError("this conditional knows only the step law, and cannot be told that sites are absent")
    away = as_mask(absent, "absent")
    if away.shape != (process.length,):
        raise ValueError(f"absent says of each of the {process.length} sites whether it is; give as many booleans")
    return away.to(process.noise.probs.device)


def _start(
    process: Process, num: int | None, start: tuple[Tokens, int] | None, mark_noise: bool, generator: torch.Generator | None
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


def _check_together(conditional: Conditional | StepLaw, process: Process, mark_noise: bool, truncation: Truncation) -> None:
    on_mixture = truncation.active and truncation.place == "mixture"
    if mark_noise and on_mixture:
        raise ValueError("labelled noise is never mixed in, so there is no mixture to truncate; use truncate='clean'")
    if isinstance(conditional, StepLaw):
        if mark_noise:
            raise ValueError("labelled noise needs the clean conditional, and this one knows only the step law")
        if truncation.active and not on_mixture:
            raise ValueError("this conditional knows only the step law; truncate it with truncate='mixture'")
        own = getattr(conditional, "process", process)  # a classifier's answers are about one process
        if not (torch.equal(own.schedule.keep, process.schedule.keep) and torch.equal(own.noise.probs, process.noise.probs)):
            raise ValueError("the classifier was made for another process than the chain's; give it this one")


def _bar(total: int, progress: bool) -> AbstractContextManager[Any]:
    return progress_bar(progress, total, "chain", "step", leave=False)
