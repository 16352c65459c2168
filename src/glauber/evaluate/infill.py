"""How well gaps were filled, beside the true filling."""

import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glauber.evaluate.judge import Judge
from glauber.evaluate.score_cache import ScoreCache
from glauber.runtime.files import json_lines


class Fill(NamedTuple):
    """A text with a gap: what stands before it, what was filled in, what was there in truth, what comes after."""

    prefix: str
    fill: str
    truth: str
    suffix: str
    fill_tokens: list[int] | None = None
    truth_tokens: list[int] | None = None


def recovery(fill: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Share of the places of the truth where the fill has the same token."""
    if not truth:
        raise ValueError("a true filling must have at least one token")
    return sum(a == b for a, b in zip(fill, truth, strict=False)) / len(truth)


def given_both_sides(
    judge: Judge, fills: Sequence[Fill], cache: ScoreCache | None = None, progress: bool = False
) -> list[list[float]]:
    """-log P(fill, suffix | prefix) in nats for the fills and for the truths: NLL of the whole text less NLL of its prefix.

    The suffix counts, too: a fill that does not lead up to it makes it unlikely. With no prefix, the first token has no term.
    """
    texts = [fill.prefix + middle + fill.suffix for fill in fills for middle in (fill.fill, fill.truth)]
    prefixes = [fill.prefix for fill in fills]
    different = list(dict.fromkeys([*texts, *prefixes]))
    long_ = [text for text, ids in zip(different, judge.tokens(different), strict=True) if len(ids) > 1]
    scores = judge.scores(long_, cache=cache, progress=progress)
    nll = dict.fromkeys(different, 0.0) | {text: score.nll for text, score in zip(long_, scores, strict=True)}
    before = [nll[prefix] for prefix in prefixes]
    return [[nll[text] - less for text, less in zip(texts[k::2], before, strict=True)] for k in (0, 1)]


def read_fills(path: Path) -> list[Fill]:
    """Lines of JSON with "prefix", "fill", "truth", "suffix", and maybe "fill_tokens" and "truth_tokens"."""
    fills = []
    for number, record in json_lines(path):
        try:
            made = Fill(**{name: record[name] for name in Fill._fields if name in record or name not in Fill._field_defaults})
            good = all(isinstance(part, str) for part in made[:4]) and made.truth.strip() != ""
            good = good and all(tokens is None or isinstance(tokens, list) for tokens in made[4:])
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise ValueError(f"line {number} of {path} is no filled gap: it needs texts prefix, fill, truth and suffix")
        fills.append(made)
    if not fills:
        raise ValueError(f"{path} holds no filled gap; each line needs texts prefix, fill, truth and suffix")
    return fills


def evaluate_fills(
    fills: Sequence[Fill], judges: Sequence[str | Judge], partial: Path | None = None, progress: bool = False
) -> dict[str, Any]:
    """Recovery in the model's tokens where the file has them and else in words, and each judge's NLL beside the truth's."""
    in_tokens = all(fill.fill_tokens is not None and fill.truth_tokens for fill in fills)
    pairs = [
        (fill.fill_tokens or [], fill.truth_tokens or []) if in_tokens else (fill.fill.split(), fill.truth.split())
        for fill in fills
    ]
    report: dict[str, Any] = {
        "number": len(fills),
        "recovery": math.fsum(recovery(*pair) for pair in pairs) / len(pairs),
        "recovery_unit": "tokens" if in_tokens else "words",
        "judges": [],
    }
    cache = ScoreCache(partial)
    for name in judges:
        judge = name if isinstance(name, Judge) else Judge(name, progress)
        ours, true = given_both_sides(judge, fills, cache, progress)
        gaps = [a - b for a, b in zip(ours, true, strict=True)]
        mean = math.fsum(gaps) / len(gaps)
        error = math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / max(1, len(gaps) - 1) / len(gaps))
        report["judges"].append(
            {
                "judge": judge.name,
                "fill": _mean(ours, [fill.fill + fill.suffix for fill in fills]),
                "truth": _mean(true, [fill.truth + fill.suffix for fill in fills]),
                "difference": mean,
                "difference_error": error if len(gaps) > 1 else None,
            }
        )
    return report


def _mean(nll: list[float], scored: list[str]) -> dict[str, Any]:
    """In nats per text, which a shorter fill makes less, and per character of what was scored, over all texts together."""
    total = math.fsum(nll)
    return {"nll": total / len(nll), "nll_per_character": total / max(1, sum(map(len, scored))), "all": nll}
