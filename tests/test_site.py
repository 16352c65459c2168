"""The site: it is built without a warning, stands by itself, and shows every public name."""

import subprocess
import sys
from pathlib import Path

import pytest

import glauber

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "website"))

from check import Page, faults  # noqa: E402  (after the place that it is in)
from pages import with_formulas, with_sources  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "site"
    words = [sys.executable, ROOT / "website" / "build.py", "--out", out]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout
    told = (done.stdout + done.stderr).lower()
    assert "warning" not in told
    assert "griffe:" not in told, told
    return out


def test_every_page_of_the_docs_is_in_the_site_and_in_its_navigation(site):
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).is_file()
        assert f'"{name}"' in home or f'"./{name}"' in home, page.name


def test_the_api_shows_every_public_name(site):
    shown = Page((site / "api.html").read_text()).anchors
    for home, names in glauber._HOMES.items():
        for name in names:
            assert any(anchor.startswith(f"glauber.{home}") and anchor.endswith(f".{name}") for anchor in shown), name


def test_no_formula_is_left_in_its_source_form(site):
    theory = (site / "theory.html").read_text()
    assert theory.count("<math") > 100
    assert "\\kappa" not in theory


def test_formulas_become_mathml_and_code_stays_as_it_is():
    text = "Given $X_{t,i}^*$ and\n```sh\necho $HOME $PATH\n```\n`$a$`"
    built = with_formulas(text)
    assert "<msubsup>" in built
    assert "*" not in built.partition("```")[0]
    assert built.endswith("```sh\necho $HOME $PATH\n```\n`$a$`")


def test_links_out_of_the_docs_lead_to_pages_that_show_the_files():
    text, files = with_sources("[a](../tests/x.py) [b](../src/README.md) [c](theory.md) [d](../tests/y.py#L3)")
    assert text == "[a](source/tests/x.py.md) [b](source/src/README.md) [c](theory.md) [d](source/tests/y.py.md)"
    assert files == {"tests/x.py", "src/README.md", "tests/y.py"}
    text, files = with_sources("[a](../../tests/x.py) [c](../theory.md)", depth=1)
    assert text == "[a](../source/tests/x.py.md) [c](../theory.md)"
    assert files == {"tests/x.py"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('<a href="gone.html">', "links to gone.html, which is not there"),
        ('<a href="other.html#gone">', "links to other.html#gone, which has no such anchor"),
        ('<script src="https://example.org/x.js">', "fetches https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "fetches //example.org/x.css"),
        ('<a href="https://example.org">', ""),
        ('<a href="other.html#here">', ""),
        ('<img src="data:image/png;base64,AA">', ""),
    ],
)
def test_a_link_that_is_broken_or_fetched_from_another_host_is_named(tmp_path, written, said):
    (tmp_path / "page.html").write_text(written)
    (tmp_path / "other.html").write_text('<p id="here">')
    assert faults(tmp_path) == ([f"page.html {said}"] if said else [])
