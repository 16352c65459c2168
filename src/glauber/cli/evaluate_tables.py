"""The tables that `evaluate` prints."""

from typing import Any

Cell = float | int | str | None


def print_report(report: dict[str, Any]) -> None:
    """A table of what was evaluated: fills, texts or tokens."""
    if "recovery" in report:
        _print_fills(report)
    elif "characters" in report["samples"]:
        _print_texts(report)
    else:
        _print_tokens(report)


def _print_texts(report: dict[str, Any]) -> None:
    """A table of two columns, and the passages nearest to the training text."""
    both = [report["samples"], report["reference"]]
    rows: list[tuple[str, list[Cell]]] = [
        ("texts", [side["number"] for side in both]),
        ("characters of each", [side["characters"] for side in both]),
    ]
    if any(side["empty"] for side in both):
        rows.insert(1, ("empty texts, left out", [side["empty"] for side in both]))
    for k, judge in enumerate(both[0].get("judges", [])):
        ours = [side["judges"][k] for side in both]
        rows += [
            (f"judge {judge['judge']}"[:46], ["", ""]),
            ("  its tokens", [side["tokens"] for side in ours]),
            ("  perplexity, the paper's mean of exp NLL", [side["perplexity_paper"] for side in ours]),
            ("  perplexity, the usual exp of the mean", [side["perplexity"] for side in ours]),
            ("  bits per character", [side["bits_per_character"] for side in ours]),
        ]
    if "mauve" in both[0]:
        rows.append((f"MAUVE, {both[0]['mauve']['number']} against {both[0]['mauve']['number']} real", list(map(_mauve, both))))
    rows += [
        ("entropy within a text, nats", [side["entropy"] for side in both]),
        ("entropy of all texts together, nats", [side["entropy_pooled"] for side in both]),
    ]
    rows += [(f"distinct {n + 1}-grams of words", [side["distinct"][n] for side in both]) for n in range(4)]
    if "overlap" in both[0]:
        rows += [
            ("letters in words of the training text", [side["known_letters"] for side in both]),
            ("word triples that the training text has", [side["known_triples"] for side in both]),
        ]
        rows += [
            (f"shared with it, {unit}: {what}", [side["overlap"][unit][what] for side in both])
            for unit in ("characters", "words")
            for what in ("mean", "max")
        ]
    _print_rows(["samples", "real text"], rows)
    print(f"entropy is that of {report['entropy_unit']}")
    for name, side in zip(("samples", "real text"), both, strict=True):
        if "overlap" in side:
            nearest = side["overlap"]["nearest"]
            print(f"longest run shared with the training text ({name}, number {nearest['sample'] + 1}):")
            print(f"  {_line(nearest['shared'])}\n  in: {_line(nearest['training_passage'])}")


def _print_tokens(report: dict[str, Any]) -> None:
    """A table of two columns."""
    both = [report["samples"], report["reference"]]
    rows: list[tuple[str, list[Cell]]] = [
        ("rows", [side["number"] for side in both]),
        ("tokens of each", [side["tokens"] for side in both]),
        ("entropy within a row, nats", [side["entropy"] for side in both]),
        ("entropy of all rows together, nats", [side["entropy_pooled"] for side in both]),
    ]
    rows += [(f"distinct {n + 1}-grams of tokens", [side["distinct"][n] for side in both]) for n in range(4)]
    if "overlap" in both[0]:
        rows += [
            (f"longest run shared with the training data: {what}", [side["overlap"]["tokens"][what] for side in both])
            for what in ("mean", "max")
        ]
    _print_rows(["samples", "real data"], rows)


def _print_fills(report: dict[str, Any]) -> None:
    """Fills, and the truth."""
    rows: list[tuple[str, list[Cell]]] = [
        ("gaps", [report["number"], report["number"]]),
        (f"{report['recovery_unit']} as in the truth", [report["recovery"], 1.0]),
    ]
    for judge in report["judges"]:
        rows += [
            (f"judge {judge['judge']}"[:46], ["", ""]),
            ("  NLL of fill and what follows, nats", [judge["fill"]["nll"], judge["truth"]["nll"]]),
            ("  per character of these", [judge[side]["nll_per_character"] for side in ("fill", "truth")]),
            ("  more than the truth, nats", [judge["difference"], None]),
            ("  standard error of that", [judge["difference_error"], None]),
        ]
    _print_rows(["fills", "truth"], rows)


def _print_rows(heads: list[str], rows: list[tuple[str, list[Cell]]]) -> None:
    """At most 80 columns wide."""
    print(f"{'':<46}" + "".join(f"{head:>16}" for head in heads))
    for name, cells in rows:
        print((f"{name:<46}" + "".join(f"{_cell(cell):>16}" for cell in cells)).rstrip())


def _cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def _mauve(side: dict[str, Any]) -> str:
    return f"{side['mauve']['mean']:.3f} ± {side['mauve']['std']:.3f}"


def _line(text: str, most: int = 500) -> str:
    """On one line, and not too long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
