"""What the tests of the page share: a server, a visit by a browser, and what a person does on the page."""

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

NAMES = ("texts", "bytes", "images")


def chromium() -> str:
    """Its path; a failure that says how to get one where there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None or not Path(found).exists():
        pytest.fail("there is no Chromium: apt-get install chromium, or name one by CHROMIUM=/path/to/it", pytrace=False)
    return found


class Served:
    """`glauber play` at work, or ended and begun again at the same port."""

    def __init__(self, models: Path, command: str = "play", words: tuple[str, ...] = (), opener: str = "true"):
        self.models, self.command, self.words, self.opener, self.port = models, command, words, opener, "0"
        self.begin()

    def begin(self) -> None:
        command = [sys.executable, "-m", "glauber", self.command, *NAMES, "--port", self.port, *self.words]
        environment = os.environ | {"BROWSER": self.opener, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, cwd=self.models, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+:(\d+)", self.process.stdout.readline())
        assert found is not None
        self.url, self.port = found[0], found[1]

    def wait(self) -> None:
        """Until its models are loaded."""
        while True:
            with suppress(HTTPError):
                urlopen(f"{self.url}/health", timeout=20).close()
                return
            time.sleep(0.1)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Visit:
    """A browser that was never here, whose errors and requests to other hosts fail the test in the end."""

    def __init__(self, browser: Any, width: int, **options: Any):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.context.set_default_timeout(8000)
        self.wrong: list[str] = []
        self.expected: list[str] = []
        self.home = ""

    def open(self, url: str) -> Any:
        """A new page; what goes wrong on it is kept."""
        page = self.context.new_page()
        self.home = url.partition("#")[0]
        page.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        own = (self.home, "data:", "blob:")
        page.on("request", lambda request: request.url.startswith(own) or self.wrong.append(request.url))
        page.on("dialog", lambda dialog: (self.wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(url)
        return page

    def end(self) -> None:
        self.context.close()
        left = [said for said in self.wrong if not any(part in said for part in self.expected)]
        assert not left, left


def ready(page: Any) -> Any:
    """The page, once it knows its models."""
    page.get_by_role("combobox", name="Model").wait_for()
    return page


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def write(page: Any, text: str) -> None:
    """In place of the text that is there."""
    page.get_by_label("Your text").fill(text)


def select(page: Any, stretch: str) -> None:
    """As by dragging over it."""
    page.get_by_label("Your text").evaluate(
        """(area, stretch) => {
          const k = area.value.indexOf(stretch);
          area.focus();
          area.setSelectionRange(k, k + stretch.length);
        }""",
        stretch,
    )


def fill(page: Any, number: int = 2) -> None:
    """And wait for the fills."""
    page.get_by_label("How many fills").fill(str(number))
    button(page, "Fill").click()
    page.get_by_text(re.compile(rf"{number} fills? in")).wait_for()


def text_of(page: Any) -> str:
    return str(page.get_by_label("Your text").input_value())


def cards(page: Any) -> list[str]:
    """The texts of the fills; what is no text, such as the end of one, is shown as a dot."""
    return [str(text).replace("↵\n", "\n").replace("·", "") for text in page.locator(".card .tokens").all_text_contents()]


def tokens(page: Any, row: int, state: str = "") -> Any:
    """Of a fill, those in a state."""
    return page.locator(".card").nth(row).locator(f".tokens .token{'.' + state if state else ''}")


def open_options(page: Any) -> None:
    """The panel, which is closed on a narrow screen."""
    if not page.get_by_label("Sweeps").is_visible():
        page.get_by_text("How the chain runs").click()
