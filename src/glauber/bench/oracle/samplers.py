"""The samplers that are compared: those in the box, by the very code that samples a model, driven by exact conditionals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glauber.bench.oracle.spaces import Space
from glauber.chain import CallCounter, run_chain
from glauber.conditional import TransformerConfig
from glauber.method import Request, Run, Samples, find_method
from glauber.process import NoiseLaw, Process, Schedule


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Args:
        family: of samplers, e.g. those of one paper.
        name: of the sampler.
        said: the setting, e.g. how many sites a call draws.
        exact: whether theory says that its law is the true one.
        draw: (space, rows, generator) → what it drew.
    """

    family: str
    name: str
    said: str
    exact: bool
    draw: Callable[[Space, int, torch.Generator], Samples]


def chains(L: int) -> Iterator[Setting]:
    """Glauber chains, all sites of a block at once: exact for block 1 if nothing is left of the signal at the start."""
    for block in blocks(L):
        for order in ("segments", "random"):
            name = "left to right" if order == "segments" else "random order"
            yield chain(L, f"1 sweep, {name}", block, order)
            yield chain(L, f"2 sweeps, {name}", block, order, sweeps=2)
            yield chain(L, f"4 sweeps, {name}", block, order, sweeps=4)
        yield chain(L, "4 sweeps, reversal, random order", block, "random", sweeps=4, kernel="reversal")
        yield chain(L, "4 sweeps, marked noise, random order", block, "random", sweeps=4, mark_noise=True)
    for order in ("left-to-right", "right-to-left", "random"):
        name = f"the paper's 4 sweeps with keep ½, {order.replace('-', ' ')}"
        yield chain(L, name, 1, order, sweeps=4, keep=0.5, exact=False)
    yield chain(L, "1 sweep, left to right, top-p 0.9", 1, "segments", exact=False, top_p=0.9)
    for sweeps in (1, 2, 4, 8):
        made = chain(L, "Gibbs sampling from noise", 1, "left-to-right", sweeps, keep=1.0, exact=False)
        yield Setting("Gibbs", made.name, f"{sweeps} sweeps", False, made.draw)


def chain(
    L: int,
    name: str,
    block: int,
    order: str,
    sweeps: int = 1,
    keep: float | str = "linear",
    exact: bool = True,
    **options: Any,
) -> Setting:
    """One of them. A random order is a new one for each tenth of the rows."""

    def draw(space: Space, num: int, generator: torch.Generator) -> Samples:
        counter, parts = CallCounter(space), []
        for size in _parts(num, 10 if order == "random" else 1):
            schedule = Schedule.round_robin(L, sweeps * L, keep, order, block, generator=generator)
            parts.append(run_chain(counter, Process(schedule, space.noise), size, generator=generator, **options))
        return Samples(torch.cat(parts), counter.rows / num)

    return Setting("GGM", name, f"block {block}", exact and block == 1, draw)


def diffusions(L: int) -> Iterator[Setting]:
    """Those of the box, with as few calls as one and more than there are sites."""
    for calls in sorted({*blocks(L), 2 * L, 4 * L}):
        if calls <= L:
            yield diffusion("mdlm", "MDLM, first-hitting", calls, clean_logits, calls == L, sampler="first-hitting")
        yield diffusion("mdlm", "MDLM, ancestral", calls, clean_logits, sampler="ancestral")
        yield diffusion("sedd", "SEDD absorbing, Tweedie", calls, mask_ratios, sampler="tweedie")
        yield diffusion("sedd-uniform", "SEDD uniform, Tweedie", calls, uniform_ratios, sampler="tweedie")
        yield diffusion("sedd-uniform", "SEDD uniform, Euler", calls, uniform_ratios, sampler="euler")
        yield diffusion("udlm", "UDLM, ancestral", calls, clean_logits)


Answers = Callable[[Space, Tensor, Tensor], Tensor]
"""(space, z, survival): (B, L, V), what the network of a method would say if it knew all."""


def diffusion(method: str, name: str, calls: int, answers: Answers, exact: bool = False, sampler: str | None = None) -> Setting:
    """A method's own sampler, with the exact answers in the place of a network's."""

    def draw(space: Space, num: int, generator: torch.Generator) -> Samples:
        def network(z: Tensor, t: Tensor, survival: Tensor, sites: Tensor | None = None) -> Tensor:
            said = answers(space, z, survival.double())
            return said if sites is None else said.gather(1, sites[..., None].expand(*sites.shape, space.vocab))

        own = Schedule.round_robin(space.length, space.length, keep=0.0)
        config = TransformerConfig(vocab=space.vocab, length=space.length, width=8, layers=1, heads=1)
        plan = find_method(method).plan(own, config, Request(calls=calls, sampler=sampler))
        process = Process(own, NoiseLaw.uniform(space.vocab))
        return find_method(method).sample(network, process, plan, num, Run(generator))

    return Setting("others in the box", name, f"{calls} steps", exact, draw)


def clean_logits(space: Space, z: Tensor, survival: Tensor) -> Tensor:
    """log P(X_0[j] = a | z at the other sites), what MDLM and UDLM learn."""
    return space.given_others(z, survival).log()


def mask_ratios(space: Space, z: Tensor, survival: Tensor) -> Tensor:
    """SEDD's log-ratios at a mask, but for the factor of time."""
    return space.given_others(z, survival).clamp_min(1e-300).log() + torch.tensor(space.vocab).log()


def uniform_ratios(space: Space, z: Tensor, survival: Tensor) -> Tensor:
    """log p_t(z with y at j) / p_t(z) for uniform noise."""
    S = survival[..., None]
    at = (S * space.given_others(z, survival) + (1 - S) / space.vocab).log()
    return at - at.gather(-1, z[..., None])


def blocks(L: int) -> list[int]:
    """1, 2, 4, ..., L."""
    return [block for block in (2**k for k in range(L.bit_length())) if L % block == 0]


def _parts(num: int, parts: int) -> list[int]:
    return [num // parts + (k < num % parts) for k in range(parts)]
