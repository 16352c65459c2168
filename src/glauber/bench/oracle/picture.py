"""The picture of `bench oracle`: distance against network calls. Needs matplotlib."""

import io
from collections.abc import Sequence
from typing import Any

SHOWN = (
    ("1 sweep, left to right", "GGM, 1 sweep, left to right", "#0072b2", "o-"),
    ("4 sweeps, random order", "GGM, 4 sweeps, random order", "#0072b2", "s--"),
    ("MDLM, first-hitting", "MDLM, first-hitting", "#d55e00", "o-"),
    ("MDLM, ancestral", "MDLM, ancestral", "#d55e00", "s--"),
    ("UDLM, ancestral", "UDLM", "#009e73", "o-"),
    ("ReMDM, cap 0.1", "ReMDM", "#cc79a7", "o-"),
    ("most certain first, chosen, then drawn", "most certain first", "#1e1e24", "o-"),
    ("MaskGIT: drawn, then the most certain kept", "MaskGIT", "#1e1e24", "s--"),
    ("entropy-bounded", "entropy-bounded", "#56b4e9", "^-"),
    ("Gibbs sampling from noise", "Gibbs sampling", "#8c8c96", "o-"),
)
"""Samplers by their name in the table, and how they are drawn; all would be too many."""


def oracle_picture(laws: Sequence[dict[str, Any]]) -> bytes:
    """A panel for each law, as .png."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture needs matplotlib: pip install 'glauber[demo]'") from error
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(laws), sharey=True, squeeze=False)[0]
    for axes, law in zip(panels, laws, strict=True):
        _panel(axes, law)
    panels[0].set_ylabel("total variation from the true law")
    panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=10)
    content = io.BytesIO()
    figure.savefig(content, dpi=110)
    return content.getvalue()


def _panel(axes: Any, law: dict[str, Any]) -> None:
    for name, label, colour, style in SHOWN:
        points = sorted((row["calls"], row["distance"]) for row in law["found"] if row["sampler"] == name)
        axes.plot(*zip(*points, strict=True), style, color=colour, markersize=4.5, linewidth=1.5, label=label)
    axes.axhspan(0, law["chance"] + 4 * law["chance_sd"], color="#e4e7ec", label="chance", zorder=0)
    axes.set(xscale="log", yscale="log", ylim=(law["chance"] / 3, 1), xlabel="network calls (NFE) a row", title=law["law"])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
