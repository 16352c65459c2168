"""Replays: one file that opens without a server."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import glauber
from PIL import Image
from visits import Visit, cards, tokens

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1> <!-- "


@pytest.fixture(scope="module")
def files(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replays of a fill with hostile text, of samples and of pictures, with what the commands said."""
    folder = tmp_path_factory.mktemp("replays")
    picture = folder / "half.png"
    Image.fromarray(np.repeat(np.array([[0] * 4 + [255] * 4], np.uint8), 8, 0)).save(picture)
    said = {
        "fill": glauber("infill", models / "texts", "--text", f"{HOSTILE}[[5]]!", "-n", 2, "--seed", 0, "--sweeps", 3, "--json",
                        "--html", folder / "fill.html"),
        "page": glauber("sample", models / "texts", "-n", 4, "--seed", 0, "--json", "--html", folder / "page.html"),
        "inpaint": glauber("infill", models / "images", "--image", picture, "--mask", picture, "-n", 2, "--seed", 0, "--json",
                           "--out", folder / "filled", "--html", folder / "inpaint.html"),
        "pictures": glauber("sample", models / "images", "-n", 3, "--seed", 0, "--json", "--html", folder / "pictures.html"),
    }  # fmt: skip
    for name, done in said.items():
        assert done.returncode == 0, done.stderr
        (folder / f"{name}.json").write_text(done.stdout)
    return folder


def said(files: Path, name: str) -> list[str]:
    return list(json.loads((files / f"{name}.json").read_text())["texts"])


@pytest.mark.browser
@pytest.mark.parametrize("name", ["fill", "page"])
def test_a_replay_of_texts_opens_from_a_folder_and_ends_in_what_the_command_printed(visit: Visit, files: Path, name: str):
    page = visit.open((files / f"{name}.html").as_uri())
    assert cards(page) == said(files, name)
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    scrubber = page.get_by_label("Step of the chain")
    scrubber.fill("0")
    assert tokens(page, 0, "noise").count() == (5 if name == "fill" else 96)
    assert cards(page) != said(files, name)
    page.get_by_label("Speed").select_option("4")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("(input) => input.value === input.max", arg=scrubber.element_handle(), timeout=20_000)
    assert cards(page) == said(files, name)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
@pytest.mark.parametrize(("name", "number"), [("pictures", 3), ("inpaint", 2)])
def test_a_replay_of_pictures_shows_each_step(visit: Visit, files: Path, name: str, number: int):
    page = visit.open((files / f"{name}.html").as_uri())
    images = "(images) => images.map((image) => image.src)"
    last = page.locator(".pictures img").evaluate_all(images)
    assert len(last) == number
    page.get_by_label("Step of the chain").fill("0")
    assert all(a != b for a, b in zip(page.locator(".pictures img").evaluate_all(images), last, strict=True))


@pytest.mark.browser
def test_the_policy_of_a_replay_runs_no_other_script(visit: Visit, files: Path):
    visit.expected += ["Content Security Policy", "x:"]
    page = visit.open((files / "fill.html").as_uri())
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x: onerror=\"window.hit = 1\">')")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.hit = 2' }))")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    refused = "() => fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)"
    assert page.evaluate(refused) == "TypeError"


def test_a_replay_is_small_and_holds_the_text_as_data_alone(files: Path):
    for file in files.glob("*.html"):
        content = file.read_text(encoding="utf-8")
        assert len(content) < 500_000
        assert len(re.findall(r"<script", content)) == 2
        assert len(re.findall(r"</script", content)) == 2
        assert "http:" not in content.replace("HTTP", "")
        data = re.search(r'<script type="application/json" id="recording">(.*?)</script>', content, re.DOTALL)
        assert data is not None
        assert "<" not in data[1]
        assert json.loads(data[1])["version"] == 1
        assert re.search(r"^\s*(import|export) ", content, re.MULTILINE) is None


def test_a_replay_never_replaces_a_file_and_needs_its_ending(models: Path, files: Path, tmp_path: Path):
    words = ["infill", models / "texts", "--text", "it [[1]]"]
    for more, about in (
        (["--html", files / "fill.html"], "exists; name another file with --html"),
        (["--html", tmp_path / "fill.txt"], "--html writes a .html; name it so"),
        (["--html", tmp_path / "gone" / "fill.html"], "there is no folder"),
        (["--tokens", "x.npy", "--html", tmp_path / "a.html"], "say what to fill in"),
    ):
        done = glauber(*words, *more)
        assert (done.returncode, done.stdout) == (2, "")
        assert about in done.stderr
    assert not any(tmp_path.iterdir())
