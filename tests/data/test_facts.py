"""Entropy, doubles and rows that both splits have, against counting by hand."""

import itertools
import math

import numpy as np
import pytest
import torch

from glauber.data import facts
from glauber.data.facts import doubles, entropy
from glauber.train.caution import overlap
from glauber.train.data import Data
from glauber.train.in_memory import InMemory


def test_the_entropy_of_known_laws():
    assert entropy(np.array([1, 1, 2])) == pytest.approx(1.5)
    assert entropy(np.array([7, 0, 0])) == 0
    assert entropy(np.array([0, 0])) == 0
    assert entropy(np.ones(1024)) == pytest.approx(10)


@pytest.mark.parametrize("seed", range(5))
def test_doubles_are_counted_as_by_comparing_every_pair(seed, monkeypatch):
    monkeypatch.setattr(facts, "AT_ONCE", 7)  # in pieces
    draw = np.random.default_rng(seed)
    train, valid = draw.integers(3, size=(40, 3)), draw.integers(3, size=(15, 3))
    copies = sum(any((train[i] == train[j]).all() for j in range(i)) for i in range(len(train)))
    shared = sum(any((row == other).all() for other in train) for row in valid)
    assert doubles(train, valid) == (copies, shared, 40)


def test_nothing_is_the_same_as_nothing():
    assert doubles(np.zeros((0, 3), int), np.zeros((2, 3), int)) == (0, 0, 0)


def test_of_many_rows_some_are_looked_at_evenly_spread(monkeypatch):
    monkeypatch.setattr(facts, "MOST", 10)
    assert doubles(np.arange(1000)[:, None], np.array([[0], [999], [1]])).shared == 2


def some_data(train: list[list[int]], valid: list[list[int]]) -> Data:
    rows = [InMemory(torch.tensor(part)) for part in (train, valid)]
    return Data(*rows, 4, len(train[0]), torch.ones(4), None, "tokens")


def test_an_overlap_is_told_but_not_of_rows_so_short_that_they_must_coincide():
    short = [list(row) for row in itertools.product(range(4), repeat=2)]
    assert overlap(some_data(short, short[:4]), doubles(np.array(short), np.array(short[:4]))) is None
    long = np.random.default_rng(0).integers(4, size=(30, 40)).tolist()
    assert "10 of the rows to validate on" in (
        overlap(some_data(long, long[:10]), doubles(np.array(long), np.array(long[:10]))) or ""
    )
    assert overlap(some_data(long[:20], long[20:]), doubles(np.array(long[:20]), np.array(long[20:]))) is None
    assert math.log2(4) * 40 > 20 + 2 * math.log2(30)  # which is why
