"""Codecs as a user writes them: a good one, and one for each way to be bad."""

import itertools
import json
from pathlib import Path

import numpy as np


class Dice:
    """Two throws of three dice; the last of a throw shows at most 4. A file has a row of six digits a line."""

    shape = (2, 3)
    vocab = 6
    names = "123456"

    def __init__(self):
        self.allowed = np.ones((2, 3, 6), bool)
        self.allowed[:, 2, 4:] = False

    def encode(self, file):
        lines = Path(file).read_text().split()
        return np.array([[int(face) - 1 for face in line] for line in lines]).reshape(-1, 2, 3)

    def decode(self, tokens):
        return "".join(self.names[token] for token in tokens.ravel())

    def given(self, file, part):
        row = Path(file).read_text().split()[0]
        free = np.array([face == "?" for face in row]).reshape(2, 3)
        return ~free, np.array([0 if face == "?" else int(face) - 1 for face in row]).reshape(2, 3)

    def save(self, tokens, stem):
        file = stem.with_suffix(".txt")
        file.write_text(self.decode(tokens))
        return [file]


class Quiet:
    """The same, without what is not needed."""

    shape, vocab, names, encode, decode = Dice.shape, Dice.vocab, Dice.names, Dice.encode, Dice.decode


class Split(Dice):
    def encode(self, file):
        return {split: np.array(rows).reshape(-1, 2, 3) for split, rows in json.loads(Path(file).read_text()).items()}


class Flat(Dice):
    def encode(self, file):
        return super().encode(file).reshape(-1, 6)


class Restless(Dice):
    count = itertools.count()

    def encode(self, file):
        return (super().encode(file) + next(self.count)) % 4


class High(Dice):
    def encode(self, file):
        return super().encode(file) + 6


class Real(Dice):
    def encode(self, file):
        return super().encode(file) / 2


class Forbidden(Dice):
    def encode(self, file):
        return np.full((1, 2, 3), 5)


class Ragged(Dice):
    def encode(self, file):
        return [[1, 2], [3]]


class Nameless(Dice):
    names = "12"


class Shapeless(Dice):
    shape = (2, 0)


class Silent(Dice):
    def __init__(self):
        self.allowed = np.zeros((2, 3, 6), bool)


class Wide(Dice):
    def __init__(self):
        self.allowed = np.ones((3, 2, 6), bool)


class Armed(Dice):
    def __init__(self, argument):
        pass


class Empty:
    shape = (2, 3)
