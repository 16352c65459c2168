"""Guides that are programs: a page and a notebook from one file, by `make guides`.

docs/notebooks/NAME.py is the source, in jupytext's percent format. It is run, and NAME.ipynb beside it holds what it printed;
docs/NAME.md is the same as a page. `--check` runs nothing: it names what differs from its source.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import jupytext

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"
NOTE = "*This page is [a program](notebooks/{name}.py) and [a notebook](notebooks/{name}.ipynb), run once on a CPU.*"


def sources() -> list[Path]:
    """The guides."""
    return sorted(FOLDER.glob("*.py"))


def run(source: Path) -> Any:
    """The guide as a notebook, with what it printed."""
    from nbclient import NotebookClient

    notebook = jupytext.read(source)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def page(notebook: Any, name: str) -> str:
    """The notebook as Markdown."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        printed = "".join(output.get("text", "") for output in cell.outputs).rstrip()
        if printed:
            parts.append(f"```text\n{printed}\n```")
    title, _, rest = parts[0].partition("\n\n")
    note = NOTE.format(name=name)
    return "\n\n".join(part for part in (title, note, rest, *parts[1:]) if part) + "\n"


def code(notebook: Any) -> list[tuple[str, str]]:
    """Kind and text of each cell."""
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def differs(source: Path) -> list[str]:
    """Sentences about what does not come from the source."""
    name = source.stem
    kept = jupytext.read(source.with_suffix(".ipynb"))
    found = []
    if code(kept) != code(jupytext.read(source)):
        found.append(f"{name}.ipynb is not of {name}.py; run make guides")
    if (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") != page(kept, name):
        found.append(f"{name}.md is not of {name}.ipynb; run make guides")
    return found


def main() -> int:
    """Make all guides, or compare them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="run nothing, name what differs")
    parser.add_argument("--only", default="", help="the name of one guide")
    args = parser.parse_args()
    wrong = []
    for source in sources():
        if args.only in ("", source.stem):
            if args.check:
                wrong += differs(source)
                continue
            notebook = run(source)
            source.with_suffix(".ipynb").write_text(jupytext.writes(notebook, fmt="ipynb") + "\n", encoding="utf-8")
            (ROOT / "docs" / f"{source.stem}.md").write_text(page(notebook, source.stem), encoding="utf-8")
    for line in wrong:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(ROOT / "src"))
    sys.exit(main())
