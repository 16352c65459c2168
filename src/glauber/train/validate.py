"""What a run looks at now and then: bounds on held-out rows, a few samples, and whether the network has learned anything."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glauber.conditional import CausalConditional
from glauber.method.ggm import causal_process
from glauber.model import Model
from glauber.sampler import evaluating
from glauber.train.parallel import Shared
from glauber.train.samples import quick_sampler, write_samples
from glauber.train.trainer import Rows, Trainer

HARDLY = 0.95
"""A figure above this share of what the tokens' frequencies alone come to is said to be hardly better."""


def validate(
    trainer: Trainer, model: Model, shown: Model, valid: Rows, counts: Tensor, out: Path, say: Callable[[str], None]
) -> dict[str, float]:
    """Figures of held-out rows, in bits per token: the bound of the averaged network on the chain that it is trained for, that
    of causal sampling if it learns that, and what the tokens' frequencies alone come to, which it must beat. And samples, by
    the chain of `shown`. No clock runs meanwhile."""
    preview(trainer, shown, out)
    method = model.method
    if len(valid) == 0 or not method.can.bounded:
        return {}
    process, causal = model.process, trainer.spec.causal_every > 0 and method.can.causal_rows
    rows = torch.from_numpy(valid[np.arange(min(trainer.spec.valid_rows, len(valid)))]).to(trainer.device)
    generator = torch.Generator().manual_seed(0)
    with evaluating(model.network):
        nats = {"": method.bound(shared(trainer, model), process, rows, 8, generator).mean().item()}
        if causal:  # then the model will sample so unless told otherwise
            own = causal_process(process).to(trainer.device)
            nats["_causal"] = method.bound(model.network, own, rows, draws=1).mean().item()
    bits = {f"valid_bits_per_token{how}": value / (np.log(2) * process.length) for how, value in nats.items()}
    unigram = unigram_bits(counts, rows)
    advice = "--recipe small, which learns causally, too, and sooner" if method.can.causal_rows and not causal else ""
    if (words := nothing_learned(min(bits.values()), unigram, process.vocab, advice)) is not None:
        say(f"step {trainer.step:,}: {words}")
    return bits | {"unigram_bits_per_token": unigram}


def unigram_bits(counts: Tensor, rows: Tensor) -> float:
    """Bits per token of (N, L) rows by how often each token occurs in the training data, one added to each count."""
    law = counts.double() + 1
    return -(law / law.sum()).log2().to(rows.device)[rows].mean().item()


def nothing_learned(bits: float, unigram: float, vocab: int, advice: str = "") -> str | None:
    """What is wrong, and what to try, where a network knows hardly more of a token than one that looks at no other token."""
    uniform = math.log2(vocab)
    if not bits > HARDLY * min(unigram, uniform):
        return None
    alone = f"their frequencies alone ({unigram:.2f})" if unigram < uniform else f"the uniform law ({uniform:.2f})"
    tries = ", ".join(["more steps", "another train.lr", *([advice] if advice else [])])
    return f"{bits:.2f} bits a held-out token, hardly better than {alone}: it looks at no other token yet; try {tries}"


def shared(trainer: Trainer, model: Model) -> Any:
    """The network, asked by all processes together, but for one with a cache or no chain, which each asks alone."""
    alone = not model.sampler().plan.by_chain or isinstance(model.conditional, CausalConditional)
    return model.network if alone or trainer.world.size == 1 else Shared(model.network, trainer.world)


def preview(trainer: Trainer, model: Model, out: Path) -> None:
    """A few samples, for people to look at, always from the same random numbers."""
    network = shared(trainer, model)
    if not trainer.spec.samples or (trainer.sharded and network is model.network):  # no process could do that alone
        return
    if (sampler := quick_sampler(model)) is not None:
        sampler.answers = network
        tokens = sampler.run(trainer.spec.samples, generator=torch.Generator().manual_seed(0))
        first = trainer.world.first
        trainer.world.together(lambda: write_samples(model, tokens, out / "samples", trainer.step) if first else None)
