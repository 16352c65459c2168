"""What all tables need: the raw files, and rows as Markdown."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Tables = dict[str, Callable[[], str]]
"""A function for each table, by its name in a page."""
ROOT = Path(__file__).parents[1]
PARTS, FORWARD, RANDOM = "in parts", "left to right", "random"
ORDERS = {"onward": PARTS, "segments": PARTS, "reading": FORWARD, "right": FORWARD, "left-to-right": FORWARD}
"""Orders of writing, by the names in the raw files, some of which are older than today's."""

METHODS = {"mlm-gibbs": "mlm"}
"""Methods of the table of methods, the same way."""


def raw(name: str) -> Any:
    """A file of docs/results."""
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def markdown(header: str, rows: Iterable[Iterable[object]]) -> str:
    """A table. Names in the header are parted by bars; a column whose name ends in a colon is of figures."""
    names = header.split("|")
    head = [name.strip().removesuffix(":") for name in names]
    rule = "|".join("---:" if name.strip().endswith(":") else "---" for name in names)
    lines = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    assert all(len(line) == len(names) for line in lines), header
    return "\n".join(["| " + " | ".join(head) + " |", f"|{rule}|", *("| " + " | ".join(line) + " |" for line in lines)])


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits behind the point; nothing where there is no value. A minus sign is a minus sign."""
    return "" if value is None else f"{value:,.{digits}f}".replace("-", "−")


def with_error(value: float, error: float, digits: int = 3) -> str:
    """A value and its standard error."""
    return f"{value:.{digits}f} ± {error:.{digits}f}"
