"""What a run says of itself at a validation: figures beside what they must beat, and samples by the chain of its model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import glauber
from glauber.data import open_shards, prepare
from glauber.method import METHODS
from glauber.train import recipe
from glauber.train.data import shards_data
from glauber.train.overrides import apply_settings
from glauber.train.report import read_log
from glauber.train.run import run
from glauber.train.validate import nothing_learned, unigram_bits

READS = {"network.causal": True, "train.causal_every": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 16, valid=0.2, progress=False)
    return folder / "shards"


def trained(data: Path, out: Path, **changes: object) -> list[str]:
    """What a run says after the first line of its loop."""
    said: list[str] = []
    plan = apply_settings(recipe("tiny"), {"train.evaluate_every": 1000, "train.lr": 5e-3} | changes)
    run(plan, shards_data(data), out, say=said.append)
    return [line for line in said if line.startswith("step ")]


def test_a_network_that_knows_hardly_more_than_how_often_each_token_occurs_is_said_to(data, tmp_path):
    (words,) = trained(data, tmp_path / "run", **{"train.steps": 2, "train.lr": 0.0})
    shards = open_shards(data)
    law = np.bincount(shards.rows("train")[:].ravel(), minlength=shards.vocab) + 1
    unigram = -np.log2(law / law.sum())[shards.rows("valid")[:64]].mean()
    assert read_log(tmp_path / "run" / "log.jsonl")[-1]["unigram_bits_per_token"] == pytest.approx(unigram)
    assert words.startswith("step 2: ")
    assert f"hardly better than their frequencies alone ({unigram:.2f})" in words
    assert "more steps, another train.lr, --recipe small" in words
    (words,) = trained(data, tmp_path / "causal", **{"train.steps": 2, "train.lr": 0.0}, **READS)
    assert "another train.lr" in words
    assert "--recipe" not in words


def test_one_that_knows_more_is_silent(data, tmp_path):
    assert trained(data, tmp_path / "run", **{"train.steps": 120}, **READS) == []
    last = read_log(tmp_path / "run" / "log.jsonl")[-1]
    assert last["valid_bits_per_token_causal"] < last["unigram_bits_per_token"]


@pytest.mark.parametrize("method", ["ggm", "mdlm"])
def test_the_logged_bound_is_that_of_the_averaged_network_which_is_saved(method, data, tmp_path):
    trained(data, tmp_path / "run", **{"method": method, "train.steps": 30})
    model, rows = glauber.load(tmp_path / "run"), torch.from_numpy(open_shards(data).rows("valid")[:64].astype(np.int64))
    nats = METHODS[method].bound(model.network, model.process, rows, 8, torch.Generator().manual_seed(0)).mean().item()
    logged = read_log(tmp_path / "run" / "log.jsonl")[-1]["valid_bits_per_token"]
    assert logged == pytest.approx(nats / (16 * np.log(2)), rel=1e-5)


def test_the_lower_of_the_uniform_law_and_the_unigram_is_what_must_be_beaten():
    rows = torch.tensor([[3, 3, 3, 3]])
    unigram = unigram_bits(torch.tensor([97, 0, 0, 0]), rows)  # a token that the training data does not have
    assert unigram == pytest.approx(np.log2(101))
    assert "the uniform law (2.00)" in (nothing_learned(1.91, unigram, 4) or "")
    assert nothing_learned(1.89, unigram, 4) is None
    assert nothing_learned(float("nan"), unigram, 4) is None  # which is told elsewhere


def test_a_network_that_reads_is_shown_reading(data, tmp_path):
    trained(data, tmp_path / "run", **{"train.steps": 60}, **READS)
    (file,) = (tmp_path / "run" / "samples").iterdir()
    model = glauber.load(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "model" / "config.json").read_text())["schedule"]["steps"] == 16  # one sweep
    assert file.read_text() == "\n----\n".join(model.sample(4, seed=0)) + "\n"
