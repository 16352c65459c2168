"""All solutions of a sudoku, by trying the cell that has fewest digits left."""

from collections.abc import Iterator

import numpy as np


def solutions(puzzle: np.ndarray, box: int, random: np.random.Generator | None = None) -> Iterator[np.ndarray]:
    """Every solved grid that the givens of a puzzle (n², n²) allow, 0 being a free cell; in random order if asked for.

    None at all for a puzzle that breaks a rule.
    """
    side = box * box
    cells = [int(digit) for digit in np.asarray(puzzle).ravel()]
    rows, columns, boxes = [0] * side, [0] * side, [0] * side
    units = [(k // side, k % side, k // side // box * box + k % side // box) for k in range(side * side)]
    for k, digit in enumerate(cells):
        if digit:
            r, c, b = units[k]
            if (rows[r] | columns[c] | boxes[b]) >> digit & 1:
                return
            rows[r], columns[c], boxes[b] = rows[r] | 1 << digit, columns[c] | 1 << digit, boxes[b] | 1 << digit
    free = {k for k, digit in enumerate(cells) if not digit}
    every = (1 << side + 1) - 2

    def search() -> Iterator[np.ndarray]:
        if not free:
            yield np.array(cells).reshape(side, side)
            return
        least, left, options = side + 1, -1, 0
        for k in free:
            r, c, b = units[k]
            own = every & ~(rows[r] | columns[c] | boxes[b])
            if (number := own.bit_count()) < least:
                least, left, options = number, k, own
                if number <= 1:
                    break
        digits = [digit for digit in range(1, side + 1) if options >> digit & 1]
        if random is not None:
            random.shuffle(digits)
        r, c, b = units[left]
        free.remove(left)
        for digit in digits:
            bit = 1 << digit
            cells[left], rows[r], columns[c], boxes[b] = digit, rows[r] | bit, columns[c] | bit, boxes[b] | bit
            yield from search()
            cells[left], rows[r], columns[c], boxes[b] = 0, rows[r] & ~bit, columns[c] & ~bit, boxes[b] & ~bit
        free.add(left)

    yield from search()
