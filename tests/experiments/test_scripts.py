"""Every script of experiments/ starts: its imports are there, and it tells its arguments."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
SCRIPTS = [
    str(path.relative_to(FOLDER).with_suffix("")) for path in sorted(FOLDER.rglob("*.py")) if "__main__" in path.read_text()
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_its_help(name, experiment, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    module = experiment(name)
    with pytest.raises(SystemExit) as stopped:
        module.main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")


def test_every_comparison_with_official_code_is_there(experiment):
    for name in experiment("parity/run").REPOSITORIES:
        assert callable(experiment(f"parity/{name}").compare)
