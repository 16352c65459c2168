"""The README is short, lines can be read, and what the README and the docs point to is there."""

import re
from pathlib import Path

import pytest

from glauber.cli.app import ORDER

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]


def test_the_readme_has_at_most_700_words():
    """Of all that stands in it: code, tables and names of links, too; signs by themselves are no words."""
    assert len(re.findall(r"\S*\w\S*", (ROOT / "README.md").read_text())) <= 700


def test_the_readmes_first_screen_holds_the_sentence_the_picture_the_installation_and_the_commands():
    """Lines of 100 letters at most; the picture takes some twelve more."""
    first = (ROOT / "README.md").read_text().split("In Python:")[0]
    assert sum(1 + len(line) // 100 for line in first.splitlines()) <= 24
    for part in ("re-sampling one site at a time", "chain.gif", "pip install .", "glauber sample", "glauber infill"):
        assert part in first


def test_the_readme_has_every_command():
    listed = re.findall(r"^\| `glauber (\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(ORDER)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_prose_is_longer_than_160_letters(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in prose.splitlines() if len(line) > 160 and not line.startswith(("|", "!["))]
    assert not [line for line in long if line.count(" ") > 1], "wrap it at 160"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_links_to_or_names_exists(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
    for named in re.findall(r"\b(?:src|tests|experiments)/[\w/]+\.\w+", page.read_text()):
        assert (ROOT / named).exists(), named


def test_the_tour_names_functions_that_are_there_and_never_goes_back_to_a_file_it_came_from():
    tour = (ROOT / "CONTRIBUTING.md").read_text().partition("### One sample, step by step")[2].partition("### ")[0]
    rows = [line for line in tour.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["prepare", "train", "sample", "infill", "serve", "play"]
    for row in rows:
        for way in re.split(r"[;.] |, then ", row):  # each begins where the command is
            steps = re.findall(r"`([\w/]+\.py)(?:: ([\w, ]+))?`", way)
            files = [file for file, _ in steps]
            assert len(files) == len(set(files)), way
            for file, functions in steps:
                code = (ROOT / "src" / "glauber" / file).read_text()
                assert all(re.search(rf"\b(def|class) {name}\b", code) for name in functions.split(", ") if name), (
                    file,
                    functions,
                )


def test_every_test_that_the_theory_names_exists():
    written = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+?)(_?…)?`", (ROOT / "docs" / "theory.md").read_text())
    assert len(named) > 20
    for name, _ in named:
        assert f"def {name}" in written, name
