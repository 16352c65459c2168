"""The commands that build data from public sources: what they make of it, and that they refuse what is not theirs."""

import gzip
import json
import sys

import numpy as np
import pytest


def test_a_novel_loses_its_mark_its_carriage_returns_its_trailing_blanks_and_its_empty_lines(experiment):
    raw = "\ufeff\r\nA \t\r\n\r\n\r\n\r\n  B\rC\fD\r\n \r\n".encode()
    assert experiment("novels").novel(raw) == "A\n\n  B\nC\nD"


def test_the_novels_are_100_each_in_one_part(experiment):
    parts = json.loads(experiment("novels").SPLIT.read_text())
    assert [len(parts[part]) for part in ("train", "valid", "test")] == [94, 3, 3]
    assert len({name for names in parts.values() for name in names}) == 100


def test_other_novels_are_refused_and_nothing_is_written(experiment, tmp_path, monkeypatch):
    novels = experiment("novels")
    monkeypatch.setattr(sys, "argv", ["novels.py", str(tmp_path), str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="name a checkout of 100_english_novels"):
        novels.main()
    (tmp_path / "corpus").mkdir()
    for name in (name for names in json.loads(novels.SPLIT.read_text()).values() for name in names):
        (tmp_path / "corpus" / f"{name}.txt").write_text("another text")
    with pytest.raises(SystemExit, match=r"train\.txt has sha256 .* check out commit"):
        novels.main()
    assert not (tmp_path / "out").exists()


def test_a_file_of_a_user_is_not_replaced(experiment, tmp_path):
    keep, path = experiment("checked").keep, tmp_path / "a.txt"
    one, two = (experiment("checked").hashlib.sha256(content).hexdigest() for content in (b"one", b"two"))
    keep(path, b"one", one, "")
    keep(path, b"one", one, "")
    with pytest.raises(SystemExit, match="it is another file; remove it"):
        keep(path, b"two", two, "")
    assert path.read_bytes() == b"one"


def test_other_images_than_fashion_mnists_are_refused(experiment, tmp_path):
    with pytest.raises(SystemExit, match="is missing"):
        experiment("fashion").read_part(tmp_path, "test")
    for name in ("images-idx3", "labels-idx1"):
        (tmp_path / f"t10k-{name}-ubyte.gz").write_bytes(gzip.compress(bytes(100)))
    with pytest.raises(SystemExit, match="dataset-fashion-mnist"):
        experiment("fashion").read_part(tmp_path, "test")


def test_of_images_that_hardly_differ_the_first_stays(experiment):
    squares = np.random.default_rng(0).integers(20, 236, (7, 16, 16, 3)).astype(np.uint8)
    squares[3] = squares[1] + 7  # levels, on a root mean square
    squares[6] = squares[0] + 9
    images = squares.repeat(4, 1).repeat(4, 2)
    for block in (2, 100):
        assert np.array_equal(experiment("faces").different(images, block), images[[0, 1, 2, 4, 5, 6]])
