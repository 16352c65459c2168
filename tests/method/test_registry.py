"""A new method is one file that is registered: it then trains, samples, fills, is scored and stands in the paper's table."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import toy_method
from refusals import refused

from glauber import load
from glauber.bench import bench_table1
from glauber.method import METHODS, find_method, register
from glauber.recipe import TrainSpec
from glauber.train import recipe
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.run import run


@pytest.fixture
def toy(monkeypatch):
    for name in METHODS:
        monkeypatch.setitem(METHODS, name, METHODS[name])
    monkeypatch.delitem(METHODS, "half-masked", raising=False)
    register(toy_method.HalfMasked())
    yield METHODS["half-masked"]
    del METHODS["half-masked"]


def alike(number: int, seed: int) -> torch.Tensor:
    """Rows of eight tokens, all the same."""
    return torch.randint(6, (number, 1), generator=torch.Generator().manual_seed(seed)).expand(-1, 8).contiguous()


def test_a_method_of_less_than_sixty_lines_trains_samples_fills_and_is_scored(toy, tmp_path):
    assert len(Path(toy_method.__file__).read_text().splitlines()) < 60
    data = Data(InMemory(alike(500, 0)), InMemory(alike(64, 1)), 6, 8, torch.ones(6), None, "rows of one token")
    spec = TrainSpec(steps=150, batch=64, lr=1e-2, warmup=10, grad_clip=1.0, ema_decay=0.9, evaluate_every=150, samples=2)
    run(replace(recipe("tiny"), method=toy.name, train=spec), data, tmp_path / "run", say=lambda words: None)
    model = load(tmp_path / "run")
    assert model.method is toy
    drawn = model.sample_tokens(200, seed=0, sweeps=1)
    assert (drawn[:, 1:] == drawn[:, :1]).double().mean() > 0.9  # one in six by chance
    filled = model.infill_tokens(torch.full((8,), 3), torch.arange(8) == 5, 50, seed=0)
    assert (filled[:, 5] == 3).double().mean() > 0.95
    assert model.score(alike(64, 2), sweeps=1, draws=8)["bits_per_token"] < 2.0  # of 2.58; it never learned a site given none


def test_it_stands_in_the_paper_s_table_by_being_registered(toy, tmp_path):
    table = bench_table1(tmp_path / "table", methods=[toy.name], seconds=0.5, number=24, tiny=True)
    (row, real) = table["rows"]
    assert (row["method"], row["calls"], real["method"]) == (toy.name, 8, "real")
    assert row["bits_per_char"] > 0
    assert row["judge_ppl"] > 1


def test_a_name_that_is_taken_or_unknown_is_refused(toy):
    with refused("there is a method 'half-masked' already"):
        register(toy_method.HalfMasked())
    with refused("method is one of ggm, .*half-masked, not 'gmm'"):
        find_method("gmm")
