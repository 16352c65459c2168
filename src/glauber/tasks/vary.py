"""Vary a text: noise it part of the way, and run the chain back from there."""

import torch
import torch.nn.functional as F

from glauber.chain.driver import OnStep, require_room
from glauber.codec import TextCodec
from glauber.method import Run
from glauber.process.draws import Generator, uniform
from glauber.sampler import Sampler
from glauber.tasks.steps import Draw, Steps
from glauber.tasks.template import only_end
from glauber.tasks.windows import beyond

SWEEPS = 4
"""Of a variation by a model whose own chain is causal, which would noise the end of the row alone."""


def varying(
    sampler: Sampler,
    codec: TextCodec,
    text: str,
    t: int,
    num: int = 1,
    generator: Generator | None = None,
    on_step: OnStep | None = None,
    progress: bool = False,
) -> Steps[list[str]]:
    """`num` variations of a text: it is noised as far as step t of the schedule, and the chain runs back from there.

    The sites beyond a text shorter than L are absent; a classifier, which cannot be told, first gives the text a continuation,
    which is noised with it and dropped in the end.
    """
    tokens = torch.tensor(codec.encode(text), dtype=torch.int64)
    process, L, n = sampler.process, sampler.length, len(tokens)
    if not n:
        raise ValueError("the text is empty; give one to vary")
    if n > L:
        raise ValueError(f"the text has {n} tokens, more than this model's {L}; vary a shorter piece of it")
    if num < 0:
        raise ValueError(f"cannot make {num} variations; ask for a whole number, 0 or more")
    require_room(num, process)
    times, site = process.check_times(t, num, sampler.schedule.steps), torch.arange(L)
    padded, away = F.pad(tokens, (0, L - n)), beyond(sampler, n)
    x = padded.repeat(num, 1).to(process.noise.probs.device)
    if n < L and away is None:
        x = yield Draw(sampler, num, Run(generator, (site < n, padded), progress=progress))
    alive = uniform(x.shape, generator, x.device) < sampler.schedule.survival(times)
    noise = process.noise
    x = torch.where(alive, x, noise.mask if sampler.plan.options.get("mark_noise") else noise.sample(x.shape, generator))
    rules = [(site < n, only_end(codec))]
    x = yield Draw(sampler, None, Run(generator, start=(x, t), absent=away, rules=rules, on_step=on_step, progress=progress))
    return [codec.decode(row[:n]) for row in x.tolist()]
