"""The picture of `bench oracle`: distance against network calls. Needs matplotlib."""

from collections.abc import Sequence
from typing import Any

from glauber import plots

SHOWN = (
    ("1 sweep, left to right", "GGM, 1 sweep, left to right", plots.RED, "o-"),
    ("4 sweeps, random order", "GGM, 4 sweeps, random order", plots.RED, "s--"),
    ("MDLM, first-hitting", "MDLM, first-hitting", plots.BLUE, "o-"),
    ("MDLM, ancestral", "MDLM, ancestral", plots.BLUE, "s--"),
    ("UDLM, ancestral", "UDLM", plots.PINK, "o-"),
    ("ReMDM, cap 0.1", "ReMDM", plots.GREEN, "o-"),
    ("most certain first, chosen, then drawn", "most certain first", plots.INK, "o-"),
    ("MaskGIT: drawn, then the most certain kept", "MaskGIT", plots.INK, "s--"),
    ("entropy-bounded", "entropy-bounded", plots.SKY, "^-"),
    ("Gibbs sampling from noise", "Gibbs sampling", plots.GREY, "o-"),
)
"""Samplers by their name in the table, and how they are drawn: methods as by `bench table1`. All would be too many."""


def oracle_picture(laws: Sequence[dict[str, Any]]) -> bytes:
    """A panel for each law, as .png."""
    figure, axes = plots.panels(1, len(laws), size=(11, 4.4), sharey=True, squeeze=False)
    for each, law in zip(axes[0], laws, strict=True):
        _panel(each, law)
    axes[0][0].set_ylim(min(law["chance"] for law in laws) / 3, 1)
    axes[0][0].set_ylabel("total variation from the true law")
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return plots.png(figure)


def _panel(axes: Any, law: dict[str, Any]) -> None:
    for name, label, colour, style in SHOWN:
        points = sorted((row["calls"], row["distance"]) for row in law["found"] if row["sampler"] == name)
        axes.plot(*zip(*points, strict=True), style, color=colour, markersize=5, label=label)
    axes.axhspan(0, law["chance"] + 4 * law["chance_sd"], color=plots.LIGHT, label="chance", zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="network calls (NFE) a row", title=law["law"])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
