"""The recipe small, and that `prepare` names a command that works for what it prepared."""

import json
import math
import random
import shlex
from pathlib import Path

import commands
import numpy as np
import pytest
from PIL import Image

from glauber.data import prepare
from glauber.train import recipe
from glauber.train.data import shards_data
from glauber.train.overrides import apply_settings
from glauber.train.report import read_log
from glauber.train.run import run


def suggested(said: str) -> list[str]:
    """The words of the command after "try:", without the program's name."""
    words = shlex.split(said.partition("try: ")[2])
    return words[words.index("train") :]


def trained(said: str, folder: Path) -> dict[str, dict[str, int]]:
    """The recipe of a run of two steps by the command."""
    words = [*suggested(said), "--set=train.steps=2", "--set=train.samples=0"]
    result = commands.glauber(*words, cwd=folder)
    assert result.returncode == 0, result.stderr
    return json.loads((folder / "run" / "config.json").read_text())["recipe"]


@pytest.mark.parametrize(("length", "batch"), [(256, 8), (16, 128), (100, 20), (2000, 2)])
def test_prepare_names_a_command_that_trains_on_texts_with_as_many_tokens_a_step(length, batch, tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    said = commands.glauber("prepare", "a.txt", "--out", "my data", "--length", length, "--valid", "0.1", cwd=tmp_path).stdout
    assert f"train.batch={batch}" in said if length != 256 else "--set" not in said
    if length < 2000:
        plan = trained(said, tmp_path)
        assert (plan["name"], plan["train"]["batch"], plan["network"]["causal"]) == ("small", batch, True)


def test_prepare_names_a_command_that_trains_on_images_and_tells_the_network_their_classes(tmp_path):
    for k, name in enumerate(("dark", "light")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            pixels = np.full((4, 4), 200 * k + number, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    words = ["prepare", "photos", "--out", "data", "--tokenizer", "pixels:4", "--valid", "0.2"]
    assert trained(commands.glauber(*words, "--classes", cwd=tmp_path).stdout, tmp_path)["network"]["classes"] == 2


@pytest.mark.slow
def test_small_soon_reads_random_words_almost_as_well_as_can_be(tmp_path):
    """Words drawn from 32: five bits a word, which is 5 / 5 bits a letter for words of four letters and a blank."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=4)) for _ in range(32)]
    (tmp_path / "a.txt").write_text(" ".join(draw.choices(words, k=40_000)))
    prepare([tmp_path / "a.txt"], tmp_path / "data", "char", 64, 0.1, progress=False)
    plan = apply_settings(recipe("small"), {"train.steps": 300, "train.batch": 32, "train.samples": 0})
    run(plan, shards_data(tmp_path / "data"), tmp_path / "run", say=lambda _: None)
    last = read_log(tmp_path / "run" / "log.jsonl")[-1]
    assert math.log2(32) / 5 <= last["valid_bits_per_token_causal"] < 1.1  # a row begins in the middle of a word
    assert last["unigram_bits_per_token"] > 4
