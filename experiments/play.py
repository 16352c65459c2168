"""The page and the replays, measured and pictured in a real Chromium.

    python experiments/play.py latency --results docs/results/play.json   # from "fill" to the first token on the page
    python experiments/play.py pictures docs/media                        # the pictures of docs/play.md
    python experiments/play.py gif docs/media/replay.gif                  # a replay as the README shows it

Each begins a server of its own with the models in the box. The Chromium is the one of CHROMIUM= or of the PATH.
"""

import io
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from shared import PATH, run_command

from glauber.pictures import save_gif
from glauber.provenance import write_figures
from glauber.runtime.files import write

FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
TEXT = "She opened the letter and read it twice. Then she went to the window, and saw that the snow had begun to fall."
GAPS = "She opened the letter and [[6]]. Then she went to the window, and saw that [[9]]."
FRAMES = 40
"""Of the GIF, at most."""

MEASURE = """
() => new Promise((done) => {
  const button = [...document.querySelectorAll("button")].find((each) => each.textContent === "Fill");
  const began = performance.now();
  const seen = () => (document.querySelector(".tokens .drawn") ? done(performance.now() - began) : requestAnimationFrame(seen));
  button.click();
  requestAnimationFrame(seen);
})
"""


@contextmanager
def served() -> Iterator[str]:
    """The address of a server with the models in the box, once these are loaded."""
    command = [sys.executable, "-m", "glauber", "play", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BROWSER": "true"}) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found[0].rstrip(")")
        server.terminate()


@contextmanager
def browser(width: int, height: int, **options: Any) -> Iterator[Page]:
    """A page of a browser that was never here."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS + ["--no-sandbox"] * (os.geteuid() == 0))
        context = opened.new_context(viewport={"width": width, "height": height}, **options)
        yield context.new_page()
        opened.close()


def ready(page: Page, url: str, text: str) -> None:
    """The page with this text, once the models are loaded."""
    page.goto(url)
    page.get_by_role("combobox", name="Model").wait_for(timeout=60_000)
    page.get_by_label("Your text").fill(text)


def press(page: Page, name: str, number: int = 0) -> None:
    """A button."""
    page.get_by_role("button", name=name, exact=True).nth(number).click()


def done(page: Page, said: str) -> None:
    """Until the page says so."""
    page.get_by_text(re.compile(said)).wait_for(timeout=120_000)


def latency(results: Path, times: int) -> None:
    """Seconds from the click on "fill" to the first token that is just drawn, in the browser's own clock."""
    found = []
    with served() as url, browser(1280, 900) as page:
        for _ in range(times + 1):
            ready(page, url, GAPS)
            found.append(page.evaluate(MEASURE) / 1000)
            done(page, r"fills? in")
            page.evaluate("localStorage.clear()")
    first, later = found[0], found[1:]
    figures: dict[str, Any] = {
        "model": "novels",
        "text": GAPS,
        "fills": 2,
        "load_averages_1_5_15_min": os.getloadavg(),
        "seconds_of_the_first_fill_after_the_start": round(first, 3),
        "seconds": [round(each, 3) for each in later],
        "median": round(statistics.median(later), 3),
        "most": round(max(later), 3),
    }
    write_figures(results, figures)
    print(figures)


