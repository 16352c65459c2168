"""Two commands at the same work at once: the second is refused in one sentence, and harms nothing."""

import json
from pathlib import Path

import commands
import numpy as np
import pytest
from PIL import Image
from program import assert_refused, run

from glauber.runtime.locks import locked


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_texts_are_filled_by_one_command_at_a_time(texts, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "it was the [[2]] of times"}\n' * 40)
    words = ("infill", texts, "--texts", tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")
    assert commands.glauber(*words, limit=1000).returncode == 2  # a full disk: some lines are there
    (part,) = tmp_path.glob("*.part")
    before = part.read_bytes()
    with locked(part, ""):
        assert_refused(run(*words), "another process fills these texts into")
        assert part.read_bytes() == before
    assert run(*words).returncode == 0
    lines = (tmp_path / "out.jsonl").read_bytes()
    assert lines.startswith(before[: before.rfind(b"\n") + 1])
    assert [list(json.loads(line)) for line in lines.splitlines()] == [["text", "texts"]] * 40


def test_data_is_prepared_by_one_command_at_a_time(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat " * 20_000)
    words = ("prepare", tmp_path / "a.txt", "--out", tmp_path / "data", "--tokenizer", "bytes")
    assert commands.glauber(*words, limit=200_000).returncode == 2
    before = contents(tmp_path)
    with locked(tmp_path / "data.unfinished", ""):
        for more in ((), ("--force",), ("--length", 16, "--force")):
            assert_refused(run(*words, *more), f"another process prepares {tmp_path / 'data'} at this moment")
        assert contents(tmp_path) == before
    assert run(*words).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "data"]


def test_what_one_prepared_meanwhile_is_not_replaced_by_another(tmp_path, monkeypatch):
    """The second looked at --out before the first was done."""
    from glauber.data import prepare
    from glauber.data import prepare as module
    from glauber.data.plan import Plan

    (tmp_path / "a.txt").write_text("the cat sat on the mat " * 200)
    make = Plan.make

    def slow(*words: object) -> Plan:
        monkeypatch.setattr(Plan, "make", make)
        module([tmp_path / "a.txt"], tmp_path / "data", "bytes", progress=False)
        return make(*words)

    monkeypatch.setattr(Plan, "make", slow)
    with pytest.raises(ValueError, match="holds prepared data already"):
        prepare([tmp_path / "a.txt"], tmp_path / "data", "char", progress=False)
    assert json.loads((tmp_path / "data" / "header.json").read_text())["vocab"] == 257
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "data"]


def test_data_that_cannot_be_made_leaves_no_folder_on_the_way_to_it(tmp_path):
    (tmp_path / "empty.txt").touch()
    assert_refused(run("prepare", tmp_path / "empty.txt", "--out", tmp_path / "a" / "b"), "no characters")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]


def test_a_codec_is_trained_by_one_command_at_a_time(tmp_path):
    (tmp_path / "images").mkdir()
    for k in range(4):
        pixels = np.random.default_rng(k).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{k}.png")
    out = tmp_path / "codec"
    out.mkdir()
    (out / "log.jsonl").write_text("theirs")
    words = ("codec", "train", tmp_path / "images", "--out", out, "--size", 8, "--width", 8, "--codes", 4, "--steps", 1)
    with locked(out, ""):
        assert_refused(run(*words, "--force"), f"another process trains in {out} at this moment")
    assert contents(out) == {"log.jsonl": b"theirs"}
