"""Solved grids as tokens, by the door of a user's own codec: --codec sudoku_codec:Grid9 beside this file."""

from pathlib import Path
from typing import ClassVar

import numpy as np


class Grid9:
    """A file has a grid a line: its digits, row by row."""

    side: ClassVar[int] = 9

    def __init__(self) -> None:
        self.shape, self.vocab = (self.side, self.side), self.side
        self.names = [str(digit) for digit in range(1, self.side + 1)]

    def encode(self, file: Path) -> np.ndarray:
        """Digits as tokens from 0."""
        lines = [[int(digit) - 1 for digit in line] for line in file.read_text().split()]
        return np.array(lines).reshape(-1, *self.shape)

    def decode(self, tokens: np.ndarray) -> str:
        """A line of text for each row."""
        return "\n".join("".join(self.names[token] for token in row) for row in tokens)


class Grid4(Grid9):
    """The small game."""

    side = 4
