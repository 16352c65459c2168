"""What the recipe small comes to: minutes of training on a CPU, on a megabyte of plays, letter by letter.

    git clone https://github.com/karpathy/char-rnn
    python tools/small.py char-rnn/data/tinyshakespeare/input.txt --out OUT [--results docs/results/small.json]

The first nine tenths of the text are for training, the last tenth is held out. Each step is a command as a user types it, kept
beside its figures: prepare, train, score, sample. The words of the samples are looked up in the training text.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from checked import require

from glauber.data.writing import write
from glauber.provenance import write_figures
from glauber.train.report import read_log

PLAYS = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
WORD = re.compile(r"[A-Za-z']+")


def glauber(*words: object) -> str:
    """A command of the package; what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "glauber", *map(str, words)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def known(text: str, words: set[str]) -> float:
    """The share of its words that are among these."""
    found = WORD.findall(text.lower())
    return sum(word in words for word in found) / max(1, len(found))


def main() -> None:
    """Prepare, train, score, sample; tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--results", type=Path, help="where the figures go; OUT/small.json if not given")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--set", dest="settings", action="append", default=[], help="of train, e.g. train.seconds=300")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    text = require(args.text.read_bytes(), PLAYS, str(args.text), "take data/tinyshakespeare/input.txt of char-rnn").decode()
    cut = len(text) * 9 // 10
    plays, held_out, data, run = (args.out / name for name in ("plays.txt", "held-out.txt", "data", "run"))
    write(plays, text[:cut].encode())
    write(held_out, text[cut:].encode())

    commands: list[list[object]] = [
        ["prepare", plays, "--out", data, "--tokenizer", "char", "--length", args.length],
        ["train", "--recipe", "small", "--data", data, "--out", run, *(f"--set={setting}" for setting in args.settings)],
        ["score", run, "--text", held_out, "--json"],
        ["score", run, "--text", held_out, "--json", "--sweeps", 4, "--order", "random", "--rows", 100],
        ["sample", run, "-n", 16, "--seed", 0, "--json"],
    ]
    said, seconds = [], []
    for command in commands:
        began = time.perf_counter()
        said.append(glauber(*command))
        seconds.append(round(time.perf_counter() - began, 1))
    causal, random, samples = (json.loads(words) for words in said[2:])
    samples = samples["texts"]
    log, words = read_log(run / "log.jsonl"), set(WORD.findall(text[:cut].lower()))
    figures: dict[str, Any] = {
        "text": {"sha256": PLAYS, "characters": len(text), "held_out": len(text) - cut},
        "commands": [
            {
                "command": shlex.join(["glauber", *(Path(w).name if isinstance(w, Path) else str(w) for w in command)]),
                "seconds": took,
            }
            for command, took in zip(commands, seconds, strict=True)
        ],
        "said": said[1].splitlines(),
        "causal": causal,
        "random_order": random,
        "words_in_training_text": {"samples": known("\n".join(samples), words), "held_out": known(text[cut:], words)},
        "samples": samples,
        "log": [line for line in log if "valid_bits_per_token" in line],
    }
    write_figures(args.results or args.out / "small.json", figures)
    print(*said[1].splitlines(), samples[0], json.dumps(causal), sep="\n")


if __name__ == "__main__":
    main()
