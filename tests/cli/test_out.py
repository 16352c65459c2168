"""Where the result of a command goes is tried before any work: what cannot be written is told at once, and leaves no trace.

Nothing else that these commands name is there, so whatever was looked at before the path would be complained of instead.
"""

import subprocess
from pathlib import Path

import commands
import pytest
from program import assert_refused, run

FOLDERS = {
    "sample": ("sample", "absent", "--out"),
    "infill --image": ("infill", "absent", "--image", "absent.png", "--mask", "absent.png", "--out"),
    "prepare": ("prepare", "absent.txt", "--out"),
    "train": ("train", "--recipe", "tiny", "--data", "absent", "--out"),
    "demo": ("demo", "--out"),
    "codec train": ("codec", "train", "absent", "--out"),
    "bench table1": ("bench", "table1", "--data", "absent", "--out"),
}
FILES = {
    "sample --strip": ("sample", "absent", "--strip"),
    "sample --gif": ("sample", "absent", "--gif"),
    "infill --texts": ("infill", "absent", "--texts", "absent.jsonl", "--out"),
    "infill --tokens": ("infill", "absent", "--tokens", "absent.npy", "--mask", "absent.npy", "--out"),
    "evaluate": ("evaluate", "absent.txt", "--reference", "absent.txt", "--out"),
    "bench train": ("bench", "train", "--out"),
    "bench sample": ("bench", "sample", "--out"),
    "bench oracle": ("bench", "oracle", "--out"),
    "bench prepare": ("bench", "prepare", "--text", "absent.txt", "--out"),
}
ENDLESS = ("demo", "bench train", "bench sample", "bench oracle")
"""Commands that need nothing else, and so would begin."""


def end(command: str) -> str:
    """What the name of the file must end in."""
    return {"sample --strip": ".png", "sample --gif": ".gif"}.get(command, "")


def refuse(words: tuple[str, ...], path: str, here: Path, limit: int | None = None) -> str:
    """The sentence of a command that was refused, and left nothing."""
    (here / "plain").write_text("mine")
    done: subprocess.CompletedProcess[str] = commands.glauber(*words, path, cwd=here, limit=limit)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("glauber: ")
    assert done.stderr.count("\n") == 1
    assert [(left.name, left.read_text()) for left in here.iterdir()] == [("plain", "mine")]
    return done.stderr


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_that_cannot_be_written_is_told_before_any_work(command, tmp_path):
    words = FOLDERS[command]
    for path in ("plain", "plain/a/b"):
        assert "plain is a file; name another folder with --out" in refuse(words, path, tmp_path)
    assert "/proc/a/b cannot be written (no such file or directory)" in refuse(words, "/proc/a/b", tmp_path)
    assert "cannot be written (file name too long)" in refuse(words, "a/" + "b" * 300, tmp_path)
    assert "the disk is full; free some space and repeat the command" in refuse(words, "a/b", tmp_path, limit=0)


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_that_holds_something_else_is_told_before_any_work(command, tmp_path):
    said = refuse(FOLDERS[command], ".", tmp_path)
    assert ". is not empty" in said or ". is the folder that you are in" in said


@pytest.mark.parametrize("command", FILES)
def test_a_file_that_cannot_be_written_is_told_before_any_work(command, tmp_path):
    words, name = FILES[command], "a" + end(command)
    assert f"there is no folder plain to write {name} into" in refuse(words, f"plain/{name}", tmp_path)
    assert f"/proc/{name} cannot be written (no such file or directory)" in refuse(words, f"/proc/{name}", tmp_path)
    assert "cannot be written (file name too long)" in refuse(words, "b" * 300 + end(command), tmp_path)
    assert "the disk is full; free some space and repeat the command" in refuse(words, name, tmp_path, limit=0)
    if not end(command):
        assert "/dev/null is a device" in refuse(words, "/dev/null", tmp_path)
        assert "plain exists; name another file with --out, or add --force" in refuse(words, "plain", tmp_path)


@pytest.mark.parametrize("command", [name for name in (*FOLDERS, *FILES) if name not in ENDLESS])
def test_a_path_that_can_be_written_leaves_no_trace_when_the_rest_is_refused(command, tmp_path):
    path = ("x/y" if command in FOLDERS else "x") + end(command)
    assert "absent" in refuse((FOLDERS | FILES)[command], path, tmp_path)


def test_nothing_is_overwritten_without_being_told_to(images, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    assert_refused(run("sample", images, "--out", tmp_path), "is not empty")
    assert_refused(run("demo", "--out", tmp_path), "is not empty")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert run("sample", images, "-n", 1, "--out", tmp_path, "--force").returncode == 0
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert_refused(run("sample", images, "--out", tmp_path / "mine.txt"), "is a file")


@pytest.mark.parametrize(
    "words",
    [
        ("infill", "no-model", "--texts", "absent.jsonl"),
        ("infill", "no-model", "--tokens", "absent.npy", "--mask", "absent.npy"),
        ("evaluate", "absent.txt", "--reference", "absent.txt"),
        ("bench", "train", "--quick"),
    ],
    ids=lambda words: words[0],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_else(words, tmp_path):
    assert_refused(run(*words, "--out", "no/such/file", cwd=tmp_path), "there is no folder no/such to write file into")
    assert_refused(run(*words, "--out", ".", "--force", cwd=tmp_path), "is a folder; name a file")
    assert not any(tmp_path.iterdir())
