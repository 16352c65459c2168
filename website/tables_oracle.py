"""Tables of `bench oracle`: the distance of each sampler from the true law, by network calls."""

import math
from functools import partial
from typing import Any

from figures import Tables, markdown, raw

MOST = 128
"""Network calls of the last column."""


def column(row: dict[str, Any]) -> int:
    """The power of two that its calls do not exceed."""
    return 1 << max(0, math.ceil(math.log2(row["calls"]) - 1e-9))


def distances(number: int) -> str:
    """Of one law: a line for each sampler; bold where it is not told apart from the truth."""
    found = [row for row in raw("oracle")["laws"][number]["found"] if column(row) <= MOST]
    columns = sorted({column(row) for row in found})
    body = []
    for name in dict.fromkeys(row["sampler"] for row in found):
        own = {column(row): row for row in sorted(found, key=lambda row: float(row["calls"])) if row["sampler"] == name}
        body.append((name, *(cell(own.get(most)) for most in columns)))
    return markdown("|".join(("sampler", *(f"{most}:" for most in columns))), body)


def cell(row: dict[str, Any] | None) -> str:
    """A distance; nothing where the sampler has no such setting."""
    if row is None:
        return ""
    told = f"{row['distance']:.3f}"
    return told if row["told_apart"] else f"**{told}**"


ORACLE: Tables = {"oracle-table": partial(distances, 0), "oracle-markov": partial(distances, 1)}
