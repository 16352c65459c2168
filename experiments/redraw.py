"""The figures of docs/results from their raw files, in the one style: `python experiments/redraw.py docs/results`."""

import argparse
import json
from pathlib import Path
from typing import Any

import calls
import language
import losses

from glauber.bench.table1 import pictures

OLDER = {"mlm-gibbs": "mlm"}
"""Methods by the names that the figures of other days have."""


def raw(folder: Path, name: str) -> Any:
    """A file of figures."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def drawn(folder: Path) -> dict[str, bytes | None]:
    """Every figure by its name."""
    table, budgets = raw(folder, "table1"), raw(folder, "calls")
    rows = [row | {"method": OLDER.get(row["method"], row["method"])} for row in table["rows"]]
    curves = {name.replace("reading", "left to right"): curve for name, curve in table["curves"].items()}
    return {
        "table1-calls": pictures.calls_picture(rows),
        "table1-bounds": pictures.bounds_picture(curves),
        "calls": calls.draw_table(calls.scored(budgets), budgets["real"]["perplexity"]),
        "sweeps": language.draw_sweeps(raw(folder, "language")),
        "losses-letters": losses.draw(raw(folder, "losses-letters")["runs"]),
    }


def main() -> None:
    """Read the arguments; write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds the raw files; the figures go there, too")
    folder = parser.parse_args().folder
    for name, content in drawn(folder).items():
        if content:
            (folder / f"{name}.png").write_bytes(content)


if __name__ == "__main__":
    main()
