"""Puzzles have one solution and no image of it in training; what fills them in keeps the givens and knows what is right."""

import itertools

import numpy as np
import pytest
import torch

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig

BOXES = pytest.mark.parametrize("box", [2, 3])


@pytest.fixture
def puzzles(experiment):
    return experiment("sudoku_puzzles")


def is_solved(grid, box):
    side = box * box
    units = [*grid, *grid.T]
    units += [grid[r : r + box, c : c + box].ravel() for r in range(0, side, box) for c in range(0, side, box)]
    return all(sorted(unit) == list(range(1, side + 1)) for unit in units)


def every_small_grid():
    """All solved 4×4 grids, by trying all orders of each row."""
    rows = list(itertools.permutations(range(1, 5)))
    found = []
    for first, second in itertools.product(rows, rows):
        top = np.array([first, second])
        if any(a == b for a, b in zip(first, second, strict=True)) or len(set(top[:, :2].ravel())) < 4:
            continue
        found += [grid for pair in itertools.product(rows, rows) if is_solved(grid := np.vstack([top, pair]), 2)]
    return found


def test_the_solver_finds_all_288_small_grids_and_no_other(experiment):
    found = {grid.tobytes() for grid in experiment("sudoku_solver").solutions(np.zeros((4, 4), int), 2)}
    assert found == {grid.astype(int).tobytes() for grid in every_small_grid()}
    assert len(found) == 288


def test_a_puzzle_that_breaks_a_rule_has_no_solution(experiment):
    puzzle = np.zeros((9, 9), int)
    puzzle[0, 0] = puzzle[1, 1] = 5
    assert next(experiment("sudoku_solver").solutions(puzzle, 3), None) is None


@BOXES
def test_a_random_grid_is_solved_and_so_are_its_images(puzzles, box):
    random = np.random.default_rng(0)
    for _ in range(5):
        grid = puzzles.solved(box, random)
        image = puzzles.image(grid, box, random)
        assert is_solved(grid, box)
        assert is_solved(image, box)
        assert not np.array_equal(grid, image)


@BOXES
def test_all_images_of_a_grid_have_its_invariant(puzzles, box):
    random = np.random.default_rng(1)
    for _ in range(4):
        grid = puzzles.solved(box, random)
        assert {puzzles.invariant(puzzles.image(grid, box, random), box) for _ in range(10)} == {puzzles.invariant(grid, box)}


def test_the_invariant_tells_the_two_small_grids_apart_and_random_large_ones(puzzles):
    assert len({puzzles.invariant(grid, 2) for grid in every_small_grid()}) == 2
    random = np.random.default_rng(2)
    assert len({puzzles.invariant(puzzles.solved(3, random), 3) for _ in range(50)}) == 50


@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
@BOXES
def test_a_puzzle_has_one_solution_as_many_givens_as_its_class_and_is_held_out(puzzles, experiment, box, kind):
    made = puzzles.puzzles(box, kind, np.random.default_rng(3))
    least, most = puzzles.CLASSES[box][kind]
    for _ in range(3):
        free, grid = next(made)
        (only,) = experiment("sudoku_solver").solutions(free, box)
        assert np.array_equal(only, grid)
        assert least <= (free > 0).sum() <= most
        assert puzzles.is_held(grid, box)


def test_no_invariant_is_on_both_sides(puzzles, tmp_path):
    puzzles.make(tmp_path, 3, 40, 3, 4, seed=0)
    read = {file.stem: [line.split()[-1] for line in file.read_text().splitlines()] for file in tmp_path.glob("*.txt")}
    known = {
        name: {puzzles.invariant(np.array(list(map(int, row))).reshape(9, 9), 3) for row in rows} for name, rows in read.items()
    }
    assert set(read) == {"train", "valid", "easy", "medium", "hard"}
    assert [len(read[kind]) for kind in ("easy", "medium", "hard")] == [4, 4, 4]
    assert len(read["train"]) == 3 * len(known["train"])
    assert not known["train"] & set.union(*(known[name] for name in known if name != "train"))


