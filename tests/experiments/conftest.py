"""The scripts of experiments/ as modules."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def experiment(monkeypatch) -> Iterator[Callable[[str], ModuleType]]:
    """A module of experiments/ by its path there, without .py. What it imports from beside it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def load(name: str) -> ModuleType:
        path = FOLDER / f"{name}.py"
        monkeypatch.syspath_prepend(str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    beside = {path.stem for path in FOLDER.rglob("*.py")}
    for name in (set(sys.modules) - before) & beside:
        del sys.modules[name]
