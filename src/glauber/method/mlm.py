"""Gibbs sampling with a masked language model, the paper's time-independent baseline (appendix F; Wang and Cho, 2019)."""

from typing import Any

import torch
from torch import Tensor

from glauber.process import NoiseLaw, Process, Schedule


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
