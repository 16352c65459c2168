"""The pages of docs/ as the site takes them: formulas as MathML, and a page for each file of the source that is linked to.

On a forge the pages of docs/ show formulas by themselves and their links lead into the tree. A site that works from a folder,
with nothing from other hosts, has neither: so formulas become MathML, which browsers draw without a script, and source files
that a page points to are shown as pages.
"""

import html
import re
import shutil
from pathlib import Path

from latex2mathml.converter import convert

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+(?:\n[^$\n]+)?)\$", re.DOTALL)
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#\s]+)(#[^)]*)?\)")
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".txt": "text"}


def stage(folder: Path) -> None:
    """Write all pages, and what they show, to a folder."""
    sources: set[str] = set()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        place = folder / page.relative_to(ROOT / "docs")
        place.parent.mkdir(parents=True, exist_ok=True)
        text, linked = with_sources(with_formulas(page.read_text(encoding="utf-8")), len(place.relative_to(folder).parents) - 1)
        place.write_text(text, encoding="utf-8")
        sources |= linked
    for name in ("media", "results", "notebooks"):
        shutil.copytree(ROOT / "docs" / name, folder / name)
    for source in sorted(sources):
        show(source, folder)


def with_formulas(text: str) -> str:
    """The text with each formula as MathML; code stays as it is."""
    parts = CODE.split(text)
    return "".join(part if k % 2 else FORMULA.sub(_mathml, part) for k, part in enumerate(parts))


def _mathml(found: re.Match[str]) -> str:
    wide, inline = found.groups()
    told: str = convert(wide or inline, display="block" if wide else "inline")
    for sign in "*_|":  # Markdown's, which stand for themselves in a formula
        told = told.replace(sign, f"&#{ord(sign)};")
    return f"\n\n{told}\n\n" if wide else f"<span>{told}</span>"  # a line that begins with <math> would be a block


def with_sources(text: str, depth: int = 0) -> tuple[str, set[str]]:
    """Links to files outside of docs/ as links to the pages that show them; and those files.

    The page lies so many folders below docs/.
    """
    linked: set[str] = set()

    def local(found: re.Match[str]) -> str:
        if found[1].count("../") <= depth:
            return found[0]
        linked.add(found[2])
        return f"]({'../' * depth}source/{found[2]}{'' if found[2].endswith('.md') else '.md'})"

    return LINK.sub(local, text), linked


def show(source: str, folder: Path) -> None:
    """A file of the tree as a page."""
    path = ROOT / source
    text = path.read_text(encoding="utf-8")
    place = folder / "source" / (source if path.suffix == ".md" else f"{source}.md")
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".md":
        text = f"# {html.escape(source)}\n\n```` {LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"
    place.write_text(text, encoding="utf-8")
