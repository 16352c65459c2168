"""What is written is there whole or not at all."""

import os

import pytest

from glauber.runtime.files import replacing, sync_folder, write, write_all


def test_files_are_written_whole_and_replaced(tmp_path):
    write(tmp_path / "a", b"old")
    write_all({tmp_path / "a": b"new", tmp_path / "b": memoryview(b"other")})
    with replacing(tmp_path / "c") as file:
        file.write(b"in ")
        file.write(b"pieces")
    sync_folder(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"new", "b": b"other", "c": b"in pieces"}


@pytest.mark.parametrize("failing", [0, 1])
def test_none_of_several_files_is_replaced_where_one_fails(failing, tmp_path, monkeypatch):
    write_all({tmp_path / "a": b"old", tmp_path / "b": b"old"})
    calls, fsync = iter(range(2)), os.fsync

    def full(descriptor):
        if next(calls) == failing:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_all({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old", "b": b"old"}


def test_pieces_that_end_in_an_error_leave_what_was_there(tmp_path):
    write(tmp_path / "a", b"old")
    with pytest.raises(TypeError), replacing(tmp_path / "a") as file:
        file.writelines([b"new", None])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
