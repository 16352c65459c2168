"""Sudoku puzzles with one solution each, in three classes, and solved grids to train on that are none of theirs.

    python experiments/sudoku_puzzles.py --out sudoku [--box 3] [--grids 20000] [--images 10] [--puzzles 1000] [--seed 0]

sudoku/train.txt and valid.txt have a solved grid a line; sudoku/easy.txt, medium.txt and hard.txt a puzzle (0 for a free cell),
a space and its solution. --box 2 makes the small game of 4×4.

The symmetries: any renaming of the digits, any order of the bands and of the stacks, of the rows in a band and of the columns
in a stack, and turning the grid over at its diagonal. A grid's `invariant` is the same for all its images under these. All
grids of one invariant go to the same side, training or puzzles. So no solution of a puzzle, in any image, is in training. The
small game has two grids up to symmetries, and no such split: no solution of a puzzle is itself in training; an image may be.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sudoku_solver import solutions

from glauber.runtime.files import write
from glauber.runtime.progress import watched

CLASSES = {2: {"easy": (8, 9), "medium": (6, 7), "hard": (4, 5)}, 3: {"easy": (36, 40), "medium": (30, 35), "hard": (23, 27)}}
"""Givens of a puzzle, by the side of a box."""
HELD = 4
"""One invariant in so many is for puzzles and validation."""


def solved(box: int, random: np.random.Generator) -> np.ndarray:
    """A random solved grid (n², n²) of digits from 1."""
    side = box * box
    return next(solutions(np.zeros((side, side), int), box, random))


def image(grid: np.ndarray, box: int, random: np.random.Generator) -> np.ndarray:
    """The grid under a random symmetry."""
    digits = np.r_[0, 1 + random.permutation(box * box)]
    lines = [np.concatenate([band * box + random.permutation(box) for band in random.permutation(box)]) for _ in range(2)]
    moved: np.ndarray = digits[grid][np.ix_(*lines)]
    return moved.T if random.random() < 0.5 else moved


def invariant(grid: np.ndarray, box: int) -> str:
    """A digest that is the same for all images of a solved grid."""
    return hashlib.sha256(repr(sorted(_lines(each, box) for each in (grid, grid.T))).encode()).hexdigest()


def _lines(grid: np.ndarray, box: int) -> list[Any]:
    """Of each band the cycles of the maps of digits between its rows, and of each two bands those between theirs."""
    within = [_cycles(grid[a * box : (a + 1) * box], grid[a * box : (a + 1) * box]) for a in range(box)]
    across = [
        sorted([_cycles(grid[a * box : (a + 1) * box], grid[b * box : (b + 1) * box]) for b in range(box) if b != a])
        for a in range(box)
    ]
    return sorted(zip(within, across, strict=True))


def _cycles(first: np.ndarray, second: np.ndarray) -> list[list[int]]:
    """The lengths of the cycles of the map x → y that two rows make, column by column; unordered over the rows."""
    found = []
    for upper in first:
        for lower in second:
            if (upper == lower).all():
                continue
            to = dict(zip(upper.tolist(), lower.tolist(), strict=True))
            found.append(max(_lengths(to), _lengths({y: x for x, y in to.items()})))
    return sorted(found)


def _lengths(to: dict[int, int]) -> list[int]:
    left, lengths = set(to), []
    while left:
        at, size = left.pop(), 1
        while (at := to[at]) in left:
            left.remove(at)
            size += 1
        lengths.append(size)
    return sorted(lengths)


def is_held(grid: np.ndarray, box: int) -> bool:
    """Whether the grid is for puzzles and validation; all its images then are, but in the small game."""
    digest = invariant(grid, box) if box > 2 else hashlib.sha256(line(grid).encode()).hexdigest()
    return int(digest[:8], 16) % HELD == 0


def puzzle(grid: np.ndarray, box: int, givens: int, random: np.random.Generator) -> np.ndarray | None:
    """The grid with cells set free, in random order, as long as the solution is one; None if too many givens are left."""
    free = grid.copy()
    for cell in random.permutation(grid.size):
        if int((free > 0).sum()) == givens:
            break
        kept = free.flat[cell]
        free.flat[cell] = 0
        found = solutions(free, box)
        next(found)
        if next(found, None) is not None:
            free.flat[cell] = kept
    return free if int((free > 0).sum()) == givens else None


def puzzles(box: int, kind: str, random: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Puzzles of a class and their solutions, all of them held out; the number of givens is drawn."""
    least, most = CLASSES[box][kind]
    while True:
        grid = solved(box, random)
        if not is_held(grid, box):
            continue
        made = puzzle(grid, box, int(random.integers(least, most + 1)), random)
        if made is not None:
            yield made, grid


def line(grid: np.ndarray) -> str:
    """The digits, row by row."""
    return "".join(map(str, grid.ravel()))


def make(out: Path, box: int, grids: int, images: int, number: int, seed: int) -> None:
    """All files. Each training grid comes in several random images."""
    random = np.random.default_rng(seed)
    sides: dict[bool, list[str]] = {False: [], True: []}
    for _ in watched(iter(range(grids)), True, grids, "grids", "grid"):
        grid = solved(box, random)
        held = is_held(grid, box)
        found = [grid] if held else [image(grid, box, random) for _ in range(images)]
        sides[held] += [line(each) for each in found if is_held(each, box) == held]
    if not all(sides.values()):
        raise SystemExit("all grids are on one side; ask for more with --grids")
    out.mkdir(parents=True, exist_ok=True)
    for name, held in (("train", False), ("valid", True)):
        write(out / f"{name}.txt", ("\n".join(sides[held]) + "\n").encode())
    for kind in CLASSES[box]:
        made = puzzles(box, kind, random)
        rows = [next(made) for _ in watched(iter(range(number)), True, number, kind, "puzzle")]
        write(out / f"{kind}.txt", "".join(f"{line(free)} {line(grid)}\n" for free, grid in rows).encode())


def main() -> None:
    """The command line."""
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--box", type=int, default=3, choices=(2, 3))
    for name, default in (("grids", 20_000), ("images", 10), ("puzzles", 1000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    said = parser.parse_args()
    make(said.out, said.box, said.grids, said.images, said.puzzles, said.seed)


if __name__ == "__main__":
    main()
