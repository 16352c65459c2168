"""Scores of text by a judge, a causal language model: -log P of each text, and its perplexities.

A text of L tokens x_1..x_L has L - 1 terms, since nothing comes before the first:

    NLL(x) = -Σ_{l≥2} log P(x_l | x_<l)
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glauber.evaluate.pretrained import identity, load_pretrained
from glauber.evaluate.score_cache import ScoreCache, TextScore, score_key
from glauber.runtime.progress import progress_bar

BATCH = {"cpu": 2**9, "cuda": 2**14}
"""Tokens that go through the judge at once, padding included; a CPU is no faster with more."""


class Judge:
    """A causal language model of transformers, in float32.

    Args:
        name: a folder, a .gguf file, or a hub id.
        progress: say in a terminal that it is being loaded, which can take half a minute.
    """

    def __init__(self, name: str, progress: bool = False):
        from tqdm import tqdm

        self.name, self.identity = Path(name).name if Path(name).exists() else name, identity(name)
        with tqdm(bar_format=f"loading the judge {self.name}", disable=None if progress else True, leave=False):
            self.model, self.tokenizer = load_pretrained(name)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self.batch = BATCH[self.model.device.type]
        self.context = getattr(self.model.config, "max_position_embeddings", None) or 2**62
        opening = self.tokenizer("a").input_ids
        has_start = len(opening) > 1 and opening[0] == self.tokenizer.bos_token_id
        self.start = opening[:1] if has_start else []  # what the judge wants before a text; it is no token of the text

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The judge's tokens of each text, without any that it would add."""
        return [self._encode(text)[0] for text in texts]

    def scores(
        self, texts: Sequence[str], features: bool = False, cache: ScoreCache | None = None, progress: bool = False
    ) -> list[TextScore]:
        """One for each text. What the cache has is taken from there; what is new is added batch by batch."""
        cache = cache or ScoreCache(None)
        encoded = [self._encode(text) for text in texts]
        for k, (ids, _) in enumerate(encoded):
            if len(ids) < 2:
                raise ValueError(f"text {k + 1} has fewer than two tokens, which cannot be scored; leave it out: {texts[k]!r}")
        keys = [score_key(self.identity, text) for text in texts]
        # longest first: a lack of memory shows at once. The batches are the same whatever is known, and so are the figures
        order = sorted(range(len(texts)), key=lambda k: (-len(encoded[k][0]), keys[k]))
        done: list[TextScore] = []
        total, label = sum(len(ids) for ids, _ in encoded), f"judge {self.name}"
        with progress_bar(progress, total, label, " tokens", unit_scale=True, leave=False) as bar:
            for batch in _batches([(k, min(len(encoded[k][0]), self.context)) for k in order], self.batch):
                if not all(cache.has(keys[k], features) for k in batch):
                    found = self._score([encoded[k] for k in batch], features)
                    cache.add({keys[k]: score for k, score in zip(batch, found, strict=True)})
                bar.update(sum(len(encoded[k][0]) for k in batch))
                done += [cache.known[keys[k]] for k in batch]
                bar.set_postfix_str(f"perplexity {perplexities(done)['perplexity']:.1f} so far")
        return [cache.known[key] for key in keys]

    def _encode(self, text: str) -> tuple[list[int], int]:
        """The tokens, and how many characters come after the first of them."""
        made = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return made.input_ids, len(text) - made.offset_mapping[0][1] if made.input_ids else 0

    @torch.no_grad()
    def _score(self, encoded: list[tuple[list[int], int]], features: bool) -> list[TextScore]:
        """Of the texts of a batch; a text longer than the judge's context is scored in windows that overlap by half."""
        nll, states = [0.0] * len(encoded), [np.zeros(0)] * len(encoded)
        cut = [
            (k, window) for k, (ids, _) in enumerate(encoded) for window in windows(len(ids), self.context - len(self.start))
        ]
        size = max(1, self.batch // max(end - begin for _, (begin, end, _) in cut))
        for some in (cut[at : at + size] for at in range(0, len(cut), size)):
            rows = [torch.tensor(self.start + encoded[k][0][begin:end]) for k, (begin, end, _) in some]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.model.device)
            sizes = torch.tensor([len(row) for row in rows])
            mask = (torch.arange(ids.shape[1]) < sizes[:, None]).long().to(ids.device)
            out = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=features, use_cache=False)
            for row, (k, (begin, _, first)) in enumerate(some):
                skip = len(self.start) + first - begin  # where the window's own tokens begin
                nll[k] += _nll(out.logits[row, : len(rows[row])], ids[row, : len(rows[row])], skip)
                if features:
                    states[k] = out.hidden_states[-1][row, len(rows[row]) - 1].cpu().numpy()
        return [
            TextScore(nll[k], len(ids), characters, states[k] if features else None)
            for k, (ids, characters) in enumerate(encoded)
        ]


def _nll(logits: Tensor, ids: Tensor, skip: int) -> float:
    """-Σ log P(x_l | x_<l) for l ≥ skip, counted from 0."""
    return F.cross_entropy(logits[skip - 1 : -1].float(), ids[skip:], reduction="none").double().sum().item()


def perplexities(scores: Sequence[TextScore]) -> dict[str, float]:
    """The paper's, mean over texts of exp(NLL / L); the usual, exp(Σ NLL / Σ (L - 1)); and bits per character."""
    total = math.fsum(score.nll for score in scores)
    return {
        "perplexity_paper": math.fsum(math.exp(score.nll / score.tokens) for score in scores) / len(scores),
        "perplexity": math.exp(total / sum(score.tokens - 1 for score in scores)),
        "bits_per_character": total / math.log(2) / max(1, sum(score.characters for score in scores)),
    }


def windows(length: int, context: int) -> Iterator[tuple[int, int, int]]:
    """Windows begin..end of at most `context` tokens, and the first token of each that no earlier window has scored."""
    begin, first = 0, 1
    while True:
        end = min(begin + context, length)
        yield begin, end, first
        if end == length:
            return
        begin, first = begin + max(1, context // 2), end


def _batches(sized: Sequence[tuple[int, int]], most: int) -> Iterator[list[int]]:
    """Numbers of texts, given with their lengths, the longest first: about `most` tokens at a time."""
    batch: list[int] = []
    width = 0
    for k, length in sized:
        if batch and (len(batch) + 1) * width > most:
            yield batch
            batch = []
        if not batch:
            width = length
        batch.append(k)
    if batch:
        yield batch
