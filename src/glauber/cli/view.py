"""The chain at work: text that settles out of noise in a terminal, pictures of images that do."""

import io
import os
import shutil
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from glauber.chain.driver import OnStep
from glauber.cli.files import save_image
from glauber.codec import ImageCodec, TextCodec, is_image_codec
from glauber.model import Model
from glauber.process import Process, Schedule
from glauber.process.draws import new_generator
from glauber.runtime.files import write
from glauber.tasks.template import row_texts

PLAIN, BOLD, RESET = "", "\033[1;7m", "\033[0m"
SIGNS = str.maketrans({"\n": "↵", "\r": "", "\t": " "})
PAUSE = 1 / 20  # seconds between frames


class View:
    """Draws the first row of a chain's states. `View(...)(given, shown)` is the `on_step` of one chain.

    A site that noise never visits any more is plain, the others are the dimmer the less of their signal is left; those just
    drawn are bold and inverted. A mask is a dot.
    """

    def __init__(self, codec: TextCodec, schedule: Schedule, out: TextIO | None = None):
        self.codec, self.schedule, self.out = codec, schedule, out or sys.stderr
        self.colours = ("\033[2m", "\033[2m") if "NO_COLOR" in os.environ else ("\033[90m", "\033[36m")
        self.drawn, self.last = 0, 0.0

    def __call__(self, given: Tensor | None = None, shown: int | None = None, stop: int = 0, **window: Any) -> OnStep:
        """For the given sites (L,), the number of sites to show, from the left, and the step at which the chain ends.

        window: where in the text it is, which this picture does not need.
        """
        given = torch.zeros(self.schedule.length, dtype=torch.bool) if given is None else given

        def on_step(t: int, x: Tensor) -> None:
            now = time.monotonic()
            if len(x) and (now - self.last >= PAUSE or t == stop):
                self.last = now
                self.draw(self.frame(t, x[0].cpu(), given, shown, stop))

        return on_step

    def frame(self, t: int, x: Tensor, given: Tensor, shown: int | None, stop: int = 0) -> list[str]:
        """The lines of one picture, none wider than the terminal."""
        size = shutil.get_terminal_size()
        schedule = self.schedule
        time_of = torch.tensor([t], device=schedule.order.device)
        survival = schedule.survival(time_of)[0].cpu()
        fresh = set(schedule.sites(time_of)[0].tolist()) if t < schedule.steps else set()
        cells = []
        for site, text in enumerate(row_texts(self.codec, x.tolist()[:shown])):
            left = 1.0 if given[site] else survival[site].item()
            style = PLAIN if left == 1 else self.colours[left >= 0.5]
            if site in fresh and not given[site]:
                style = BOLD
            cells += [(character, style) for character in text.translate(SIGNS) if character.isprintable()]
        title = f"step {schedule.steps - t:,} of {schedule.steps - stop:,}"
        return [title[: size.columns], *wrap(cells, size.columns)[: max(1, size.lines - 2)]]

    def draw(self, lines: list[str]) -> None:
        """In place of the picture before."""
        self.out.write(self._erasing() + "".join(line + "\n" for line in lines))
        self.out.flush()
        self.drawn = len(lines)

    def clear(self) -> None:
        """Take the last picture away."""
        self.out.write(self._erasing())
        self.out.flush()
        self.drawn = 0

    def _erasing(self) -> str:
        return f"\033[{self.drawn}A\033[J" if self.drawn else ""


class Camera:
    """Takes the pictures of a chain of images that were asked for; its `film` is the chain's `on_step`."""

    def __init__(self, codec: ImageCodec, process: Process, strip: Path | None, gif: Path | None):
        from glauber.pictures import Film, film_times, strip_times

        self.codec, self.process, self.strip, self.gif = codec, process, strip, gif
        self.film = Film([*(strip_times(process.schedule) if strip else []), *(film_times(process.schedule) if gif else [])])

    def save(self, seed: int | None) -> list[str]:
        """The files' names."""
        from glauber import pictures

        if self.strip is not None:
            save_image(pictures.strip(self.codec, self.process, self.film, new_generator(seed)), self.strip)
        if self.gif is not None:
            content = io.BytesIO()
            pictures.save_gif(pictures.film_frames(self.codec, self.process.schedule, self.film), content)
            write(self.gif, content.getvalue())
        return [str(file) for file in (self.strip, self.gif) if file is not None]


def camera_of(model: Model, schedule: Schedule, strip: Path | None, gif: Path | None) -> Camera:
    """One for the pictures that are wanted."""
    if not is_image_codec(model.codec):
        raise ValueError("this model makes no images, so its chain has no pictures; leave --strip and --gif out")
    return Camera(model.codec, Process(schedule, model.process.noise), strip, gif)


def view_of(codec: TextCodec | None, schedule: Schedule) -> View | None:
    """One for the terminal at hand; where there is none, a sentence says so."""
    if codec is None:
        raise ValueError("only text can be watched in a terminal, and this model has no text codec; leave --watch out")
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return View(codec, schedule)
    print("glauber: --watch needs a terminal, and there is none; the chain runs unseen", file=sys.stderr)
    return None


def wrap(cells: list[tuple[str, str]], columns: int) -> list[str]:
    """Characters and their styles as lines of at most so many columns."""
    lines, line, used, style = [], "", 0, PLAIN
    for character, wanted in cells:
        wide = 0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used + wide > columns:
            lines.append(line + (RESET if style else ""))
            line, used, style = "", 0, PLAIN
        if wanted != style:
            line += (RESET if style else "") + wanted
            style = wanted
        line, used = line + character, used + wide
    return [*lines, line + (RESET if style else "")]
