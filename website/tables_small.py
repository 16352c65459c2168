"""Tables of what was run in minutes on a CPU: gaps, the time that is foreseen, chorales, Sudoku, the page."""

import re
from typing import Any

from figures import Tables, markdown, number, raw, with_error

CLASSES = ("easy", "medium", "hard")
CELLS = {"raster": "from the first", "random": "random", "certain": "most certain first", None: "all at once"}
NOISE = {True: "marked", False: "anonymous", None: ""}
NAMES = {
    "text": "Python's source, by letters",
    "tokens": "Bach's chorales, four voices",
    "images": "glyphs of DejaVu, 16×16 pixels",
    "from_novels": "*Moby-Dick*, `--init novels`",
    "anew": "*Moby-Dick*, anew",
}


def lengths() -> str:
    """How far gaps of unknown length are from the exact law, by draws."""
    body = [(draws, number(row["distance"]), number(row["effective"], 1)) for draws, row in raw("lengths")["draws"].items()]
    return markdown("draws:|distance from the exact law:|effective sample size:", body)


def seams() -> str:
    """Unknown words beside what is given, of the truth and of fills."""
    found = {kind: raw(f"seams-{kind}") for kind in ("raw", "word")}
    rows = {"the truth": found["raw"]["truth"]} | {kind: each[kind] for kind, each in found.items()}
    body = []
    for name, row in rows.items():
        shares = (row[each] for each in ("half word before", "half word behind", "doubled blank"))
        body.append((name, found["raw"]["number"], *(f"{100 * share:.1f} %" for share in shares), number(row.get("calls"), 1)))
    return markdown("what stands in the gap|gaps:|first word unknown:|last word unknown:|doubled blank:|calls:", body)


def finetune() -> str:
    """Bits per character of another author, of the model in the box and of what was trained."""
    found = raw("finetune")
    rows = {
        "novels_as_it_is": "`novels` as it is",
        "from_novels": "`--init novels`",
        "anew": "anew, letters, 3 layers of width 64",
    }
    body = [(told, found[name].get("steps", 0), _bits(found[name])) for name, told in rows.items()]
    return markdown("model|steps:|bits per character:", body)


def _bits(row: dict[str, Any]) -> str:
    return with_error(row["bits_per_character"], row["standard_error_per_character"])


def foreseen() -> str:
    """Seconds that were foreseen, and those that it took."""
    tuned, chosen = raw("finetune"), raw("chosen")
    rows = [
        (name, _announced(tuned[name]), tuned[name], tuned[name]["load_averages_1_5_15_min"]["after"])
        for name in ("from_novels", "anew")
    ]
    for name in ("text", "tokens", "images"):
        bare = chosen[name]["bare"]
        rows.append((name, bare["foreseen"]["seconds"], bare, bare["load_averages_1_5_15_min"]))
    body = [
        (NAMES[name], number(before, 0), number(row["seconds"], 0), _percent(row["seconds"] / before - 1), number(load[0], 1))
        for name, before, row, load in rows
    ]
    return markdown("data|foreseen:|took:|difference:|load:", body)


def _announced(row: dict[str, Any]) -> float:
    """In seconds, of a run that said it in minutes."""
    (minutes,) = re.findall(r"it will take ([\d.]+) minutes", "\n".join(row["said"]))
    return 60 * float(minutes)


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %".replace("-", "−")


def chorales() -> str:
    """What can be counted in samples of four voices."""
    found = raw("chorales-small")
    rows = [("real, 32 rows", found["real"])]
    for row in found["samples"]:
        if "sweeps" not in row:
            rows.append((row["method"].upper(), row))
        elif row["sweeps"] in (1, 4, 16) and row["kernel"] == "heat-bath" and not row["mark_noise"]:
            rows.append((f"GGM, {row['sweeps']} sweep{'s' if row['sweeps'] > 1 else ''}", row))
    places = {
        "nats": 1,
        "crossings": 0,
        "parallel_fifths": 1,
        "parallel_octaves": 1,
        "lengths_distance": 2,
        "intervals_distance": 2,
    }
    body = [(name, *(number(row[key], digits) for key, digits in places.items())) for name, row in rows]
    head = "64 calls|nats a frame:|crossings:|parallel fifths:|parallel octaves:|distance of lengths:|distance of intervals:"
    return markdown(head, body)


def sudoku() -> str:
    """Puzzles of 100 that are solved, by class."""
    keys = ("method", "order", "sweeps", "kernel", "mark_noise")
    solved: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in raw("sudoku-small")["rows"]:
        solved.setdefault(tuple(row.get(key) for key in keys), {})[row["class"]] = row
    body = []
    for (method, order, sweeps, kernel, marked), row in solved.items():
        shares = (number(100 * row[name]["solved"], 0) for name in CLASSES)
        noise = "marked" if order == "certain" else NOISE[marked]
        body.append((method.upper(), CELLS[order], sweeps or "", kernel or "", noise, *shares, number(row["hard"]["calls"], 0)))
    return markdown("method|cells|sweeps:|kernel|noise|easy:|medium:|hard:|calls:", body)


def play() -> str:
    """Seconds from the click to the first token."""
    found = raw("play")
    rows = (
        ("the first fill after the start of the server", found["seconds_of_the_first_fill_after_the_start"]),
        (f"{len(found['seconds'])} more, median", found["median"]),
        (f"{len(found['seconds'])} more, the slowest", found["most"]),
    )
    load = found["load_averages_1_5_15_min"][0]
    head = f"`novels`, two fills, two CPU cores that were busy with other work (load {load:.0f})|seconds:"
    return markdown(head, [(name, number(value)) for name, value in rows])


SMALL: Tables = {
    "lengths": lengths,
    "seams": seams,
    "finetune": finetune,
    "foreseen": foreseen,
    "chorales": chorales,
    "sudoku": sudoku,
    "play": play,
}
