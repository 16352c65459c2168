"""Pictures of a table: quality against network calls, and the bound against training time. Needs matplotlib."""

from collections.abc import Sequence
from typing import Any

from glauber import plots
from glauber.bench.table1.plans import compared_methods

TICKS = [part * 10**power for power in range(5) for part in (1, 2, 5)]


def colours() -> dict[str, str]:
    """Of each method of the table."""
    return {name: plots.COLOURS[k % len(plots.COLOURS)] for k, name in enumerate(compared_methods())}


def calls_picture(rows: Sequence[dict[str, Any]]) -> bytes | None:
    """Judge perplexity over network calls, a line for each method and kind of order; none where nothing was evaluated."""
    figure, axes = _paper("network calls of a sample", "judge's perplexity")
    for method, colour in colours().items():
        scored = [row for row in rows if row["method"] == method and row["judge_ppl"] is not None]
        for order, style in (("left to right", "o-"), ("random order", "o--")):
            found = [row for row in scored if (row["order"] == "random") == (style == "o--")]
            name = f"{method}, {order}" if len({row["order"] for row in scored}) > 1 else method
            points = sorted((row["calls"], row["judge_ppl"]) for row in found)
            if points:
                axes.plot(*zip(*points, strict=True), style, color=colour, label=name)
    if not axes.lines:
        return None
    for row in rows:
        if row["method"] == "real" and row["judge_ppl"] is not None:
            axes.axhline(row["judge_ppl"], color=plots.LIGHT, label="real text", zorder=0)
    axes.set(xscale="log", yscale="log")
    plots.plain_ticks(axes.xaxis, sorted({row["calls"] for row in rows if row["calls"]}))
    plots.plain_ticks(axes.yaxis, [tick for tick in TICKS if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]])
    return _drawn(figure, axes)


def bounds_picture(curves: dict[str, Sequence[tuple[float, float]]]) -> bytes | None:
    """Bits per character of the validation rows over the seconds of training; `curves` by method, and what is said of it."""
    figure, axes = _paper("seconds of training", "bound on validation rows, bits per character")
    for name, points in curves.items():
        if points:
            colour = colours()[name.partition(",")[0]]
            style = "o--" if "sweeps" in name else "o-"
            axes.plot(*zip(*points, strict=True), style, color=colour, markersize=4, label=name)
    return _drawn(figure, axes) if axes.lines else None


def _paper(x: str, y: str) -> tuple[Any, Any]:
    figure, axes = plots.panels()
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def _drawn(figure: Any, axes: Any) -> bytes:
    """As .png, with the names beside it."""
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return plots.png(figure)