def shot(page: Page, out: Path, name: str, whole: bool = False) -> None:
    """A picture of few colours, which is a small file."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)
    content = io.BytesIO()
    Image.open(io.BytesIO(page.screenshot(full_page=whole))).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        content, "png", optimize=True
    )
    write(out / f"play-{name}.png", content.getvalue())


def pictures(out: Path) -> None:
    """Each step of a newcomer, wide; and one picture narrow and dark."""
    with served() as url:
        with browser(1280, 900, reduced_motion="reduce") as page:
            write_steps(page, url, out)
            picture_steps(page, out)
        with browser(390, 844, color_scheme="dark", reduced_motion="reduce") as page:
            ready(page, url, GAPS)
            set_seed(page, 3)
            press(page, "Fill")
            done(page, r"fills? in")
            page.locator(".player").scroll_into_view_if_needed()
            page.evaluate("scrollTo(0, document.querySelector('.results').offsetTop - 12)")
            shot(page, out, "narrow")


def set_seed(page: Page, seed: int) -> None:
    """So that the pictures can be had again."""
    if not page.get_by_label("Seed").is_visible():
        page.get_by_text("How the chain runs").click()
    page.get_by_label("Seed").fill(str(seed))
    page.get_by_label("Seed").press("Tab")
    if page.viewport_size is not None and page.viewport_size["width"] < 900:
        page.get_by_text("How the chain runs").click()


def select(page: Page, stretch: str) -> None:
    """As by dragging over it."""
    code = "(area, s) => { const k = area.value.indexOf(s); area.focus(); area.setSelectionRange(k, k + s.length); }"
    page.get_by_label("Your text").evaluate(code, stretch)


def write_steps(page: Page, url: str, out: Path) -> None:
    """A gap, a fill in the midst of its chain, a law."""
    ready(page, url, TEXT)
    set_seed(page, 3)
    select(page, "read it twice")
    page.evaluate("scrollTo(0, 0)")
    shot(page, out, "select")
    press(page, "Make a gap of the selection")
    page.get_by_label("Length of gap 1", exact=True).fill("6")
    select(page, "the snow had begun to fall")
    press(page, "Make a gap of the selection")
    page.get_by_label("Length of gap 2", exact=True).fill("9")
    press(page, "Fill")
    done(page, r"fills? in")
    page.get_by_label("Step of the chain").fill("8")
    shot(page, out, "fill", whole=True)
    page.get_by_label("Step of the chain").fill("15")
    page.locator(".card").first.locator(".settled").nth(7).click()
    page.locator(".law li[data-token]").first.wait_for()
    shot(page, out, "law")
    press(page, "Close")


def picture_steps(page: Page, out: Path) -> None:
    """A hole in a picture, and its fills."""
    page.get_by_role("tab", name="Picture").click()
    set_seed(page, 0)
    press(page, "Sample pictures")
    done(page, "pictures in")
    press(page, "Paint on this", 0)
    page.get_by_label("Size of the brush").fill("6")
    box = page.locator(".canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.12 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.88 * box["width"], box["y"] + 0.38 * box["height"], steps=20)
    page.mouse.up()
    press(page, "Fill the hole")
    done(page, "Accept the one")
    shot(page, out, "picture", whole=True)


def gif(file: Path) -> None:
    """A replay of one fill, frame by frame."""
    with tempfile.TemporaryDirectory() as folder, browser(720, 400, device_scale_factor=1, reduced_motion="reduce") as page:
        replay = Path(folder, "replay.html")
        words = ["infill", "novels", "--text", GAPS, "-n", "2", "--seed", "3", "--sweeps", "2", "--html", replay]
        subprocess.run([sys.executable, "-m", "glauber", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        page.goto(replay.as_uri())
        last = int(page.get_by_label("Step of the chain").get_attribute("max") or 0)
        height = page.evaluate("Math.ceil(document.querySelector('.cards').getBoundingClientRect().bottom) + 20")
        page.set_viewport_size({"width": 720, "height": height})
        frames = []
        for k in sorted({round(last * j / FRAMES) for j in range(FRAMES + 1)}):
            page.get_by_label("Step of the chain").fill(str(k))
            page.evaluate("document.activeElement.blur()")
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    content = io.BytesIO()
    save_gif(frames, content, milliseconds=220)
    write(file, content.getvalue())
    print(f"{file}: {len(frames)} frames, {len(content.getvalue()):,} bytes")


def main() -> None:
    """See above."""
    results = {"--results": {**PATH, "required": True}, "--times": {"type": int, "default": 10}}
    run_command(__doc__, {latency: results, pictures: {"out": PATH}, gif: {"file": PATH}})


if __name__ == "__main__":
    main()
