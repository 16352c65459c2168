"""What the recipe small comes to: minutes of training on a CPU, on a megabyte of any text, letter by letter.

    python experiments/small.py TEXT --out OUT [--results docs/results/small.json]

TEXT is a file in UTF-8 whose first megabyte is taken, such as train.txt of novels.py beside it, which begins with the whole of
Braddon's Phantom Fortune. Nine tenths are for training, the last tenth is held out, but for characters that the former do not
have: they are counted. Each step is a command as a user types it, kept beside its seconds and the machine's load before and
after: prepare, train, score, sample. The words of the samples are looked up in the training text.
"""

import argparse
import codecs
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from glauber.provenance import write_figures
from glauber.runtime.files import write
from glauber.train.report import read_log

MEGABYTE = 1_000_000
WORD = re.compile(r"[A-Za-z']+")


def glauber(*words: object) -> str:
    """A command of the package; what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "glauber", *map(str, words)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def parts(content: bytes) -> tuple[str, str, int]:
    """Of the first megabyte, to the last whole character: what to train on, what is held out, and how many characters of the
    latter were left out since the former has none of them."""
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(content[:MEGABYTE])
    cut = len(text) * 9 // 10
    alphabet = set(text[:cut])
    held_out = "".join(character for character in text[cut:] if character in alphabet)
    return text[:cut], held_out, len(text) - cut - len(held_out)


def known(text: str, words: set[str]) -> float:
    """The share of its words that are among these."""
    found = WORD.findall(text.lower())
    return sum(word in words for word in found) / max(1, len(found))


def main() -> None:
    """Prepare, train, score, sample; keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--results", type=Path, help="where the figures go; OUT/small.json if not given")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--set", dest="settings", action="append", default=[], help="of train, e.g. train.seconds=300")
    args = parser.parse_args()
    content = args.text.read_bytes()
    train, test, left_out = parts(content)
    args.out.mkdir(parents=True)
    text, held_out, data, run = (args.out / name for name in ("train.txt", "held-out.txt", "data", "run"))
    write(text, train.encode())
    write(held_out, test.encode())

    commands: list[list[object]] = [
        ["prepare", text, "--out", data, "--tokenizer", "char", "--length", args.length],
        ["train", "--recipe", "small", "--data", data, "--out", run, *(f"--set={setting}" for setting in args.settings)],
        ["score", run, "--text", held_out, "--json"],
        ["score", run, "--text", held_out, "--json", "--sweeps", 4, "--order", "random", "--rows", 100],
        ["sample", run, "-n", 16, "--seed", 0, "--json"],
    ]
    outputs, done = [], []
    for command in commands:
        began, before = time.perf_counter(), os.getloadavg()
        outputs.append(glauber(*command))
        words = shlex.join(["glauber", *(Path(w).name if isinstance(w, Path) else str(w) for w in command)])
        took, loads = round(time.perf_counter() - began, 1), {"before": before, "after": os.getloadavg()}
        done.append({"command": words, "seconds": took, "load_averages_1_5_15_min": loads})
    causal, random, samples = (json.loads(output) for output in outputs[2:])
    samples = samples["texts"]
    log, lexicon = read_log(run / "log.jsonl"), set(WORD.findall(train.lower()))
    figures: dict[str, Any] = {
        "text": {
            "name": args.text.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "first_bytes_taken": min(len(content), MEGABYTE),
            "characters_to_train_on": len(train),
            "characters_held_out": len(test),
            "characters_left_out": left_out,
        },
        "commands": done,
        "said": outputs[1].replace(f"{args.out}{os.sep}", "").splitlines(),
        "causal": causal,
        "random_order": random,
        "words_in_training_text": {"samples": known("\n".join(samples), lexicon), "held_out": known(test, lexicon)},
        "samples": samples,
        "log": [line for line in log if "valid_bits_per_token" in line],
    }
    write_figures(args.results or args.out / "small.json", figures)
    print(*outputs[1].splitlines(), samples[0], json.dumps(causal), sep="\n")


if __name__ == "__main__":
    main()
