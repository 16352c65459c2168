"""The script that makes the figures of the recipe small."""

import hashlib
import json
import sys

import pytest


@pytest.fixture
def small(experiment):
    return experiment("small")


def test_figures_are_of_the_first_megabyte_cut_behind_a_whole_character(small):
    text = "\ufeff" + "é" * 600_000
    train, held_out, left_out = small.parts(text.encode())
    assert train == "é" * 449_998
    assert held_out == "é" * 50_000  # 3 bytes of mark, 499,998 characters of two, and half of one
    assert not left_out


def test_a_held_out_character_that_is_not_trained_on_is_left_out_and_counted(small):
    assert small.parts(b"abcabcabcabcabcabc7a") == ("abcabcabcabcabcabc", "a", 1)
    with pytest.raises(UnicodeDecodeError):
        small.parts(b"abc\xffabc")


@pytest.mark.slow
def test_the_figures_name_the_text_and_no_folder_of_this_machine(small, tmp_path, monkeypatch):
    text = tmp_path / "a.txt"
    text.write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    words = ["small.py", text, "--out", tmp_path / "out", "--length", 32, "--set", "train.steps=2", "--set", "train.samples=0"]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    small.main()
    kept = (tmp_path / "out" / "small.json").read_text()
    assert str(tmp_path) not in kept
    figures = json.loads(kept)
    assert figures["text"] == {
        "name": "a.txt",
        "sha256": hashlib.sha256(text.read_bytes()).hexdigest(),
        "bytes": 10_200,
        "first_bytes_taken": 10_200,
        "characters_to_train_on": 9_180,
        "characters_held_out": 1_020,
        "characters_left_out": 0,
    }
    assert figures["causal"]["bounds"]["heat-bath"]["exact"]
    assert len(figures["samples"]) == 16
    assert figures["words_in_training_text"]["held_out"] == 1
