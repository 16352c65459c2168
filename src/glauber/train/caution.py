"""What to tell a user about a run before it begins."""

from glauber.data.facts import Doubles, doubles, entropy
from glauber.recipe import TrainSpec
from glauber.train.data import Data

TIMES = 20
"""Data that is seen more often is learned by heart rather than learned from."""
SHARE = 0.01
"""Of the rows to validate on; fewer doubles are not worth a word."""
CHANCE = 20
"""Bits that a row holds beyond those that tell the rows apart: with more, two of them are not the same by chance."""


def cautions(spec: TrainSpec, data: Data) -> list[str]:
    """A sentence for each thing that may go wrong and can be seen now."""
    times = spec.steps * spec.batch / len(data.train) if spec.seconds is None else 0.0
    found = [seen_often(times)] if times > TIMES else []
    if len(data.valid) and (words := overlap(data, doubles(data.train, data.valid))) is not None:
        found.append(words)
    return found


def seen_often(times: float) -> str:
    """Of data that is seen so many times."""
    return (
        f"each row will be seen about {times:,.0f} times, and beyond {TIMES} a network learns rows by heart: "
        "train for less time, give more data, or let train.patience keep the weights with the best bound"
    )


def overlap(data: Data, found: Doubles) -> str | None:
    """What to say of rows that both splits have; nothing where rows are so small that they must coincide."""
    share = found.shared / max(1, len(data.valid))
    roomy = data.length * entropy(data.counts.numpy()) > CHANCE + 2 * max(1, len(data.train) - 1).bit_length()
    if share <= SHARE or not roomy:
        return None
    return (
        f"{found.shared:,} of the rows to validate on are among those to train on, so the bound flatters; "
        "remove the doubles, or keep other data for validation by glauber prepare --valid"
    )
