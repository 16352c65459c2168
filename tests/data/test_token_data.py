"""Tokens that stand for no text and no image go through every command: prepare, info, sample, score, evaluate."""

import json
import math
import subprocess
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from refusals import refused

import glauber
from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.cli.score_windows import windows_of_tokens
from glauber.codec import CharCodec
from glauber.data import open_shards
from glauber.evaluate.tokens import TokenRows, evaluate_rows, read_rows

V, L = 4, 8


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*words, cwd=cwd)


def told(*words: object, cwd: Path) -> dict:
    done = run(*words, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x.npy, rows of tokens; data, prepared from them; model, without a codec; samples of it."""
    folder = tmp_path_factory.mktemp("tokens")
    np.save(folder / "x.npy", np.random.default_rng(0).integers(V, size=(40, L)).astype(np.uint8))
    made = run("prepare", "x.npy", "--vocab", V, "--out", "data", "--valid", 0.25, cwd=folder)
    assert made.returncode == 0, made.stderr
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(V, L, width=8, layers=1, heads=2))
    Model(network, Process(Schedule.round_robin(L, 2 * L, "linear"), NoiseLaw.uniform(V))).save(folder / "model")
    assert run("sample", "model", "-n", 6, "--seed", 0, "--out", "samples", cwd=folder).returncode == 0
    return folder


def test_info_tells_of_prepared_tokens_and_of_those_in_an_array(here):
    facts = told("info", "data", cwd=here)
    assert (facts["vocab"], facts["length"], facts["rows"]) == (V, L, {"train": 30, "valid": 10})
    assert (facts["hash"], facts["codec"]) == (open_shards(here / "data").hash, None)
    words = run("info", "data", cwd=here).stdout
    assert "30 to train on, 10 to validate on" in words
    assert "x.npy: 40 documents, 320 tokens" in words
    facts = told("info", "x.npy", cwd=here)
    assert facts == {"shape": [40, L], "type": "uint8", "different": V, "least": 0, "largest": V - 1}
    assert "40 × 8 of type uint8" in run("info", "x.npy", cwd=here).stdout
    assert f"--vocab is at least {V}" in run("info", "x.npy", cwd=here).stdout


def test_a_score_of_an_array_is_that_of_the_same_rows_prepared_and_that_of_python(here):
    rows = open_shards(here / "data").rows("valid")[:]
    np.save(here / "valid.npy", rows.astype(np.int32))
    prepared, array = (told("score", "model", name, cwd=here) for name in ("data", "valid.npy"))
    assert prepared | {"seconds": 0} == array | {"seconds": 0}
    assert "characters" not in array
    expected = glauber.load(here / "model").score(rows)
    assert array["bounds"]["reversal"]["bits_per_token"] == expected["bits_per_token"]
    assert "10 windows of 8 tokens: 80 tokens" in run("score", "model", "valid.npy", cwd=here).stdout


def test_a_single_row_of_tokens_is_scored_in_windows_and_nothing_is_dropped(here):
    np.save(here / "stream.npy", np.arange(21) % V)
    assert [told("score", "model", "stream.npy", "--rows", k, cwd=here)["tokens"] for k in (1, 2, 3, 9)] == [8, 16, 21, 21]
    for wrong, about in ((np.zeros(9), "whole numbers"), (np.full((2, L), V), "0..3; these span 4..4")):
        np.save(here / "wrong.npy", wrong)
        done = run("score", "model", "wrong.npy", cwd=here)
        assert done.returncode == 2
        assert about in done.stderr
    (here / "story.txt").write_text("it was")
    assert "score a text by --text story.txt" in run("score", "model", "story.txt", cwd=here).stderr
    assert "there is no file absent.npy" in run("score", "model", "absent.npy", cwd=here).stderr


def test_samples_of_tokens_are_evaluated_beside_real_ones(here):
    report = told("evaluate", "samples", "--reference", "data", "--train", "data", cwd=here)
    rows = json.loads((here / "samples" / "samples.json").read_text())["tokens"]
    real = open_shards(here / "data").rows("valid")[:].tolist()
    assert report["samples"]["source"] == "samples"
    assert report["samples"]["number"] == report["reference"]["number"] == 6
    counts = np.bincount(np.concatenate(rows), minlength=V) / (6 * L)
    assert report["samples"]["entropy_pooled"] == pytest.approx(-sum(p * math.log(p) for p in counts if p))
    assert report["samples"]["overlap"]["tokens"]["max"] <= L
    assert report["reference"]["tokens"] == L == len(real[0])
    table = run("evaluate", "samples", "--reference", "x.npy", cwd=here).stdout
    assert "entropy of all rows together, nats" in table
    assert max(map(len, table.splitlines())) <= 80


def test_a_sample_that_was_learned_by_heart_shares_all_of_it_with_the_training_data():
    known = TokenRows("train", np.array([[0, 1, 2, 3, 0, 0], [3, 3, 3, 1, 0, 2]], np.uint8))
    samples = TokenRows("samples", np.array([[3, 3, 3, 1, 0, 2], [0, 0, 3, 3, 3, 3]]))  # rows do not run on into each other
    report = evaluate_rows(samples, TokenRows("real", np.array([[1] * 6 + [2] * 6 + [3] * 5])), known)
    assert report["samples"]["overlap"]["tokens"]["all"] == [6, 3]
    assert report["reference"]["overlap"]["tokens"]["all"] == [1, 1]
    assert report["reference"]["entropy"] == 0
    assert report["reference"]["entropy_pooled"] == pytest.approx(math.log(2))
    assert report["samples"]["distinct"][0] == 4 / 12
    half = evaluate_rows(samples, TokenRows("real", known.rows[:1]))  # where there is less of one, n-grams are of less of both
    assert half["samples"]["distinct"][0] == half["reference"]["distinct"][0] == 4 / 6
    with refused("only one row"):
        evaluate_rows(TokenRows("one", np.array([[0, 1]])), known)


def test_a_sparse_giant_of_an_array_is_not_read_into_memory(tmp_path):
    """32 GB of zeros that take no room on the disk."""
    giant = np.lib.format.open_memmap(tmp_path / "giant.npy", "w+", np.uint16, (2**28, 64))
    del giant
    real = read_rows(tmp_path / "giant.npy")
    report = evaluate_rows(TokenRows("samples", np.eye(64, dtype=np.int64)[:3]), real)
    assert report["reference"]["number"] == 3
    with refused("more than 67,108,864 tokens"):
        evaluate_rows(real, real)
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(V, 64, width=8, layers=1, heads=2))
    model = Model(network, Process(Schedule.round_robin(64, 64, 0.0), NoiseLaw.uniform(V)))
    with refused("take some of them with --rows"):
        windows_of_tokens(model, tmp_path / "giant.npy", None)
    assert len(windows_of_tokens(model, tmp_path / "giant.npy", 3).tokens) == 3


def test_tokens_beside_text_ask_what_they_stand_for_and_judges_read_no_tokens(here):
    (here / "real.txt").write_text("it was the best of times\f" * 20)
    for words, about in (
        (("samples", "--reference", "real.txt"), 'has no "texts"'),
        (("x.npy", "--reference", "real.txt"), "say what they stand for with --tokenizer"),
        (("x.npy", "--reference", "data", "--judge", "novels"), "judges read text"),
        (("x.npy",), "name some with --reference"),
    ):
        done = run("evaluate", *words, cwd=here)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert about in done.stderr


def test_what_stands_for_text_is_no_bare_tokens(here, tmp_path):
    (tmp_path / "a.txt").write_text("abc" * 50)
    assert run("prepare", "a.txt", "--out", "shards", "--length", L, cwd=tmp_path).returncode == 0
    torch.manual_seed(0)
    codec = CharCodec("abc")
    network = Transformer(TransformerConfig(V, L, width=8, layers=1, heads=2))
    Model(network, Process(Schedule.round_robin(L, L, 0.0), NoiseLaw.uniform(V)), codec).save(tmp_path / "model")
    assert run("sample", "model", "--out", "samples", cwd=tmp_path).returncode == 0
    assert read_rows(tmp_path / "shards") is read_rows(tmp_path / "samples") is read_rows(tmp_path / "a.txt") is None
    assert np.array_equal(read_rows(here / "data").rows, open_shards(here / "data").rows("valid")[:])
