"""Texts as features, by a sentence encoder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from glauber.evaluate.pretrained import load_pretrained
from glauber.runtime.progress import progress_bar


class Encoder:
    """A sentence encoder of transformers: the mean of its last hidden states, over the tokens that it can read."""

    def __init__(self, name: str):
        self.name = Path(name).name if Path(name).exists() else name
        self.model, self.tokenizer = load_pretrained(name, causal=False)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    @torch.no_grad()
    def features(self, texts: Sequence[str], progress: bool = False) -> np.ndarray:
        """(N, D), one text at a time."""
        most = min(self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", 2**62))
        rows = []
        with progress_bar(progress, len(texts), f"features {self.name}", " texts", leave=False) as bar:
            for text in texts:
                ids = self.tokenizer(text, truncation=True, max_length=most, return_tensors="pt").to(self.model.device)
                rows.append(self.model(**ids).last_hidden_state[0].double().mean(0).cpu().numpy())
                bar.update()
        return np.stack(rows)
