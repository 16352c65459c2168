"""How varied a set of texts is, and how much of it a training text knows: words, word triples, entropy."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from glauber.runtime.progress import progress_bar

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # letters, with apostrophes between them
PIECE = 2**20
"""Characters that are split into words at once."""
BASE = np.uint64(0x9E3779B97F4A7C15)
"""A triple of words has the key (a·BASE + b)·BASE + c mod 2⁶⁴; two different ones share it with a chance of about 2⁻⁶⁴."""


def words(text: str) -> list[str]:
    """The words of a text in small letters."""
    return WORD.findall(text.lower())


def entropy(items: Sequence[Hashable]) -> float:
    """Of the frequencies of the items, in nats."""
    shares = np.array(list(Counter(items).values())) / max(1, len(items))
    return float(-(shares * np.log(shares)).sum())


def mean_entropy(samples: Sequence[Sequence[Hashable]]) -> float:
    """Mean over samples of the entropy of the tokens within one: low when a sample repeats itself."""
    return math.fsum(map(entropy, samples)) / len(samples)


def pooled_entropy(samples: Sequence[Sequence[Hashable]]) -> float:
    """Entropy of the tokens of all samples together: low when all samples say the same."""
    return entropy([token for sample in samples for token in sample])


def distinct(samples: Sequence[Sequence[Hashable]], n: int) -> float | None:
    """How many different n-grams there are among all n-grams of all samples; None where there is no n-gram."""
    grams = [gram for sample in samples for gram in zip(*(sample[k:] for k in range(n)), strict=False)]
    return len(set(grams)) / len(grams) if grams else None


class Known:
    """The words and word triples of a training text.

    Attributes:
        documents: the number of each word of each document, counted from 1; 0 stands for a word that is not there.
    """

    def __init__(self, texts: Sequence[str], progress: bool = False):
        self.numbers: dict[str, int] = {}
        self.documents: list[np.ndarray] = []
        total = sum(map(len, texts))
        with progress_bar(progress, total, "training words", "B", unit_scale=True, leave=False) as bar:
            for text in texts:
                parts = [np.zeros(0, np.uint32)]
                for piece in pieces(text):
                    found = words(piece)
                    for word in set(found) - self.numbers.keys():
                        self.numbers[word] = len(self.numbers) + 1
                    parts.append(np.fromiter(map(self.numbers.__getitem__, found), np.uint32, len(found)))
                    bar.update(len(piece))
                self.documents.append(np.concatenate(parts))
        keys = [np.unique(triple_keys(document)) for document in self.documents]
        self._triples = np.unique(np.concatenate([np.zeros(0, np.uint64), *keys]))

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the text's words."""
        return np.array([self.numbers.get(word, 0) for word in words(text)], np.uint32)

    def letters_share(self, texts: Sequence[str]) -> float | None:
        """Share of the letters of the texts that are in words of the training text."""
        found = [word for text in texts for word in words(text)]
        letters = sum(map(len, found))
        return sum(len(word) for word in found if word in self.numbers) / letters if letters else None

    def triples_share(self, texts: Sequence[str]) -> float | None:
        """Share of the texts' triples of neighbouring words that the training text has somewhere."""
        known = total = 0
        for keys in (triple_keys(self.encode(text)) for text in texts):
            places = np.searchsorted(self._triples, keys)  # a word that is not there is 0, which no triple of the training has
            inside = places < len(self._triples)
            known += int((self._triples[places[inside]] == keys[inside]).sum())
            total += len(keys)
        return known / total if total else None


def triple_keys(encoded: np.ndarray) -> np.ndarray:
    """A number for each three neighbouring words: (N,) → (N - 2,)."""
    a, b, c = (encoded[k : max(0, len(encoded) - 2 + k)].astype(np.uint64) for k in range(3))
    keys: np.ndarray = (a * BASE + b) * BASE + c
    return keys


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """A text in pieces of about `size` characters, cut where a word ends."""
    at = 0
    while at < len(text):
        space = re.compile(r"\s").search(text, at + size)
        end = space.start() if space else len(text)
        yield text[at:end]
        at = end
