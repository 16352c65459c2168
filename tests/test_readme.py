"""The Python of README and docs runs as printed, and what it and the docs point to is there."""

import re
from pathlib import Path

import pytest
import torch

from glauber.cli.demo_run import run_demo

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]


def test_the_readmes_python_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    run_demo(tmp_path / "demo", steps=5)
    for page, least in (("README.md", 3), ("docs/language.md", 1)):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        assert len(blocks) >= least
        for block in blocks:
            exec(compile(block, page, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_links_to_or_names_exists(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
    for named in re.findall(r"\b(?:src|tests|experiments)/[\w/]+\.\w+", page.read_text()):
        assert (ROOT / named).exists(), named


def test_the_tour_names_functions_that_are_there_and_never_goes_back_to_a_file_it_came_from():
    tour = (ROOT / "CONTRIBUTING.md").read_text().partition("### One sample, step by step")[2].partition("### ")[0]
    rows = [line for line in tour.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["prepare", "train", "sample", "infill", "serve"]
    for row in rows:
        for way in re.split(r"[;.] |, then ", row):  # each begins where the command is
            steps = re.findall(r"`([\w/]+\.py)(?:: ([\w, ]+))?`", way)
            files = [file for file, _ in steps]
            assert len(files) == len(set(files)), way
            for file, functions in steps:
                code = (ROOT / "src" / "glauber" / file).read_text()
                assert all(f"def {name}(" in code for name in functions.split(", ") if name), (file, functions)


def test_every_test_that_the_theory_names_exists():
    written = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+?)(_?…)?`", (ROOT / "docs" / "theory.md").read_text())
    assert len(named) > 20
    for name, _ in named:
        assert f"def {name}" in written, name
