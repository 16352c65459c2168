"""A raw file of figures says which command made it, from which commit, on what machine."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glauber
from glauber import provenance
from glauber.provenance import KEYS, write_figures


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["/home/me/.venv/bin/glauber", "bench", "train", "--out", "train.json"], "glauber bench train --out train.json"),
        (["/home/me/src/glauber/__main__.py", "demo"], "glauber demo"),
        (["experiments/calls.py", "--out", "/tmp/me/out", "--table"], "python experiments/calls.py --out out --table"),
        (["/home/me/experiments/calls.py", "--out=/tmp/me/out/"], "python calls.py --out=out/"),
        (["glauber", "prepare", "vq:/home/me/codec", "a b.txt"], "glauber prepare vq:codec 'a b.txt'"),
        (["glauber", "--text", "and/or /home", "https://a.b/c"], "glauber --text 'and/or /home' https://a.b/c"),
        (["-c"], None),
        ([""], None),
    ],
)
def test_a_command_is_told_as_typed_but_for_the_folders_of_this_machine(monkeypatch, typed, told):
    monkeypatch.setattr(sys, "argv", typed)
    assert provenance.provenance()["command"] == told


ROOT = Path(__file__).parent.parent
RAW = sorted((ROOT / "docs" / "results").rglob("*.json"))


@pytest.mark.parametrize("path", RAW, ids=lambda path: path.stem)
def test_every_raw_file_names_its_command_commit_and_machine_or_what_is_pending(path):
    figures = json.loads(path.read_text())
    assert isinstance(figures, dict)
    assert set(KEYS) <= figures.keys()
    unknown = [key for key in KEYS if figures[key] is None]
    assert ("pending" in figures) == bool(unknown), unknown
    assert not unknown or len(figures["pending"].split()) > 4  # words that name what will be measured again
    assert all((ROOT / script).is_file() for script in re.findall(r"[\w/]+\.py", figures.get("pending", "")))
    for key in set(KEYS) - set(unknown):
        assert figures[key].strip()
    assert not re.search(r"(^|[\s=:,])/", figures["command"] or "")  # a folder of somebody's machine
    assert "changed" not in (figures["commit"] or "")


def test_the_output_of_the_tests_on_a_gpu_names_its_command_machine_and_commit():
    head = (ROOT / "docs" / "results" / "test-gpu.txt").read_text().partition("\n\n")[0].splitlines()
    assert head[0].startswith("make test-gpu GPU_PYTHON=")
    assert {"machine", "commit"} <= {line.partition(": ")[0] for line in head[1:]}


def test_every_raw_file_is_what_a_page_of_the_docs_rests_on():
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    assert len(RAW) > 10
    for path in (ROOT / "docs" / "results").iterdir():
        assert f"results/{path.name})" in pages, path.name
        assert path.suffix in (".json", ".png", ".txt"), path.name


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *who, "-C", folder, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_is_that_of_the_code_and_says_whether_the_code_was_changed(monkeypatch, tmp_path):
    monkeypatch.setenv(provenance.COMMIT, "0123456789ab")
    code = tmp_path / "room" / "provenance.py"
    code.parent.mkdir()
    code.write_text("pass\n")
    monkeypatch.setattr(provenance, "__file__", str(code))
    assert provenance.provenance()["commit"] == "0123456789ab"  # outside a checkout
    git(tmp_path, "init", "-q")
    (tmp_path / "other.py").write_text("pass\n")
    (tmp_path / "page.md").write_text("a\n")
    git(tmp_path, "add", "other.py", "page.md")
    git(tmp_path, "commit", "-qm", "theirs")
    assert provenance.provenance()["commit"] == "0123456789ab"  # installed inside somebody else's checkout
    monkeypatch.delenv(provenance.COMMIT)
    assert provenance.provenance()["commit"] == f"glauber {glauber.__version__}"
    git(tmp_path, "add", "room")
    git(tmp_path, "commit", "-qm", "ours")
    commit = git(tmp_path, "rev-parse", "HEAD")[:12]
    (tmp_path / "page.md").write_text("b\n")
    (tmp_path / "new.py").write_text("pass\n")
    assert provenance.provenance()["commit"] == commit
    (tmp_path / "other.py").write_text("fail\n")
    assert provenance.provenance()["commit"] == f"{commit}, changed"


def test_the_machine_is_a_card_or_a_processor_with_its_cores(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    kind, _, cores = str(provenance.provenance()["machine"]).rpartition(", ")
    assert kind.startswith("CPU ")
    assert len(kind) > len("CPU ")
    assert int(cores.split()[0]) >= 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    assert provenance.provenance()["machine"] == "a card"


def test_figures_that_are_written_again_tell_of_the_last_command(monkeypatch, tmp_path):
    path = tmp_path / "figures.json"
    for word in ("first", "second"):
        monkeypatch.setattr(sys, "argv", ["glauber", word])
        write_figures(path, (json.loads(path.read_text()) if path.exists() else {}) | {word: 1})
    found = json.loads(path.read_text())
    assert list(found) == [*KEYS, "first", "second"]
    assert found["command"] == "glauber second"
