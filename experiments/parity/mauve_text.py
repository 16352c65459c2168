"""MAUVE against the package mauve-text: `python experiments/parity/mauve_text.py PATH [--keep JSON]`.

PATH is a checkout of github.com/krishnap25/mauve, or PyPI's mauve-text 0.4.0, unpacked; faiss-cpu must be installed. `--keep`
writes what the package gives for the seeded features, as tests/evaluate/mauve.json, for the tests.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from seeded import FEATURES, features

from glauber.evaluate.mauve import mauve

SEEDS, WITHIN = 5, 0.01


@contextmanager
def package(path: Path) -> Iterator[None]:
    """Modules come from there."""
    folder = next((each for each in (path, path / "src") if (each / "mauve" / "compute_mauve.py").is_file()), None)
    if folder is None:
        raise SystemExit(f"{path} holds no mauve/compute_mauve.py; name a checkout of github.com/krishnap25/mauve")
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def official(path: Path) -> dict[str, list[float]]:
    """The package's MAUVE of each pair of sets, one for each seed of its k-means."""
    with package(path):
        from mauve.compute_mauve import compute_mauve
    found = {}
    for name, shape in FEATURES.items():
        p, q = features(*shape)
        found[name] = [float(compute_mauve(p_features=p, q_features=q, seed=seed).mauve) for seed in range(SEEDS)]
    return found


def main() -> int:
    """Compare, and keep what the package gives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--keep", type=Path, metavar="JSON")
    options = parser.parse_args()
    official_scores, agree = official(options.path), True
    for name, theirs in official_scores.items():
        p, q = features(*FEATURES[name])
        ours = mauve(p, q, seeds=SEEDS).values
        for seed, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            agree = agree and abs(one - other) <= WITHIN
            print(f"{name:8} seed {seed}  theirs {one:.6f}  ours {other:.6f}  difference {abs(one - other):.1e}")
    if options.keep is not None:
        options.keep.write_text(json.dumps(official_scores, indent=1) + "\n")
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
