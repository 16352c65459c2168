"""The one style of all figures, for the colour-blind and for half the size. Needs matplotlib."""

import io
from typing import Any

BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a400"
INK, GREY, LIGHT = "#1f2328", "#7a8088", "#d5d9de"
COLOURS = (RED, INK, GREY, BLUE, GREEN, PINK, ORANGE, SKY)
"""For lines that are side by side, the most important one first: Okabe and Ito's."""
STYLE: Any = {
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "legend.frameon": False,
    "legend.fontsize": 11.5,
}


def panels(rows: int = 1, columns: int = 1, size: tuple[float, float] = (8, 4.2), **options: Any) -> tuple[Any, Any]:
    """A figure, and its axes as matplotlib's subplots gives them."""
    try:
        from matplotlib import rcParams
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures of figures need matplotlib: pip install 'glauber[demo]'") from error
    rcParams.update(STYLE)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **options)


def plain_ticks(axis: Any, values: list[float]) -> None:
    """These numbers at an axis with a logarithmic scale, written as they are, and none between."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def png(figure: Any) -> bytes:
    """The figure as a file."""
    content = io.BytesIO()
    figure.savefig(content, dpi=120, bbox_inches="tight")
    return content.getvalue()
