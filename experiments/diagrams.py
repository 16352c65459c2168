"""Diagrams of boxes and arrows: one step of the chain, and what the parts of the code hand to each other."""

from typing import Any

import torch

from glauber import NoiseLaw, Oracle, Process, Schedule
from glauber.plots import BLUE, GREY, INK, LIGHT, RED, panels, png

Point = tuple[float, float]


def box(axes: Any, centre: Point, size: Point, text: str, edge: str = GREY, face: str = "white", **style: Any) -> None:
    """A box with a text in it."""
    from matplotlib.patches import FancyBboxPatch

    corner = centre[0] - size[0] / 2, centre[1] - size[1] / 2
    look: Any = {"boxstyle": "round,pad=0,rounding_size=0.06", "edgecolor": edge, "facecolor": face, "linewidth": 1.6}
    axes.add_patch(FancyBboxPatch(corner, *size, **look))
    axes.text(*centre, text, ha="center", va="center", color=INK, **style)


def arrow(axes: Any, start: Point, end: Point, text: str = "", above: float = 0.16, colour: str = GREY) -> None:
    """An arrow with a text at its middle."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "mutation_scale": 16})
    if text:
        axes.text(
            (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + above, text, ha="center", va="center", color=INK, size=11.5
        )


def paper(size: Point, right: float, top: float) -> tuple[Any, Any]:
    """A figure without axes."""
    figure, axes = panels(size=size)
    axes.set(xlim=(0, right), ylim=(0, top), aspect="equal")
    axes.axis("off")
    return figure, axes


def tokens(axes: Any, left: float, y: float, word: str, site: int, shown: str) -> None:
    """A row of sites, one of which is looked at."""
    for k, letter in enumerate(word):
        here = k == site
        box(axes, (left + 0.62 * k, y), (0.54, 0.54), shown if here else letter, RED if here else GREY, fontsize=15)


def bars(axes: Any, left: float, bottom: float, law: torch.Tensor, colour: str, names: str) -> None:
    """A law over a few letters."""
    for k, share in enumerate(law.tolist()):
        axes.bar(left + 0.36 * k, 2 * share, 0.28, bottom, color=colour)
        axes.text(left + 0.36 * k, bottom - 0.17, names[k], ha="center", va="center", size=11.5, color=INK)


def laws() -> tuple[torch.Tensor, torch.Tensor]:
    """Of the last letter of "c a ?", from the words cat, car, cab, bat and cup: the clean conditional, and the noise law."""
    letters, words = "abcprtu", {"cat": 4.0, "car": 2.0, "cab": 1.0, "bat": 2.0, "cup": 2.0}
    table = torch.zeros(7, 7, 7, dtype=torch.float64)
    for word, weight in words.items():
        table[tuple(letters.index(letter) for letter in word)] = weight
    noise = NoiseLaw.uniform(7)
    process = Process(Schedule.round_robin(3, 6, keep="linear"), noise)
    x = torch.tensor([[letters.index("c"), letters.index("a"), noise.mask]])
    t = torch.tensor([2])  # the first two sites have been visited once in the sweep, this one not yet
    law = Oracle(table / table.sum(), noise)(x, t, process.schedule.survival(t), torch.tensor([[2]]))
    return law[0, 0].exp(), noise.probs


def step() -> bytes:
    """One step of the chain."""
    figure, axes = paper((9, 3.5), 14.4, 5.6)
    names = "abcprtu"
    clean, noise = laws()
    tokens(axes, 0.5, 2.5, "cau", 2, "u")
    axes.text(1.1, 3.15, "at t + 1", ha="center", color=INK)
    tokens(axes, 3.7, 2.5, "ca?", 2, "?")
    axes.text(4.3, 3.15, "hide a site", ha="center", color=INK)
    arrow(axes, (2.15, 2.5), (3.3, 2.5))
    arrow(axes, (5.35, 2.7), (7.0, 3.8), "signal: S", 0.75, BLUE)
    arrow(axes, (5.35, 2.3), (7.0, 1.0), "noise: 1 − S", -0.85, RED)
    for bottom, law, colour, text in (
        (3.65, clean, BLUE, "clean conditional c: the network"),
        (0.62, noise, RED, "noise law π: no call"),
    ):
        bars(axes, 7.45, bottom, law, colour, names)
        axes.text(8.55, bottom + 2 * law.max().item() + 0.28, text, ha="center", color=INK)
    arrow(axes, (10.1, 3.8), (11.9, 2.75), "draw", 0.5, BLUE)
    arrow(axes, (10.1, 1.0), (11.9, 2.25), "draw", -0.5, RED)
    tokens(axes, 12.4, 2.5, "cat", 2, "t")
    axes.text(13.0, 3.15, "at t", ha="center", color=INK)
    return png(figure)


def architecture() -> bytes:
    """What the parts hand to each other: training above, sampling below."""
    figure, axes = paper((9.4, 4.0), 14.4, 6.0)
    high, wide = 0.95, 2.3
    for y, label in ((4.9, "training"), (1.1, "sampling")):
        axes.text(0.15, y + 0.78, label, color=GREY, size=13, weight="bold")
    above = (("text, images,\ntokens", "white"), ("codec/", LIGHT), ("process/\nnoise", LIGHT), ("objective/\nloss", LIGHT))
    for k, (text, face) in enumerate(above):
        box(axes, (1.3 + 3.9 * k, 4.9), (wide, high), text, face=face)
    for k, text in enumerate(("", "tokens x₀", "xₜ, survival")):
        arrow(axes, (1.3 + 3.9 * k + wide / 2, 4.9), (1.3 + 3.9 * (k + 1) - wide / 2, 4.9), text, 0.24)
    box(axes, (9.1, 3.0), (wide + 1.6, high), "conditional/\nP(site | the other sites)", BLUE)
    arrow(axes, (12.6, 4.4), (11.15, 3.3), colour=BLUE)
    axes.text(12.35, 3.62, "teaches", color=INK, size=11.5)
    arrow(axes, (9.1, 2.5), (9.1, 1.62), colour=BLUE)
    axes.text(9.3, 2.07, "answers", color=INK, size=11.5, va="center")
    below = (
        ("text, images,\ntokens", "white"),
        ("codec/", LIGHT),
        ("chain/", LIGHT),
        ("orders,\nsweeps, calls", "white"),
    )
    for k, (text, face) in enumerate(below):
        box(axes, (1.3 + 3.9 * k, 1.1), (wide, high), text, face=face)
    for k, text in enumerate(("", "tokens x₀")):
        arrow(axes, (1.3 + 3.9 * (k + 1) - wide / 2, 1.1), (1.3 + 3.9 * k + wide / 2, 1.1), text, 0.24)
    arrow(axes, (13.0 - wide / 2, 1.1), (9.1 + wide / 2, 1.1))
    return png(figure)
