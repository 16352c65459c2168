"""Tables of the README and the docs from their raw files: `make tables`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. Its rows come from a function of that name, which reads a file
of docs/results. `--check` changes nothing and fails where a page differs.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from figures import Tables
from tables_images import IMAGES
from tables_methods import METHODS
from tables_oracle import ORACLE
from tables_serving import SERVING
from tables_small import SMALL
from tables_speed import SPEED
from tables_text import TEXT

ROOT = Path(__file__).parents[1]
TABLES: Tables = TEXT | IMAGES | SPEED | METHODS | ORACLE | SMALL | SERVING
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Those that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def made(text: str) -> str:
    """The page with each of its tables made anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[4]}", text)


def main() -> int:
    """Write all pages, or compare them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, name the pages that differ")
    check = parser.parse_args().check
    different = []
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = made(before)
        if after != before:
            different.append(page.relative_to(ROOT))
            if not check:
                page.write_text(after, encoding="utf-8")
    for path in different:
        print(f"{path} {'differs; run make tables' if check else 'written'}")
    return int(check and bool(different))


if __name__ == "__main__":
    sys.exit(main())
