"""The bare command, which chooses everything itself, against settings that a person might have tried in the same time.

    python experiments/chosen.py text tokens images --chorales Jsb16thSeparated.json --minutes 5 --out OUT

Three data sets that no choice was made for:

text     Python's standard library, its first megabyte in the order of the names, letter by letter
tokens   Bach's chorales (czhuang/JSB-Chorales-dataset), four voices a sixteenth note, one after the other, as MIDI pitches
images   the glyphs of the DejaVu fonts that come with matplotlib, 16×16 pixels in grey, in patches of 2×2

`glauber train --data DATA --out RUN --minutes M` is run on each, and then HAND, six other settings of size, rate, batch and
optimiser: each is the file that the choice left, chosen.toml, with some values changed, so all of them train for the same time.
The figure is the bound on held-out rows that training follows. What was predicted is kept beside what it came to.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from glauber.data import prepare
from glauber.provenance import write_figures
from glauber.runs import read_checkpoint
from glauber.runtime.files import read_object
from glauber.train.report import read_log

MEGABYTE = 1_000_000
MUON, ADAMW = {"train.optimizer": "muon", "train.lr": 1e-2}, {"train.optimizer": "adamw", "train.lr": 3e-3}
HAND: dict[str, tuple[tuple[int, int, int], dict[str, Any], int]] = {
    "64 wide": ((64, 3, 2), MUON, 2048),
    "96 wide": ((96, 4, 3), MUON, 2048),
    "128 wide": ((128, 4, 4), MUON, 2048),
    "twice the rate": ((96, 4, 3), MUON | {"train.lr": 2e-2}, 2048),
    "twice the batch": ((96, 4, 3), MUON, 4096),
    "AdamW": ((96, 4, 3), ADAMW, 2048),
}
"""Width, layers and heads; the optimiser and its rate; tokens of a step."""
FORETOLD = re.compile(r"it will take ([\d.]+) (s|minutes), until [\d:]+: ([\d,]+) steps")
SIDE = 16
"""Pixels of a glyph's side."""
LENGTH = 256
"""Tokens of a row of the chorales: 64 sixteenth notes of four voices."""


def text(folder: Path, chorales: Path | None) -> None:
    """Python's own source."""
    found, size = [], 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        found.append(path.read_text(encoding="utf-8", errors="ignore").replace("\f", ""))
        size += len(found[-1])
        if size > MEGABYTE:
            break
    (folder / "source.txt").write_text("".join(found)[:MEGABYTE], encoding="utf-8")
    prepare([folder / "source.txt"], folder / "data", "char", LENGTH, 0.05)


