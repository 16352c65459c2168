"""The command `score`, run as a user runs it."""

import json

import pytest
from program import STORY, assert_refused, run

import glauber


def test_a_score_is_the_same_for_a_text_and_for_what_prepare_makes_of_it(texts, tmp_path):
    """The file's last window is shorter than L, and prepare drops it; so it is left out of the comparison."""
    (tmp_path / "story.txt").write_text(STORY)
    loaded = glauber.load(texts)
    loaded.codec.tokenizer.save(str(tmp_path / "tokenizer.json"))
    data = tmp_path / "data"
    made = run("prepare", tmp_path / "story.txt", "--out", data, "--tokenizer", tmp_path / "tokenizer.json", "--length", 16)
    assert made.returncode == 0, made.stderr
    rows = len(loaded.codec.encode(STORY)) // 16
    train = rows - json.loads((data / "header.json").read_text())["splits"]["valid"][0]["rows"]
    one, other = (
        json.loads(run("score", texts, *what, "--rows", train, "--sweeps", 1, "--order", "left-to-right", "--json").stdout)
        for what in ((data, "--split", "train"), ("--text", tmp_path / "story.txt"))
    )
    assert one.pop("seconds") > 0
    assert other.pop("seconds") > 0
    assert one == other
    assert one["bounds"]["reversal"]["bits_per_token"] == pytest.approx(one["bounds"]["heat-bath"]["bits_per_token"])
    assert (one["rows"], one["tokens"], one["calls"]) == (train, train * 16, train * 8)
    whole = run("score", texts, "--text", tmp_path / "story.txt", columns=50)
    assert f"{len(loaded.codec.encode(STORY)) + 1:,} tokens" in whole.stdout  # and the end of the text
    assert_refused(run("score", texts, data, "--split", "test"), "there is no split")
    assert_refused(run("score", texts, tmp_path), "no prepared data")
    assert_refused(run("score", texts), "say what to score")
    assert_refused(run("score", texts, "--text", tmp_path / "absent.txt"), "absent.txt")


def test_a_score_of_other_data_than_the_models_is_refused(texts, tmp_path):
    (tmp_path / "story.txt").write_text(STORY)
    made = run("prepare", tmp_path / "story.txt", "--out", tmp_path / "data", "--length", 16)
    assert made.returncode == 0, made.stderr
    assert_refused(run("score", texts, tmp_path / "data"), "prepare the text as the model's data was")
