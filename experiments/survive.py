"""Kill a training run at random moments, resume it each time, and compare its weights with those of a run left alone.

    python experiments/survive.py [--kills 20] [--seed 0] [--out FILE.json]

Prints one line per kill and a tally, and exits with 1 if the weights differ.
"""

import argparse
import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from glauber.provenance import write_figures
from glauber.runs import is_run

SETTINGS = {"train.steps": 600, "train.batch": 16, "train.checkpoint_every": 3, "network.width": 64, "network.layers": 2}


def command(out: Path) -> list[str]:
    """A small run on the embedded digits that is nearly always writing a checkpoint; or to go on with it."""
    words = [sys.executable, "-m", "glauber", "train", "--out", str(out)]
    if is_run(out):
        return [*words, "--resume"]
    return [*words, "--recipe", "digits", *(f"--set={name}={value}" for name, value in SETTINGS.items())]


def start(out: Path) -> subprocess.Popen[bytes]:
    """Begin the run, or go on with it."""
    return subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def digest(out: Path) -> str:
    """The sha256 of the finished model's weights."""
    return hashlib.sha256((out / "model" / "model.safetensors").read_bytes()).hexdigest()


def standing(out: Path) -> tuple[int, bool]:
    """The newest finished checkpoint's step, and whether another one is half written."""
    folders = [path.name for path in (out / "checkpoints").glob("step-*")]
    finished = [int(name[5:]) for name in folders if name[5:].isdigit()]
    return max(finished, default=0), any(name.endswith(".unfinished") for name in folders)


def strike(out: Path, rng: random.Random, how: signal.Signals) -> str:
    """Let the run get going, then stop it at a random moment. Returns where it stood; refuses a run that has ended by then."""
    before = standing(out)[0]
    process = start(out)
    while standing(out)[0] <= before and process.poll() is None:
        time.sleep(0.002)
    time.sleep(rng.random() * 0.5)
    process.send_signal(how)
    code = process.wait()
    if (out / "model").exists() or code != (0 if how == signal.SIGTERM else -how):
        raise SystemExit(f"the run ended with exit code {code} before {how.name} came; give it more steps")
    step, halfway = standing(out)
    return f"{how.name} at step {step}" + (", in the middle of a checkpoint" if halfway else "")


def main() -> int:
    """Run it all in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="how often to send SIGKILL")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="a JSON file for the tally")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        alone, killed, asked = (Path(folder) / name for name in ("alone", "killed", "asked"))
        assert start(alone).wait() == 0, "the run left alone failed"
        kills = [strike(killed, rng, signal.SIGKILL) for _ in range(options.kills)]
        print(*(f"{number:2d} {line}" for number, line in enumerate(kills, 1)), sep="\n")
        assert start(killed).wait() == 0, "the last resumption failed"
        stopped = strike(asked, rng, signal.SIGTERM)
        print("   " + stopped)
        assert start(asked).wait() == 0, "resuming after SIGTERM failed"
        digests = {name: digest(Path(folder) / name) for name in ("alone", "killed", "asked")}
    for name, value in digests.items():
        print(f"{name:8} sha256 {value}")
    halfway = sum("middle" in line for line in kills)
    same = len(set(digests.values())) == 1
    if options.out is not None:
        write_figures(options.out, {"settings": SETTINGS, "kills": kills, "stopped": stopped, "sha256": digests, "same": same})
    print(
        f"{len(kills)} kills, {halfway} of them in the middle of a checkpoint: {'identical' if same else 'DIFFERENT'} weights"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
