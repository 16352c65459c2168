"""The drawings of docs/concepts.md, by the code that they explain: `python experiments/drawings.py docs/media`."""

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt

from glauber import NoiseLaw, Process, Schedule

LETTERS = "abcdefghijklmnopqrstuvwxyz "
SENTENCE = "it was the best of times it was the worst of times"
BLUE, ORANGE, GREY, INK = "#0072b2", "#d55e00", "#c9ccd1", "#1f2328"
ORDERS = (("left-to-right", 1), ("right-to-left", 1), ("random", 1), ("strided", 4), ("segments", 4))
plt.rcParams.update(
    {"font.size": 13, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110, "savefig.bbox": "tight"}
)


def noised(out: Path) -> None:
    """A sentence at the start, after each of four sweeps with keep ½, and what was struck."""
    clean = torch.tensor([[LETTERS.index(letter) for letter in SENTENCE]])
    L, noise = clean.shape[1], NoiseLaw.unigram(clean[0].bincount(minlength=27))
    process = Process(Schedule.round_robin(L, 4 * L, keep=0.5), noise)
    generator = torch.Generator().manual_seed(4)
    x, struck = clean, torch.zeros(L, dtype=torch.bool)
    _, axes = plt.subplots(figsize=(10.5, 2.6))
    for sweep in range(5):
        axes.text(-1, -sweep, f"t = {sweep * L}", ha="right", va="center", color=INK)
        for site, token in enumerate(x[0].tolist()):
            style: dict[str, Any] = {"color": ORANGE, "weight": "bold"} if struck[site] else {"color": INK}
            axes.text(site, -sweep, LETTERS[token].replace(" ", "·"), ha="center", va="center", family="monospace", **style)
        if sweep < 4:
            hit = torch.rand(L, generator=generator) >= process.schedule.keep[sweep * L]
            x, struck = torch.where(hit, noise.sample((1, L), generator), x), struck | hit
    axes.set(xlim=(-6, L), ylim=(-4.6, 0.6))
    axes.axis("off")
    save(out / "concepts-noise.png")


def orders(out: Path) -> None:
    """The call by which each of sixteen sites is written, one sweep."""
    _, panels = plt.subplots(1, len(ORDERS), figsize=(13, 3), sharey=True)
    for axes, (name, block) in zip(panels, ORDERS, strict=True):
        schedule = Schedule.round_robin(16, 16, 0.0, name, block, generator=torch.Generator().manual_seed(1))
        for call, t in enumerate(reversed(schedule.times)):
            sites = schedule.sites(torch.tensor([t]))[0]
            axes.scatter(sites, torch.full_like(sites, call + 1), color=BLUE, marker="s", s=34)
        axes.set(
            title=f"{name}\n{16 // block} calls", xlabel="site", xticks=[0, 5, 10, 15], ylim=(17, 0), yticks=[1, 4, 8, 12, 16]
        )
    panels[0].set_ylabel("call")
    save(out / "concepts-orders.png")


def survivals(out: Path) -> None:
    """How much signal is left at a site after each visit."""
    _, axes = plt.subplots(figsize=(6.5, 3.2))
    for keep, last, label, colour, line in (
        (0.5, None, "keep ½, as in the paper", ORANGE, "--"),
        ("linear", None, "keep 'linear'", BLUE, "-"),
        (0.5, 0.0, "keep ½, ½, ½, 0", INK, ":"),
    ):
        schedule = Schedule.round_robin(1, 4, keep=keep, last_keep=last)
        left = schedule.survival(torch.arange(5))[:, 0]
        axes.plot(range(5), left, line, marker="o", color=colour, label=label)
    axes.set(xlabel="visits of the site", ylabel="survival S", xticks=range(5), ylim=(-0.03, 1.03))
    axes.legend(frameon=False)
    save(out / "concepts-survival.png")


def save(path: Path) -> None:
    """Write the figure and forget it."""
    plt.savefig(path)
    plt.close()


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a folder for the pictures")
    folder = parser.parse_args().out
    for draw in (noised, orders, survivals):
        draw(folder)


if __name__ == "__main__":
    main()
