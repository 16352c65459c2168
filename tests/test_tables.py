"""The tables of the README and the docs are those of the raw files."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "website"))

import figures  # noqa: E402  (after the place that it is in)
import tables  # noqa: E402
import tables_text  # noqa: E402


def test_no_table_differs_from_its_raw_file():
    different = [page.name for page in tables.pages() if tables.made(text := page.read_text(encoding="utf-8")) != text]
    assert not different, "run make tables"


def test_every_table_that_can_be_made_is_shown_and_the_readme_has_one():
    shown = [found[2] for page in tables.pages() for found in tables.MARKED.finditer(page.read_text(encoding="utf-8"))]
    assert set(shown) >= set(tables.TABLES)
    assert tables.MARKED.search((ROOT / "README.md").read_text(encoding="utf-8"))


def test_a_figure_that_changes_in_a_raw_file_changes_in_the_page(monkeypatch):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = figures.raw("table1")
    for row in changed["rows"]:
        row["bits_per_char"] = 9.87
    monkeypatch.setattr(tables_text, "raw", lambda name: changed)
    assert "9.87" in tables.made(text)
    assert tables.made(tables.made(text)) == tables.made(text)


def test_a_bar_in_a_cell_is_no_column():
    assert figures.markdown("a|b:", [("x | y", 1)]) == "| a | b |\n|---|---:|\n| x \\| y | 1 |"
