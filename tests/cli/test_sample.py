"""The command `sample`, run as a user runs it."""

import contextlib
import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from program import assert_refused, model, run

import glauber
from glauber.cli.sample import SampleOptions, draw


def test_samples_are_the_same_for_the_same_seed_and_are_those_of_python(tokens):
    one, two = (run("sample", tokens, "-n", 3, "--seed", 5, "--json") for _ in range(2))
    assert json.loads(one.stdout)["tokens"] == json.loads(two.stdout)["tokens"]
    assert json.loads(one.stdout)["tokens"] == glauber.load(tokens).sample(3, seed=5)
    printed = run("sample", tokens, "-n", 3, "--seed", 5).stdout.splitlines()
    assert [[int(token) for token in line.split()] for line in printed] == json.loads(one.stdout)["tokens"]


def test_an_image_model_writes_one_file_per_sample(images, tmp_path):
    out = tmp_path / "new" / "folder"
    result = run("sample", images, "-n", 3, "--seed", 1, "--out", out, "--sweeps", 3, "--block", 4, "--order", "strided")
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in out.iterdir()) == ["0000.png", "0001.png", "0002.png", "sheet.png"]
    expected = glauber.load(images).sample(3, seed=1, sweeps=3, block=4, order="strided")
    for k, image in enumerate(expected):
        assert np.array_equal(np.asarray(Image.open(out / f"000{k}.png")), np.asarray(image))


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["--top-p", "0"], "top-p must lie in (0, 1]"),
        (["--top-p", "1.5"], "top-p must lie in (0, 1]"),
        (["--temperature", "0"], "temperature must be above 0"),
        (["--temperature", "warm"], "temperature is a number"),
        (["--block", "5"], "block must divide"),
        (["--sweeps", "0"], "sweeps must be at least 1"),
        (["--order", "zigzag"], "unknown order"),
        (["--kernel", "cold"], "kernel is"),
        (["-n", "0"], "at least one sample"),
        (["-n", "2000000000"], "of memory, and there are"),
        (["-n", "10000000000000"], "is beyond 2,147,483,647"),
        (["--top-p", "abc"], "--top-p"),
        (["--seed", "-1"], "a seed is a whole number from 0 to 2^63 - 1, not -1"),
        (["--no-such-option"], "see --help"),
    ],
)
def test_a_mistake_in_sampling_is_one_sentence_and_exit_code_2(tokens, arguments, about):
    assert_refused(run("sample", tokens, *arguments), about)


def test_what_is_set_wins_over_the_models_own_options_and_what_is_not_set_does_not(tmp_path):
    own = model(codec=False)
    own.sampling = {"top_k": 1}
    folder = own.save(tmp_path / "own")
    greedy, free = (json.loads(run("sample", folder, "--seed", 0, "--json", *more).stdout) for more in ([], ["--top-k", 4]))
    assert greedy["tokens"] == own.sample(4, seed=0, top_k=1)
    assert free["tokens"] == own.sample(4, seed=0, top_k=4) != greedy["tokens"]


def test_a_damaged_or_missing_model_is_one_sentence(tokens, images, tmp_path):
    assert_refused(run("sample", tmp_path / "nothing"), "no model")
    assert_refused(run("info", tmp_path), "no config.json")
    assert_refused(run("sample", images), "say where to put them")
    (tmp_path / "config.json").write_bytes((tokens / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes((tokens / "model.safetensors").read_bytes()[:-100])
    assert_refused(run("info", tmp_path), "cut short")


def test_samples_begin_with_the_prompt_and_are_those_of_python(texts, images):
    arguments = ("sample", texts, "--prompt", "it was ", "-n", 2, "--seed", 3)
    expected = glauber.load(texts).sample(2, seed=3, prompt="it was ")
    assert run(*arguments).stdout == "\n----\n".join(expected) + "\n"
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["texts"] == expected
    assert [len(row) for row in found["tokens"]] == [16, 16]
    assert_refused(run("sample", texts, "--prompt", "it was " * 20), "the prompt has")
    assert_refused(run("sample", texts, "--prompt", ""), "the prompt is empty")
    assert_refused(run("sample", images, "--prompt", "it", "--out", "x"), "no text codec")


def test_text_is_not_filled_or_watched_by_a_model_of_images(images, tokens):
    for other in (images, tokens):
        assert_refused(run("infill", other, "--text", "it [[1]]"), "no text codec")
    assert_refused(run("sample", tokens, "--watch"), "only text can be watched")


def read_terminal(terminal: int) -> str:
    """All that is written to it until its other end is closed, which is an error on Linux and an empty read elsewhere."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 12):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_a_chain_is_watched_in_a_terminal_and_without_one_a_sentence_says_so(texts):
    unseen = run("infill", texts, "--text", "it was [[4]]", "--seed", 0, "--watch")
    assert unseen.stderr == "glauber: --watch needs a terminal, and there is none; the chain runs unseen\n"
    for arguments in (["infill", texts, "--text", "it was [[4]]", "--seed", "0"], ["sample", texts, "-n", "1", "--seed", "0"]):
        ours, theirs = os.openpty()
        command = [sys.executable, "-m", "glauber", *map(str, arguments), "--watch"]
        environment = {"PATH": "", "TERM": "xterm", "COLUMNS": "40", "LINES": "10"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
        os.close(theirs)
        shown = read_terminal(ours)
        printed = process.communicate()[0].decode()
        title = [line for line in re.split(r"\x1b\[[0-9]*[AJ]|\r\n", shown) if line.startswith("step ")][-1].split()
        assert title[1] == title[3], "the last picture is of the last step"
        assert shown.endswith("A\x1b[J"), "the last picture is taken away"
        assert printed == run(*arguments).stdout


@pytest.mark.parametrize("order", ["left-to-right", "right-to-left"])
def test_an_order_is_the_direction_of_writing(texts, order):
    """In one sweep each site is drawn once, so the states show where the chain writes."""
    loaded, states = glauber.load(texts), []
    sampler = loaded.sampler(**SampleOptions(sweeps=1, order=order).chosen())
    _, tokens = draw(loaded, sampler, 1, 0, on_step=lambda t, x: states.append((t, x[0].clone())))
    assert [t for t, _ in states] == list(range(16, -1, -1))
    written = [k for (_, before), (_, after) in pairwise(states) for k in (before != after).nonzero().flatten().tolist()]
    assert len(written) > 12, "a token that is drawn may be the noise that was there, but rarely"
    assert written == sorted(set(written), reverse=order == "right-to-left")
    assert all((state[16 - t :] == states[0][1][16 - t :]).all() for t, state in states if order == "left-to-right")
    assert torch.equal(tokens[0], states[-1][1])
    said = run("sample", texts, "-n", 1, "--seed", 0, "--sweeps", 1, "--order", order, "--json")
    assert json.loads(said.stdout)["tokens"] == tokens.tolist()
