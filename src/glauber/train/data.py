"""What a run trains on."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from glauber.data import load_digits
from glauber.train.in_memory import InMemory
from glauber.train.trainer import Rows


class Data(NamedTuple):
    """What a run trains on."""

    train: Rows
    valid: Rows
    vocab: int
    length: int
    counts: torch.Tensor
    codec: Any
    hash: str
    classes: tuple[str, ...] = ()
    folder: Path | None = None


def digits_data() -> Data:
    """The embedded digits, as the demo cuts them."""
    from glauber.codec import PatchCodec

    digits = load_digits()
    codec = PatchCodec.fit(digits.train, patch=2, vocab=64)
    tokens, held_out = codec.encode(digits.train), codec.encode(digits.held_out)
    counts = tokens.flatten().bincount(minlength=codec.vocab)
    return Data(InMemory(tokens), InMemory(held_out), codec.vocab, tokens.shape[1], counts, codec, "scikit-learn's digits")


def shards_data(folder: Path) -> Data:
    """A folder of token shards."""
    from glauber.data import open_shards

    shards = open_shards(folder)
    shards.verify()
    counts = torch.from_numpy(np.array(shards.counts))
    rows = shards.rows("train"), shards.rows("valid")
    return Data(*rows, shards.vocab, shards.length, counts, shards.codec, shards.hash, shards.classes, folder.resolve())
