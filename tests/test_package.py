"""The wheel and the source archive: built, installed into empty environments, and used there."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
from blocks import blocks

import glauber

ROOT = Path(__file__).parents[1]
TORCH = re.search(r"^TORCH\s*\?=\s*(\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)


def run(*words: object, **options: object) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive of what git knows here."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    run("git", "clone", "--quiet", ROOT, source)
    run(sys.executable, "-m", "build", "--outdir", folder, source)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The programs of an environment that has torch and the wheel, without extras."""
    programs = tmp_path_factory.mktemp("installed") / "bin"
    run(sys.executable, "-m", "venv", programs.parent)
    assert TORCH is not None
    for wanted in (TORCH[1], built[0]):
        run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
    return programs


@pytest.mark.slow
def test_the_archive_holds_what_the_wheel_does_and_the_wheel_all_that_git_knows_of_the_package(built):
    wheel, archive = built
    known = set(run("git", "-C", ROOT, "ls-files", "src/glauber").split())
    inside = {f"src/{name}" for name in zipfile.ZipFile(wheel).namelist() if name.startswith("glauber/")}
    with tarfile.open(archive) as files:
        sources = {name.partition("/")[2] for name in files.getnames()}
    assert known == inside
    assert known <= sources


@pytest.mark.slow
def test_the_wheel_samples_from_a_model_in_the_box_in_an_environment_without_extras(installed, tmp_path):
    assert run(installed / "glauber", "--version", cwd=tmp_path) == f"glauber {glauber.__version__}\n"
    same = [run(program, *words, cwd=tmp_path) for program, *words in SAMPLES(installed)]
    assert same[0] == same[1]
    assert len(same[0]) > 200


def SAMPLES(programs: Path) -> list[list[object]]:
    words = ["sample", "novels", "-n", "1", "--seed", "0"]
    return [[programs / "glauber", *words], [programs / "python", "-m", "glauber", *words]]


@pytest.mark.slow
def test_the_wheel_is_as_small_as_the_docs_say_and_its_help_comes_in_a_second(built, installed):
    (said,) = re.findall(r"The wheel has (\d+) MB", (ROOT / "docs" / "start.md").read_text(encoding="utf-8"))
    assert abs(built[0].stat().st_size / 1e6 - float(said)) < 1
    seconds = []
    for _ in range(3):  # the fastest: others may be at work on the machine
        began = time.perf_counter()
        assert run(installed / "glauber", "--help").startswith("Usage")
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 1


@pytest.mark.slow
def test_start_goes_as_printed_in_a_clone_with_an_environment_of_its_own(tmp_path):
    """Every block of docs/start.md, word for word, with what it downloads and the four minutes that it trains."""
    run("git", "clone", "--quiet", ROOT, tmp_path / "clone")
    page = blocks(ROOT / "docs" / "start.md")
    shell = "\n".join(block.text for block in page if block.language == "sh")
    run("bash", "-euo", "pipefail", "-c", shell, cwd=tmp_path / "clone")
    for block in page:
        if block.language == "python":
            run(tmp_path / "clone" / ".venv" / "bin" / "python", "-c", block.text, cwd=tmp_path / "clone")


@pytest.mark.slow
def test_what_needs_an_extra_names_it_and_works_once_it_is_installed(installed, built, tmp_path):
    words = [installed / "glauber", "sample", "fashion", "-n", "1", "--out", "pictures"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert refused.returncode == 2
    (extra,) = re.findall(r"glauber\[(\w+)\]", refused.stderr)
    run(installed / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{built[0]}[{extra}]")
    run(*words, cwd=tmp_path)
    assert len(list((tmp_path / "pictures").iterdir())) == 1


@pytest.mark.slow
def test_the_source_archive_installs_the_same_version(built, tmp_path):
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path, built[1])
    text = (tmp_path / "glauber" / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{glauber.__version__}"' in text


def test_the_version_is_the_same_wherever_it_is_told():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [glauber.__version__]
    newest = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == glauber.__version__


def test_every_package_that_the_code_imports_is_declared():
    """As a dependency, or in an extra; and what is imported at the top of a file that all need is a dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {re.split(r"[\[<>=!~ ]", line)[0].lower().replace("-", "_") for lines in lists for line in lines}
    declared = {{"pillow": "pil", "scikit_learn": "sklearn"}.get(name, name) for name in declared}
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    assert {name.lower() for name in found - set(sys.stdlib_module_names)} - {"glauber"} <= declared


def test_the_shell_completes_commands_and_flags():
    complete = {"_GLAUBER_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "glauber inf"}
    code = "import sys; from glauber.cli import main; sys.argv = ['glauber']; main()"
    environment = os.environ | complete
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["infill", "info"]
