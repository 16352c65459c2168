"""What a chain did, as plain data: how it started, what each state changed. Replays hold it, and the page draws it.

    {"start": {"kind": "text", "sites": ["given" or "gap", ...], "tokens": [[...], ...], "pieces": [[...], ...], ...},
     "states": [{"step", "t", "changes": [[row, site, token, piece, "noise", "drawn" or "settled"], ...]}, ...],
     "done": {...} or None}

A settled site is not visited again. Of images the start and each state have "images", the URLs of their pictures.
"""

import base64
import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glauber.chain.driver import OnStep
from glauber.codec import ImageCodec, TextCodec, as_pictures
from glauber.process import Schedule
from glauber.tasks.template import row_texts

NOISE, DRAWN, SETTLED = "noise", "drawn", "settled"
PREFIX = "data:image/png;base64,"


class TextRecorder:
    """Keeps every state of a chain of texts, but for steps that pass only what is given. It is the `watch` of a task.

    Args:
        tokens, given: (n,) of the whole text, where it is longer than a row of the chain; else the first state tells both.
    """

    def __init__(self, codec: TextCodec, schedule: Schedule, tokens: Tensor | None = None, given: Tensor | None = None):
        self.codec, self.schedule, self.tokens, self.given = codec, schedule, tokens, given
        self.cells: dict[int, list[list[tuple[int, str]]]] = {}  # the last state of each window, by where it begins
        self.start: dict[str, Any] = {"kind": "text", "sites": [], "tokens": [], "pieces": []}
        self.states: list[dict[str, Any]] = []

    def __call__(self, given: Tensor, size: int, stop: int = 0, start: int = 0, rows: Tensor | None = None) -> OnStep:
        """For the given sites (L,) of the window that begins at `start`, how many of its sites are text, and the rows that are
        drawn there, perhaps again."""

        def on_step(t: int, x: Tensor) -> None:
            now = [[*zip(row, row_texts(self.codec, row), strict=True)] for row in x[:, :size].tolist()]
            if not self.start["sites"]:
                self._begin(slice(start, start + size), x[:, :size].cpu(), given[:size])
            before = self.cells.get(start)
            drawn = range(len(now)) if rows is None else rows.tolist()
            changes = self._changes(t, start, given, drawn, before or now, now)
            if changes and before:
                self.states.append({"step": self.schedule.steps - t, "t": t, "changes": changes})
            self.cells[start] = now

        return on_step

    def _begin(self, here: slice, x: Tensor, given: Tensor) -> None:
        """The whole text, of which the first window is in its first state; gaps beyond it have no token yet."""
        given = given if self.given is None else self.given
        tokens = torch.zeros(len(given), dtype=torch.int64) if self.tokens is None else self.tokens
        whole = torch.where(given, tokens, self.codec.vocab).repeat(len(x), 1)
        whole[:, here] = x
        self.start["sites"] = ["given" if each else "gap" for each in given.tolist()]
        self.start["tokens"] = whole.tolist()
        self.start["pieces"] = [row_texts(self.codec, row) for row in whole.tolist()]

    def _changes(
        self,
        t: int,
        begin: int,
        given: Tensor,
        drawn: Sequence[int],
        old: list[list[tuple[int, str]]],
        new: list[list[tuple[int, str]]],
    ) -> list[list[Any]]:
        """What a state has made in the rows that are drawn: all sites that were visited, and those with another text since."""
        time = torch.tensor([t], device=self.schedule.order.device)
        survival = self.schedule.survival(time)[0].tolist()
        visited = set(self.schedule.sites(time)[0].tolist()) if t < self.schedule.steps else set()
        return [
            [row, begin + site, *cell, _kind(survival[site])]
            for row in drawn
            for site, cell in enumerate(new[row])
            if not given[site] and (site in visited or cell != old[row][site])
        ]

    def recording(self, about: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
        """What was kept; `about` goes to the start."""
        return {"version": 1, "start": {**about, **self.start}, "states": self.states, "done": done}


def _kind(survival: float) -> str:
    """Of a token at a site of whose signal so much is left."""
    return SETTLED if survival == 1 else DRAWN if survival > 0 else NOISE


def image_recording(
    codec: ImageCodec, states: dict[int, Tensor], steps: int, about: dict[str, Any], done: dict[str, Any]
) -> dict[str, Any]:
    """Of the states (B, L) that a film has kept, by their times."""
    times = sorted(states, reverse=True)
    images = [image_urls(codec, states[t]) for t in times]
    start = {**about, "kind": "image", "rows": len(images[0]), "images": images[0]}
    later = [{"step": steps - t, "t": t, "images": urls} for t, urls in zip(times[1:], images[1:], strict=True)]
    return {"version": 1, "start": start, "states": later, "done": done}


def image_urls(codec: ImageCodec, tokens: Tensor) -> list[str]:
    """Each row as a PNG in a data URL; squares whose token is the mask are faint."""
    from glauber.pictures import decoded

    return [as_png(image) for image in as_pictures(decoded(codec, tokens.cpu()))]


def as_png(image: Any) -> str:
    """A PIL image as data:image/png;base64,…"""
    content = io.BytesIO()
    image.save(content, "png")
    return PREFIX + base64.b64encode(content.getvalue()).decode()
