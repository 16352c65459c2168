"""The drawings of the docs, by the code that they explain: `python experiments/drawings.py docs/media`."""

import argparse
from pathlib import Path
from typing import Any

import torch
from diagrams import architecture, step

from glauber import NoiseLaw, Process, Schedule
from glauber.plots import BLUE, INK, RED, panels, png

LETTERS = "abcdefghijklmnopqrstuvwxyz "
SENTENCE = "it was the best of times"
ORDERS = (("left-to-right", 1), ("right-to-left", 1), ("random", 1), ("strided", 4), ("segments", 4))


def noised() -> bytes:
    """A sentence at the start, after each of four sweeps with keep ½, and what was struck."""
    clean = torch.tensor([[LETTERS.index(letter) for letter in SENTENCE]])
    L, noise = clean.shape[1], NoiseLaw.unigram(clean[0].bincount(minlength=27))
    process = Process(Schedule.round_robin(L, 4 * L, keep=0.5), noise)
    generator = torch.Generator().manual_seed(4)
    x, struck = clean, torch.zeros(L, dtype=torch.bool)
    figure, axes = panels(size=(7, 2.6))
    for sweep in range(5):
        axes.text(-1, -sweep, f"t = {sweep * L}", ha="right", va="center", color=INK)
        for site, token in enumerate(x[0].tolist()):
            style: dict[str, Any] = {"color": RED, "weight": "bold"} if struck[site] else {"color": INK}
            axes.text(
                site,
                -sweep,
                LETTERS[token].replace(" ", "·"),
                ha="center",
                va="center",
                family="monospace",
                fontsize=16,
                **style,
            )
        if sweep < 4:
            hit = torch.rand(L, generator=generator) >= process.schedule.keep[sweep * L]
            x, struck = torch.where(hit, noise.sample((1, L), generator), x), struck | hit
    axes.set(xlim=(-4, L), ylim=(-4.6, 0.6))
    axes.axis("off")
    return png(figure)


def orders() -> bytes:
    """The call by which each of sixteen sites is written, one sweep."""
    figure, axes = panels(1, len(ORDERS), size=(13, 3.4), sharey=True)
    for each, (name, block) in zip(axes, ORDERS, strict=True):
        schedule = Schedule.round_robin(16, 16, 0.0, name, block, generator=torch.Generator().manual_seed(1))
        for call, t in enumerate(reversed(schedule.times)):
            sites = schedule.sites(torch.tensor([t]))[0]
            each.scatter(sites, torch.full_like(sites, call + 1), color=BLUE, marker="s", s=44)
        title = f"{name}\n{16 // block} calls"
        each.set(title=title, xlabel="site", xticks=[0, 5, 10, 15], ylim=(17, 0), yticks=[1, 4, 8, 12, 16])
    axes[0].set_ylabel("call")
    return png(figure)


def survivals() -> bytes:
    """How much signal is left at a site after each visit."""
    figure, axes = panels(size=(6.5, 3.4))
    for keep, last, label, colour, line in (
        (0.5, None, "keep ½, as in the paper", RED, "--"),
        ("linear", None, "keep 'linear'", BLUE, "-"),
        (0.5, 0.0, "keep ½, ½, ½, 0", INK, ":"),
    ):
        schedule = Schedule.round_robin(1, 4, keep=keep, last_keep=last)
        left = schedule.survival(torch.arange(5))[:, 0]
        axes.plot(range(5), left, line, marker="o", color=colour, label=label)
    axes.set(xlabel="visits of the site", ylabel="survival S", xticks=range(5), ylim=(-0.03, 1.03))
    axes.legend()
    return png(figure)


DRAWINGS = {
    "concepts-noise": noised,
    "concepts-orders": orders,
    "concepts-survival": survivals,
    "concepts-step": step,
    "architecture": architecture,
}


def main() -> None:
    """Read the arguments; write all drawings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a folder for the pictures")
    folder = parser.parse_args().out
    for name, draw in DRAWINGS.items():
        (folder / f"{name}.png").write_bytes(draw())


if __name__ == "__main__":
    main()
