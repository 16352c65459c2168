"""Structured junk: whatever a file holds, its reader takes it or says in a ValueError what is wrong. `junk` has the readers."""

import random
import subprocess
import sys
from pathlib import Path

import junk
import pytest

PROGRAM = Path(junk.__file__)


def require_all_hold(seconds: int, seed: int) -> None:
    """The program ends by itself, within its time and memory, and nothing gave way."""
    words = [sys.executable, str(PROGRAM), str(seconds), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 200)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert ", 0 went wrong;" in done.stdout


def test_every_reader_takes_or_refuses_a_piece_of_junk():
    require_all_hold(0, seed=0)


@pytest.mark.slow
def test_every_reader_takes_or_refuses_junk_for_a_minute():
    """Other junk each time; what fails says the seed."""
    require_all_hold(60, random.randrange(2**32))


def test_what_is_good_is_of_every_kind_and_what_is_thrown_is_not_it(tmp_path):
    readers = junk.readers(tmp_path)
    ends = {path.suffix for reader in readers.values() for path in reader.files}
    assert {".json", ".jsonl", ".safetensors", ".npy", ".png", ".toml", ".txt", ".xz"} < ends
    for reader in readers.values():
        reader.read()
        for path in reader.files:
            good = path.read_bytes()
            junk.spoil(path, random.Random(1))
            bad = path.read_bytes()
            path.write_bytes(good)
            junk.spoil(path, random.Random(1))
            assert path.read_bytes() == bad  # the seed says it all
            path.write_bytes(good)


def test_a_reader_that_gives_way_is_told(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, 2]}')

    def reader(error: BaseException | None) -> junk.Reader:
        def read() -> None:
            if error is not None:
                raise error

        return junk.Reader([path], read)

    assert junk.throw("a", reader(None), 0) == "taken"
    assert junk.throw("a", reader(ValueError("this is damaged; mend it")), 0) == "refused"
    for error in (
        KeyError("step"),
        ValueError(""),
        MemoryError(),
        SystemExit(0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x y z w"),
    ):
        assert type(error).__name__ in junk.throw("a", reader(error), 0)
    monkeypatch.setattr(junk, "SLOW", 1)
    before = junk.signal.signal(junk.signal.SIGALRM, junk.stop)
    try:
        assert "TooSlowError" in junk.throw("a", junk.Reader([path], lambda: junk.time.sleep(5)), 0)
    finally:
        junk.signal.signal(junk.signal.SIGALRM, before)
    assert path.read_text() == '{"a": [1, 2]}'
