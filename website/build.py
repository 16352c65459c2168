"""Build the site: `make docs`. It is refused where a page warns, a link is broken or something comes from another host."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from check import faults
from pages import ROOT, stage

HERE = Path(__file__).parent
SHIM = "https://unpkg.com/iframe-worker/shim"


def build(out: Path) -> int:
    """Write the site to a folder; 0 where all is well."""
    work = out.with_name(f"{out.name}.pages")
    for folder in (work, out):
        shutil.rmtree(folder, ignore_errors=True)
    stage(work / "docs")
    shutil.copytree(HERE / "theme", work / "docs" / "theme")
    settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
    settings = settings.replace("@SRC@", str(ROOT / "src"))
    (work / "zensical.toml").write_text(settings, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=work, check=False)
    if done.returncode:
        return done.returncode
    (work / "site").rename(out)
    _own_worker(out)
    shutil.rmtree(work)
    wrong = faults(out)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(list(out.rglob('*.html')))} pages in {out}, {len(wrong)} faults")
    return int(bool(wrong))


def _own_worker(site: Path) -> None:
    """What the theme would fetch from another host for the search of an offline site, from the site itself."""
    for page in site.rglob("*.html"):
        to_top = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(SHIM, f"{to_top}theme/worker.js"), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "site")
    sys.exit(build(parser.parse_args().out))
