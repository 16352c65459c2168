"""A lock: of one process at a time, gone with it, and worth nothing on what was moved away meanwhile."""

import fcntl
import signal
import subprocess
import sys

import pytest
from refusals import refused

from glauber.runtime.locks import lock, locked

HOLD = """
import pathlib, sys, time
from glauber.runtime.locks import lock

held = lock(pathlib.Path(sys.argv[1]), "")
print(flush=True)
time.sleep(30)
"""
BUSY = "another process is at work there; wait until it ends"


@pytest.mark.parametrize("kind", ["a folder", "a file", "a file that is not there"])
def test_a_lock_is_held_until_its_process_is_killed(kind, tmp_path):
    path = tmp_path if kind == "a folder" else tmp_path / "a"
    if kind == "a file":
        path.write_text("mine")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with refused(BUSY), locked(path, BUSY):
            raise AssertionError("taken by two")
        process.send_signal(signal.SIGKILL)
    with locked(path, BUSY):
        pass
    if kind == "a file":
        assert path.read_text() == "mine"


def test_a_lock_ends_with_its_block_however_that_ends(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path, BUSY):
        raise KeyError
    with locked(tmp_path, BUSY), refused(BUSY):
        lock(tmp_path, BUSY)


@pytest.mark.parametrize("replaced", [True, False])
def test_what_was_moved_away_between_opening_and_locking_is_not_taken(replaced, tmp_path, monkeypatch):
    path, flock = tmp_path / "a", fcntl.flock

    def moved(descriptor: int, how: int) -> None:
        path.rename(tmp_path / "b")
        if replaced:
            path.touch()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", moved)
    with refused(BUSY):
        lock(path, BUSY)
    monkeypatch.undo()
    with locked(tmp_path / "b", BUSY):  # the refused one holds nothing
        pass
