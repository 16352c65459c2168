"""Run all samplers on all laws, and say which tell the truth at what cost."""

import math
from operator import itemgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from glauber.bench.oracle.picture import oracle_picture
from glauber.bench.oracle.samplers import Setting, chains, diffusions
from glauber.bench.oracle.spaces import Space, hidden_markov, small_table
from glauber.bench.oracle.unmasking import others
from glauber.runtime.files import write
from glauber.runtime.progress import watched

REPEATS = 20
"""Sets of true rows, which say what distance chance alone makes."""
SIGMAS = 4.0
"""A sampler is told apart from the truth where its distance is beyond that of chance by so many standard deviations."""


def bench_oracle(quick: bool = False, picture: Path | None = None) -> dict[str, Any]:
    """A row for each sampler, setting and law: network calls, total variation, and whether that is more than chance."""
    found = [measured(space, rows) for space, rows in spaces(quick)]
    for each in found:
        print_table(each)
    if picture is not None:
        write(picture, oracle_picture(found))
    return {"laws": found}


def spaces(quick: bool) -> list[tuple[Space, int]]:
    """The laws, and how many rows are drawn of each."""
    if quick:
        return [(small_table(3, 4), 2**13), (hidden_markov(8), 2**10)]
    return [(small_table(3, 4), 2**16), (hidden_markov(32), 2**13)]


def settings(L: int) -> list[Setting]:
    """All samplers for rows of L sites."""
    return [*chains(L), *diffusions(L), *others(L)]


def measured(space: Space, rows: int) -> dict[str, Any]:
    """All samplers on one law."""
    generator = torch.Generator().manual_seed(1)
    chance = [space.distance(space.sample(rows, generator)) for _ in range(REPEATS)]
    limit = mean(chance) + SIGMAS * stdev(chance)
    todo = settings(space.length)
    found = []
    for each in watched(todo, True, len(todo), space.name, "setting", leave=False):
        drawn = each.draw(space, rows, generator)
        distance = space.distance(drawn.tokens)
        said = {"family": each.family, "sampler": each.name, "setting": each.said, "exact": each.exact}
        found.append({**said, "calls": drawn.calls, "distance": distance, "told_apart": distance > limit})
    return {"law": space.name, "rows": rows, "chance": mean(chance), "chance_sd": stdev(chance), "found": found}


def print_table(law: dict[str, Any]) -> None:
    """A line for each sampler, a column for each power of two that its calls do not exceed, of its most calls."""
    columns = sorted({_column(row) for row in law["found"]})
    print(f"\n{law['law']}: total variation of {law['rows']:,} rows against network calls (NFE) a row")
    print(f"chance alone makes {law['chance']:.4f} ± {law['chance_sd']:.4f}; = not told apart from the truth")
    print(f"{'at most so many calls':52}" + "".join(f"{column:>8}" for column in columns))
    for name in dict.fromkeys(row["sampler"] for row in law["found"]):
        own = sorted((row for row in law["found"] if row["sampler"] == name), key=itemgetter("calls"))
        rows = {_column(row): row for row in own}
        print(f"{name:52}" + "".join(_cell(rows.get(column)) for column in columns).rstrip())


def _column(row: dict[str, Any]) -> int:
    return 1 << max(0, math.ceil(math.log2(row["calls"]) - 1e-9))


def _cell(row: dict[str, Any] | None) -> str:
    return " " * 8 if row is None else f"{row['distance']:7.3f}{' ' if row['told_apart'] else '='}"
