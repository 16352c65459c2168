"""Gibbs sampling with a masked language model, the paper's time-independent baseline (appendix F; Wang and Cho, 2019)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glauber.conditional import Conditional, Denoiser, StepLaw, TransformerConfig, check_guidance
from glauber.method.base import BoundOptions, Bounds, Capabilities, Compared, LossOptions
from glauber.method.chain import ChainMethod, chain_plan
from glauber.method.sampling import Request, SamplingPlan, as_noised, one_permutation
from glauber.objective import masked
from glauber.process import NoiseLaw, Process, Schedule, Tokens
from glauber.recipe import Recipe

SWEEPS = (1, 4)
"""In the paper's table; one sweep from noise is hardly a sample of its chain."""


class MaskedLanguageModel(ChainMethod):
    """Trained on masked tokens as BERT is, sampled by the heat bath with keep 1: another corner of the chain."""

    name = "mlm"
    can = Capabilities(fill_gaps=True, orders=True, bounded=False, site_vocabularies=True)

    def resolve(self, recipe: Recipe) -> Recipe:
        """Keep 1, from left to right; a chain from uniform tokens."""
        process = replace(recipe.process, keep=1.0, last_keep=None, order="left-to-right", noise="uniform")
        return replace(recipe, process=process, network=replace(recipe.network, causal=False))

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """See `masked`."""
        return masked(network, process, x0, how.spec is not None, how.check, how.generator)

    def conditional(
        self, network: Any, process: Process, both_ways: bool = False, class_: int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """As in `Method`."""
        check_guidance(class_, guidance)
        return Denoiser(network, class_, guidance)

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """With a number of calls as many whole sweeps, in any order."""
        if request.calls is None:
            return super().plan(own, config, request)
        L = own.length
        if request.calls < L or request.calls % L or request.sweeps is not None or request.block is not None:
            raise ValueError(
                f"Gibbs sampling makes whole sweeps of {L} calls, one a site: calls is a multiple of that, "
                f"not {request.calls}, and sweeps and block are left out"
            )
        order = "left-to-right" if request.order is None else request.order
        sites = order if isinstance(order, str) else as_noised(order)
        schedule = Schedule.round_robin(L, request.calls, 1.0, sites, generator=one_permutation())
        return chain_plan(self, schedule.to(own.order.device), config, request)

    def bounds(self, network: Any, process: Process, x0: Tokens, how: BoundOptions = BoundOptions()) -> Bounds:
        """Refused: there is none."""
        raise ValueError(
            "Gibbs sampling never becomes noise, so a masked language model has no bound; judge its samples instead"
        )

    def plan_bound(
        self, network: Any, process: Process, plan: SamplingPlan, x0: Tensor, how: BoundOptions = BoundOptions()
    ) -> Tensor | None:
        """None is known."""
        return None

    def compared(self, length: int) -> list[Compared]:
        """As in `Method`."""
        calls = [sweeps * length for sweeps in SWEEPS]
        orders = {"random": "random", "best": "left-to-right"}
        return [Compared(number, name, Request(calls=number, order=orders[name])) for number in calls for name in orders]


def gibbs_process(vocab: int, length: int, sweeps: int) -> Process:
    """Start from uniform tokens and visit the sites from left to right, `sweeps` times, each drawn given all others.

    With keep 1 the survival is 1 throughout, so that the chain's every step is a draw from the conditional.
    """
    return Process(Schedule.round_robin(length, sweeps * length, keep=1.0, order="left-to-right"), NoiseLaw.uniform(vocab))


class MaskedLM:
    """A masked language model of transformers as a conditional over its ordinary tokens.

    Args:
        name: a folder, or a hub id.

    Its special tokens are no text and are never drawn; those that it wants around a text are put there.
    """

    def __init__(self, name: str):
        try:
            from transformers import AutoModelForMaskedLM, AutoTokenizer
        except ImportError as error:
            raise ImportError("a masked language model needs transformers: pip install 'glauber[text]'") from error
        try:
            self.model: Any = AutoModelForMaskedLM.from_pretrained(name, use_safetensors=True).eval()  # no pickle
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"no masked language model in {name}: it needs config.json, safetensors and a tokenizer"
            ) from error
        if self.tokenizer.mask_token_id is None:
            raise ValueError(f"the tokenizer in {name} has no mask token, so it is not one of a masked language model")
        mask, special = self.tokenizer.mask_token_id, self.tokenizer.all_special_ids
        around = self.tokenizer(self.tokenizer.mask_token)["input_ids"]
        place = around.index(mask)
        self.before = [token for token in around[:place] if token in special]
        self.after = [token for token in around[place + 1 :] if token in special]
        self.vocab = int(self.model.config.vocab_size)
        self.barred = torch.tensor([*special, *range(len(self.tokenizer), self.vocab)])  # and padding

    @torch.no_grad()
    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        """As `Conditional`; time and survival play no part."""
        x = x.scatter(1, sites, self.tokenizer.mask_token_id)
        left, right = (
            torch.tensor(part, dtype=torch.int64, device=x.device).expand(len(x), -1) for part in (self.before, self.after)
        )
        logits = self.model(input_ids=torch.cat([left, x, right], dim=1)).logits[:, len(self.before) :]
        logits = logits.gather(1, sites[..., None].expand(-1, -1, logits.shape[-1])).double()
        found: Tensor = logits.index_fill(-1, self.barred.to(x.device), -torch.inf).log_softmax(-1)
        return found
