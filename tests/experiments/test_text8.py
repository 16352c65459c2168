"""The cleaning of text8, rule by rule, on a made-up dump."""

import sys

import pytest


@pytest.fixture
def text8(experiment):
    return experiment("text8")


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Plain TEXT, 1905.", " plain text one nine zero five "),
        ("[[Ada]] [[Ada (language)|the language]]", " ada the language "),
        ("[[de:Anarchismus]]x", " x "),
        ("[[Category:Politics| ]]", " politics "),
        ("[[Image:A.png|thumb|left|200px|A [[house]]]]", " a house "),
        ("see [http://a.org/b its page]", " see its page "),
        ("{{stub}}a {table} b", " a b "),
        ("a&lt;ref name=x&gt;no&lt;/ref&gt;b &lt;br&gt;c", " ab c "),
        ("fish &amp;amp; chips &quot;so&quot;", " fish chips so "),
    ],
)
def test_each_rule_leaves_the_words_that_a_reader_sees(raw, clean, text8):
    dump = f"<page><title>No</title><text xml:space='preserve'>{raw}</text></page><text x='y'>#REDIRECT [[no]]</text>".encode()
    assert b"".join(text8.letters(text8.cut_behind_tags(dump))).decode() + " " == clean


def test_a_file_that_is_not_enwik8_is_refused(text8, tmp_path, monkeypatch):
    (tmp_path / "enwik8").write_bytes(b"<text >x</text>")
    monkeypatch.setattr(sys, "argv", ["text8.py", str(tmp_path / "enwik8"), str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="is not enwik8"):
        text8.main()
    assert not (tmp_path / "out").exists()
