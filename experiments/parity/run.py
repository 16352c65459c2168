"""Compare losses, laws and steps with the official code: `python experiments/parity/run.py --mdlm PATH --sedd PATH --udlm PATH
--duo PATH --plaid PATH [--out JSON]`. The paths are checkouts; nothing is fetched. Exits with 1 where they do not agree."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

from glauber.provenance import write_figures

REPOSITORIES = {
    "mdlm": "kuleshov-group/mdlm",
    "sedd": "louaaron/Score-Entropy-Discrete-Diffusion",
    "udlm": "kuleshov-group/discrete-diffusion-guidance",
    "duo": "s-sahoo/duo",
    "plaid": "igul222/plaid",
}


def main() -> int:
    """Those methods whose checkouts are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, repository in REPOSITORIES.items():
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help=f"a checkout of github.com/{repository}")
    parser.add_argument("--out", type=Path, metavar="JSON", help="keep the differences here")
    paths = vars(parser.parse_args())
    out, rows, commits = paths.pop("out"), [], {}
    if not any(paths.values()):
        parser.error("name at least one checkout")
    for name, path in paths.items():
        if path is None:
            continue
        found = importlib.import_module(name).compare(path.resolve())
        rows += found.rows
        commits[REPOSITORIES[name]] = commit(path)
        for row in found.rows:
            print(f"{row['method']:6} {row['what']:60} {row['numbers']:7,} {row['difference']:.1e}", end="")
            print("" if row["agree"] else f"  MORE THAN {row['within']:g}")
    if out is not None:
        write_figures(out, {"official": commits, "rows": rows})
    return int(not all(row["agree"] for row in rows))


def commit(path: Path) -> str | None:
    """Of a checkout; None where git cannot tell."""
    done = subprocess.run(["git", "-C", str(path), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