def test_no_small_grid_is_on_both_sides(puzzles, tmp_path):
    puzzles.make(tmp_path, 2, 300, 2, 20, seed=0)
    read = {file.stem: {line.split()[-1] for line in file.read_text().splitlines()} for file in tmp_path.glob("*.txt")}
    assert not read["train"] & set.union(*(read[name] for name in read if name != "train"))


def model(rows):
    """Of the small game, with a network that knows which of these rows (N, 16) can still be: the exact conditional."""
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(4, 16, width=16, layers=1, heads=2, grid=(4, 4)))
    made = Model(network, Process(Schedule.round_robin(16, 32, "linear"), NoiseLaw.uniform(4)))

    class Exact(torch.nn.Module):
        config = network.config

        def forward(self, x, t, survival, sites=None):
            asked = torch.arange(16).expand(len(x), -1) if sites is None else sites
            laws = []
            for k in range(asked.shape[1]):
                seen = x.scatter(1, asked[:, k : k + 1], 4)
                fits = ((seen[:, None] == rows) | (seen[:, None] == 4)).all(-1).double() + 1e-12
                token = rows[:, asked[:, k]].T
                laws.append(torch.zeros(len(x), 4, dtype=torch.float64).scatter_add_(1, token, fits).log())
            return torch.stack(laws, 1)

    made.network.forward = Exact().forward
    return made


@pytest.mark.parametrize("sweeps", [1, 3])
def test_the_most_certain_cell_first_solves_with_an_exact_network_and_keeps_the_givens(experiment, puzzles, sweeps):
    rows = torch.tensor(np.array(every_small_grid())).view(-1, 16) - 1
    made = puzzles.puzzles(2, "medium", np.random.default_rng(4))
    free, whole = (torch.tensor(np.array(part)).view(8, 16) for part in zip(*[next(made) for _ in range(8)], strict=True))
    given, tokens = free > 0, whole - 1
    found = experiment("sudoku_samplers").certain_first(model(rows), given, tokens, sweeps, 1, torch.Generator().manual_seed(0))
    assert torch.equal(found.tokens, tokens)
    assert found.calls == sweeps * int((~given).sum(1).max())


def test_a_sweep_leaves_no_cell_as_noise(experiment):
    rows = torch.tensor(np.array(every_small_grid())).view(-1, 16) - 1
    nothing = torch.zeros(50, 16, dtype=torch.bool)
    found = experiment("sudoku_samplers").certain_first(model(rows), nothing, rows[:50], 2, 4, torch.Generator().manual_seed(0))
    assert int(found.tokens.max()) < 4
    assert found.calls == 8


def test_the_score_counts_free_cells_alone(experiment):
    sudoku = experiment("sudoku")
    tokens = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3]])
    given = torch.tensor([[True, True, False, False], [True, False, False, False]])
    filled = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 0]])
    found = sudoku.score(sudoku.Filled(filled, 7.0), given, tokens)
    assert found == {"solved": 0.5, "cells": 0.8, "calls": 7.0}


def test_ar_has_the_puzzle_before_the_grid(experiment):
    rows = torch.arange(4).repeat(300, 4)
    made = experiment("sudoku").behind_puzzle(rows, 4, 0)
    puzzle, grid = made[:, :16], made[:, 16:]
    assert torch.equal(grid, rows)
    assert bool(((puzzle == 4) | (puzzle == rows)).all())
    assert set((puzzle < 4).sum(1).tolist()) == {4, 5, 6, 7, 8, 9}


def test_the_picture_shows_wrong_cells_orange_and_noise_as_dots(experiment):
    picture = experiment("sudoku_picture")
    tokens, given = torch.arange(16) % 4, torch.zeros(16, dtype=torch.bool)
    wrong = tokens.clone()
    wrong[5] = (wrong[5] + 1) % 4
    seen = {}
    for name, state in (("right", tokens), ("wrong", wrong), ("noise", torch.full((16,), 4))):
        pixels = np.asarray(picture.draw(state, given, tokens, 4)).reshape(-1, 3)
        seen[name] = {colour for colour in (picture.RIGHT, picture.WRONG, picture.NOISE) if (pixels == colour).all(1).any()}
    assert seen == {"right": {picture.RIGHT}, "wrong": {picture.RIGHT, picture.WRONG}, "noise": {picture.NOISE}}
