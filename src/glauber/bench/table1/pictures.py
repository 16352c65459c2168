"""Pictures of a table: quality against network calls, and the bound against training time. Needs matplotlib."""

import io
from collections.abc import Sequence
from typing import Any

from glauber.bench.table1.plans import compared_methods

COLOURS = ("#f07828", "#1e1e24", "#8c8c96", "#2878c8", "#28a078", "#8c50b4", "#c83c64", "#b4a03c")
"""Of the methods, in the order of the registry."""


def colours() -> dict[str, str]:
    """Of each method of the table."""
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(compared_methods())}


def calls_picture(rows: Sequence[dict[str, Any]]) -> bytes | None:
    """Judge perplexity over network calls, a line for each method and kind of order; none where nothing was evaluated."""
    figure, axes = _paper("network calls of a sample", "judge's perplexity, lower is better")
    from matplotlib.ticker import LogLocator, NullLocator

    for method, colour in colours().items():
        scored = [row for row in rows if row["method"] == method and row["judge_ppl"] is not None]
        for order, style in (("left to right", "o-"), ("random order", "o--")):
            found = [row for row in scored if (row["order"] == "random") == (style == "o--")]
            name = f"{method}, {order}" if len({row["order"] for row in scored}) > 1 else method
            points = sorted((row["calls"], row["judge_ppl"]) for row in found)
            if points:
                axes.plot(*zip(*points, strict=True), style, color=colour, markersize=4, linewidth=1.6, label=name)
    if not axes.lines:
        return None
    for row in rows:
        if row["method"] == "real" and row["judge_ppl"] is not None:
            axes.axhline(row["judge_ppl"], color="#cdd4e0", linewidth=1.6, label="real text", zorder=0)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(sorted({row["calls"] for row in rows if row["calls"]}))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.xaxis.set_minor_locator(NullLocator())
    return _drawn(figure, axes)


def bounds_picture(curves: dict[str, Sequence[tuple[float, float]]]) -> bytes | None:
    """Bits per character of the validation rows over the seconds of training; `curves` by method, and what is said of it."""
    figure, axes = _paper("seconds of training", "bound on validation rows, bits per character")
    for name, points in curves.items():
        if points:
            colour = colours()[name.partition(",")[0]]
            style = "o--" if "sweeps" in name else "o-"
            axes.plot(*zip(*points, strict=True), style, color=colour, markersize=3, linewidth=1.6, label=name)
    return _drawn(figure, axes) if axes.lines else None


def _paper(x: str, y: str) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the table's pictures need matplotlib: pip install 'glauber[demo]'") from error
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _drawn(figure: Any, axes: Any) -> bytes:
    """As .png, with the names beside it."""
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
    content = io.BytesIO()
    figure.savefig(content, dpi=130)
    return content.getvalue()
