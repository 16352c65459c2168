"""The code of README and docs runs as printed, but for fewer steps and samples, and a small model for those in the box."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
import torch
import typer
from blocks import blocks, lines, run, shorter
from PIL import Image

from glauber.cli.run import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
LETTERS = "".join(map(chr, range(32, 127))) + "\n“”"
SENTENCES = "It was a dark and stormy night. She opened the door and saw the other side of the house.\n" * 60


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder with texts, their data, and a run on them."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("book.txt", "texts/one.txt", "test.txt", "train.txt", "chapter.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(LETTERS + SENTENCES)
    for line in ("prepare texts --out data --tokenizer char --length 64", "train --recipe small --data data --out run"):
        done = commands.glauber(*shorter(line.split()), cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def images(folder: Path) -> None:
    """What the guide to images starts from."""
    random = np.random.default_rng(0)
    for number in range(12):
        place = folder / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(256, size=(64, 64, 3), dtype=np.uint8)).save(place)
    shutil.copy(folder / "photos/cat/0.png", folder / "x.png")
    Image.fromarray(np.full((48, 48, 3), 90, np.uint8)).save(folder / "small.png")
    Image.fromarray(np.pad(np.full((32, 32), 255, np.uint8), 16)).save(folder / "m.png")


def marked(page: Path) -> Any:
    """Images take minutes, since a codec is trained and diffusers imported."""
    return pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem == "images" else [])


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if blocks(page)])
def test_every_block_of_a_page_runs_or_says_why_it_is_not_run(page, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for path in small.iterdir():
        if f"--out {path.name}" not in text:  # what a page makes it is not given
            (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    if page.stem == "images":
        images(tmp_path)
    instead = {"novels": str(small / "run"), "fashion": "run"}
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    for block in blocks(page):
        if block.reason is None:
            run(block, tmp_path, names, instead)


def parsers(group: Any) -> dict[str, Any]:
    """Every command by its words."""
    found = {}
    for name, command in getattr(group, "commands", {}).items():
        found |= {f"{name} {below}": one for below, one in parsers(command).items()} or {name: command}
    return found


def test_blocks_that_are_not_run_use_flags_that_there_are():
    known, checked = parsers(typer.main.get_command(app)), 0
    for page in PAGES:
        for block in blocks(page):
            for words in lines(block.text) if block.language == "sh" and block.reason else []:
                if "glauber" not in words:
                    continue
                words = words[words.index("glauber") + 1 :]
                name = next(name for name in (" ".join(words[:2]), words[0]) if name in known)
                known[name].make_parser(known[name].context_class(known[name])).parse_args(words[len(name.split()) :])
                checked += 1
    assert checked > 10


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_guides_page_and_notebook_are_those_of_its_program(source):
    sys.path.insert(0, str(ROOT / "website"))
    from guides import differs

    assert differs(source) == []


def test_a_guide_whose_program_was_changed_is_named(tmp_path, monkeypatch):
    sys.path.insert(0, str(ROOT / "website"))
    import guides

    for end in (".py", ".ipynb"):
        shutil.copy(NOTEBOOKS[0].with_suffix(end), tmp_path)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / f"{NOTEBOOKS[0].stem}.md", tmp_path / "docs")
    monkeypatch.setattr(guides, "ROOT", tmp_path)
    copy = tmp_path / NOTEBOOKS[0].name
    assert guides.differs(copy) == []
    copy.write_text(copy.read_text() + "\nprint(1)\n")
    assert guides.differs(copy) == [f"{copy.stem}.ipynb is not of {copy.name}; run make guides"]


@pytest.mark.slow
@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_beginning_to_its_end(source, tmp_path):
    code = "import sys; sys.path.insert(0, sys.argv[1]); import guides, pathlib, json; "
    code += "print(json.dumps([o for c in guides.run(pathlib.Path(sys.argv[2])).cells for o in c.get('outputs', [])]))"
    words = [sys.executable, "-c", code, ROOT / "website", source]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert printed
    assert not [output for output in printed if output["output_type"] == "error"]
