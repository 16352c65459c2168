"""Half words at the seams of fills, as the command writes them: gaps between words of held-out novels, filled by a model.

    python experiments/seams.py --train train.txt.xz --test test.txt.xz [--model novels] [--precision bf16] --out seams.json

Each gap has from 1 to 6 tokens, as many as what stood there. A word at a seam is a run of letters, apostrophes and hyphens that
touches the seam; it is whole where each of its parts stands in the training text. The truth is counted, too: held-out novels
have words that the training text lacks.
"""

import argparse
import lzma
import random
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from shared import device

from glauber import Model, load
from glauber.process.draws import new_generator
from glauber.provenance import write_figures
from glauber.runtime.progress import watched
from glauber.tasks.constraints import Constraints
from glauber.tasks.infill import filling
from glauber.tasks.seams import SEAMS
from glauber.tasks.steps import run_alone

BEFORE, AFTER, MOST = 50, 30, 6
"""Words of context, and the tokens of the longest gap."""
JOINED = r"(?:[^\W\d_]|['’]|(?<!-)-(?!-))*"


class Cut(NamedTuple):
    """A place in a text where some words are missing."""

    before: str
    truth: str
    after: str
    tokens: int


def read(path: Path) -> str:
    """A text, packed or not."""
    return lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text(encoding="utf-8")


def cuts(text: str, model: Model, number: int) -> Iterator[Cut]:
    """Gaps between words, at random places; the seed is fixed."""
    draw, codec = random.Random(0), model.require_text_codec()
    words = re.findall(r"\S+\s*", text)
    while number:
        first = draw.randrange(BEFORE, len(words) - AFTER - 4)
        size = draw.randrange(1, 5)
        ends = (first - BEFORE, first, first + size, first + AFTER)
        before, truth, after = ("".join(words[start:stop]) for start, stop in pairwise(ends))
        truth, blank = truth.rstrip(), truth[len(truth.rstrip()) :]
        tokens = len(codec.encode(f" {truth}"))
        if tokens <= MOST and "[[" not in before + after and "\f" not in before + truth + after and before.endswith(" "):
            number -= 1
            yield Cut(before, truth, blank + after, tokens)


def word_at(text: str, at: int) -> str:
    """The word that touches this place of the text; empty if there is none."""
    left, right = re.search(JOINED + "$", text[:at]), re.match(JOINED, text[at:])
    return (left[0] if left else "") + (right[0] if right else "")


def is_whole(word: str, known: set[str]) -> bool:
    """Whether each part of a word is known; one that ends or begins with a hyphen is none. A dash alone is no word."""
    parts = re.split("-", word.lower())
    return not word.strip("-'’") or all(part.strip("'’") in known or (part != "" and not part.strip("'’")) for part in parts)


def seams_of(cut: Cut, fill: str, known: set[str]) -> dict[str, bool]:
    """What is wrong where the fill meets the text."""
    text, places = cut.before + fill + cut.after, (len(cut.before), len(cut.before) + len(fill))
    return {
        "half word before": not is_whole(word_at(text, places[0]), known),
        "half word behind": not is_whole(word_at(text, places[1]), known),
        "doubled blank": any(text[place - 1 : place].isspace() and text[place : place + 1].isspace() for place in places),
    }


def counted(found: list[dict[str, bool]]) -> dict[str, float]:
    """The share of fills with each fault, and of those with a half word."""
    shares = {name: sum(each[name] for each in found) / len(found) for name in found[0]}
    half = [each["half word before"] or each["half word behind"] for each in found]
    return shares | {"half word": sum(half) / len(half)}


def measured(model: Model, places: list[Cut], seams: str, known: set[str]) -> dict[str, Any]:
    """Each place filled once: the faults at the seams, what they cost, and some examples of half words."""
    sampler, codec, constraints = model.sampler(gaps=True), model.require_text_codec(), Constraints(seams=seams)
    found, examples, calls, began = [], [], 0.0, time.perf_counter()
    for seed, cut in enumerate(watched(iter(places), True, len(places), seams, "fill")):
        text = f"{cut.before}[[{cut.tokens}]]{cut.after}"
        (filled,) = run_alone(filling(sampler, codec, text, generator=new_generator(seed), constraints=constraints))
        found.append(seams_of(cut, filled.gaps[0].text, known))
        calls += filled.calls or 0
        if found[-1]["half word before"] or found[-1]["half word behind"]:
            examples.append(f"{cut.before[-20:]}[{filled.gaps[0].text}]{cut.after[:20]}")
    seconds = time.perf_counter() - began
    return counted(found) | {"calls": calls / len(places), "seconds": seconds, "examples": examples[:12]}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "test", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--model", default="novels")
    parser.add_argument("--precision", help="fp32 or bf16")
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--seams", choices=SEAMS, action="append", help="both if not given")
    arguments = parser.parse_args()
    model = load(arguments.model, device(), arguments.precision)
    known = set(re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", read(arguments.train).lower()))
    places = list(cuts(read(arguments.test), model, arguments.number))
    figures: dict[str, Any] = {
        "number": len(places),
        "words_known": len(known),
        "truth": counted([seams_of(cut, cut.truth, known) for cut in places]),
    }
    for name in arguments.seams or SEAMS:
        figures[name] = measured(model, places, name, known)
        write_figures(arguments.out, figures)
        print(name, figures[name])


if __name__ == "__main__":
    main()