def tokens(folder: Path, chorales: Path | None) -> None:
    """Pitches from the lowest that there is, 0 for a voice that rests; the validation split is the data set's own."""
    if chorales is None:
        raise ValueError("the chorales are read from the file that --chorales names")
    songs = json.loads(chorales.read_text(encoding="utf-8").replace("NaN", "-1"))
    lowest = min(int(note) for split in songs.values() for song in split for frame in song for note in frame if note > 0)
    for split, name in (("train", "train.npy"), ("valid", "valid.npy")):
        notes = [max(0, int(note) - lowest + 1) for song in songs[split] for frame in song for note in frame]
        np.save(folder / name, np.array(notes[: len(notes) // LENGTH * LENGTH]).reshape(-1, LENGTH))
    vocab = 1 + max(int(np.load(folder / name).max()) for name in ("train.npy", "valid.npy"))
    prepare([folder / "train.npy"], folder / "data", valid=[folder / "valid.npy"], vocab=vocab)


def images(folder: Path, chorales: Path | None) -> None:
    """White on black, each in the middle of its square; those that look the same are kept once."""
    import matplotlib
    from matplotlib.ft2font import FT2Font
    from PIL import Image, ImageDraw, ImageFont

    (folder / "glyphs").mkdir()
    seen = set()
    for path in sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("DejaVuSans*.ttf")):
        font = ImageFont.truetype(str(path), SIDE - 3, layout_engine=ImageFont.Layout.BASIC)
        for code in sorted(FT2Font(str(path)).get_charmap()):
            image = Image.new("L", (SIDE, SIDE))
            ImageDraw.Draw(image).text((SIDE // 2, SIDE // 2), chr(code), fill=255, font=font, anchor="mm")
            if image.getbbox() and image.tobytes() not in seen:
                seen.add(image.tobytes())
                image.save(folder / "glyphs" / f"{path.stem}-{code:05x}.png")
    prepare([folder / "glyphs"], folder / "data", "patches:64:2", valid=0.05, grey=True)


DATA = {"text": text, "tokens": tokens, "images": images}


def bare(folder: Path, minutes: float) -> dict[str, Any]:
    """The command, what it told, and what it came to."""
    began = time.perf_counter()
    said = glauber("train", "--data", folder / "data", "--out", folder / "run", "--minutes", minutes)
    took = time.perf_counter() - began
    number, unit, steps = FORETOLD.findall(said)[0]
    foreseen = {"seconds": float(number) * (60 if unit == "minutes" else 1), "steps": int(steps.replace(",", ""))}
    return {
        "said": said.replace(f"{folder}/", "").splitlines(),
        "foreseen": foreseen,
        "seconds": round(took, 1),
        "load_averages_1_5_15_min": os.getloadavg(),
        **outcome(folder / "run"),
    }


def by_hand(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A run for each of HAND, for as long as the bare command trained."""
    length = read_object(folder / "data" / "header.json")["length"]
    for name, ((width, layers, heads), changes, batch) in HAND.items():
        size = {"network.width": width, "network.layers": layers, "network.heads": heads, "network.cond_dim": 32}
        changed = size | changes | {"train.batch": batch // length}
        out = folder / name.replace(" ", "-")
        sets = [f"--set={setting}={value}" for setting, value in changed.items()]
        glauber("train", "--data", folder / "data", "--out", out, "--config", folder / "run" / "chosen.toml", *sets)
        yield name, {"settings": changed} | outcome(out)


def outcome(run: Path) -> dict[str, Any]:
    """The best bound of a run, its steps, and the seconds that it trained."""
    (best,) = (run / "best").glob("step-*")
    last, numbers = read_log(run / "log.jsonl")[-1], read_checkpoint(best, parts=())[1]
    return {"bits": numbers["bits"], "best_step": numbers["step"], "steps": last["step"], "trained": round(last["seconds"], 1)}


def glauber(*words: object) -> str:
    """A command of the package; what it prints."""
    command = [sys.executable, "-m", "glauber", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """The bare command and the six by hand on each data set that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=DATA)
    parser.add_argument("--chorales", type=Path)
    parser.add_argument("--bare", action="store_true", help="without the six by hand: what was foreseen, and what it came to")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--out", type=Path, required=True, help="a folder; data sets that are there are made anew")
    parser.add_argument("--results", type=Path, help="where the figures go, beside those of other data sets; OUT/chosen.json")
    args = parser.parse_args()
    path = args.results or args.out / "chosen.json"
    for name in args.data:
        folder = args.out / name
        folder.mkdir(parents=True)
        DATA[name](folder, args.chorales)
        found: dict[str, Any] = {"minutes": args.minutes, "bare": bare(folder, args.minutes)}
        print(name, found["bare"]["bits"], found["bare"]["foreseen"], found["bare"]["seconds"], flush=True)
        if not args.bare:
            found["by_hand"] = dict(by_hand(folder))
            best = min(run["bits"] for run in found["by_hand"].values())
            found["above_the_best_by_hand"] = found["bare"]["bits"] / best - 1
            print(f"the best by hand {best:.4f}", flush=True)
        write_figures(path, (read_object(path) if path.is_file() else {}) | {name: found})


if __name__ == "__main__":
    main()
