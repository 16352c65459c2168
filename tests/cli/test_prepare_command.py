"""The command `prepare`, run as a user runs it."""

from program import STORY, assert_refused, run

from glauber.data import Shards, open_shards, prepare


def test_what_is_validated_on_is_a_share_or_texts_of_their_own(tmp_path):
    (tmp_path / "train.txt").write_text(STORY)
    (tmp_path / "own.txt").write_text(STORY.upper())
    (tmp_path / "more.txt").write_text(STORY.title())

    def prepared(name: str, *words: object) -> Shards:
        done = run("prepare", "train.txt", "--out", name, "--length", 16, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return open_shards(tmp_path / name)

    assert (
        prepared("shared", "--valid", 0.25).hash
        == prepare([tmp_path / "train.txt"], tmp_path / "python", length=16, valid=0.25, progress=False).hash
    )
    own = prepared("own", "--valid", "own.txt")
    text = own.codec.decode(own.rows("valid")[:].reshape(-1))
    assert STORY.upper().startswith(text)
    assert len(text) > len(STORY) - 16
    both = prepared("both", "--valid", "own.txt", "--valid", "more.txt")
    assert len(both.rows("valid")) > len(own.rows("valid"))
    assert len(both.rows("train")) == len(own.rows("train")) == (len(STORY) + 1) // 16
    for words, about in (
        (["--valid", "absent.txt"], "there is no file or folder absent.txt"),
        (["--valid", "1"], "at least 0 and below 1, not 1"),
    ):
        assert_refused(run("prepare", "train.txt", "--out", "new", *words, cwd=tmp_path), about)
    assert not (tmp_path / "new").exists()
