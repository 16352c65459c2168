"""Samples of tokens that stand for no text, beside held-out ones: how varied they are, and what training data has of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glauber.data import open_shards, open_tokens
from glauber.evaluate.diversity import distinct, mean_entropy, pooled_entropy
from glauber.evaluate.overlap import joined, longest_overlaps
from glauber.evaluate.text import HEADER, SAMPLES, lengths, spread
from glauber.runtime.files import read_json

MOST = 2**26
"""Tokens of all samples."""


@dataclass(frozen=True)
class TokenRows:
    """Rows of tokens (N, L), and where they come from."""

    source: str
    rows: np.ndarray


def read_rows(source: str | Path, split: str = "valid") -> TokenRows | None:
    """What `glauber sample --out` wrote for a model without a codec; the rows of `split` of shards without one; or an .npy,
    (N, L) or a single row. None for anything else."""
    path, rows = Path(source), None
    if (path / HEADER).is_file():
        shards = open_shards(path)
        rows = None if shards.codec is not None else shards.rows(split)[:]
    elif (path / SAMPLES).is_file() or path.suffix == ".json":
        rows = _sampled(path / SAMPLES if path.is_dir() else path)
    elif path.suffix == ".npy":
        rows = np.atleast_2d(open_tokens(path))
    if rows is not None and not rows.size:
        raise ValueError(f"{source} holds no tokens; there is nothing to evaluate in it")
    return None if rows is None else TokenRows(str(source), rows)


def evaluate_rows(
    samples: TokenRows, reference: TokenRows, train: TokenRows | None = None, progress: bool = False
) -> dict[str, Any]:
    """The figures of the samples, and of as many rows of real data of their length; n-grams are those of as many rows of each
    as both have."""
    if len(samples.rows) < 2:
        raise ValueError(f"{samples.source} holds only one row; give at least two samples")
    if samples.rows.size > MOST:
        raise ValueError(f"{samples.source} holds more than {MOST:,} tokens; evaluate a part of them")
    sides = {"samples": list(samples.rows), "reference": _pieces(reference.rows, *samples.rows.shape)}
    report: dict[str, Any] = {"entropy_unit": "the tokens"}
    few = min(map(len, sides.values()))
    for (name, rows), given in zip(sides.items(), (samples, reference), strict=True):
        tokens = [row.tolist() for row in rows]
        report[name] = {
            "source": given.source,
            "number": len(rows),
            "tokens": float(np.mean([len(row) for row in rows])),
            "entropy": mean_entropy(tokens),
            "entropy_pooled": pooled_entropy(tokens),
            "distinct": [distinct(spread(tokens, few), n) for n in (1, 2, 3, 4)],
        }
    if train is not None:
        known = joined([_shifted(row) for row in train.rows])
        for name, rows in sides.items():
            found = longest_overlaps(known, [_shifted(row) for row in rows], progress)
            report[name]["overlap"] = {"tokens": lengths(found)}
    return report


def _pieces(rows: np.ndarray, number: int, length: int) -> list[np.ndarray]:
    """At most `number` pieces of that length, or whole rows where these are shorter, from all parts alike."""
    each = max(1, rows.shape[1] // length)
    chosen = np.linspace(0, len(rows) * each - 1, min(number, len(rows) * each)).round().astype(int)
    return [rows[k // each][k % each * length :][:length] for k in chosen]


def _shifted(row: np.ndarray) -> np.ndarray:
    """By one, since 0 equals nothing."""
    return row.astype(np.uint32) + np.uint32(1)


def _sampled(path: Path) -> np.ndarray | None:
    """The tokens of samples.json, if no texts stand beside them."""
    try:
        said = read_json(path)
        tokens = np.asarray(said["tokens"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return tokens if "texts" not in said and tokens.ndim == 2 and tokens.dtype.kind in "iu" else None
