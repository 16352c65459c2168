"""How many threads a run on a CPU takes: what its own steps are fastest with, kept when it goes on."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from glauber.data import prepare
from glauber.runtime.files import read_object, write
from glauber.train import threads
from glauber.train.parallel import ALONE
from glauber.train.report import read_log
from glauber.train.threads import settle_threads

FREE = {
    name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
}  # as most users' is


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 64, progress=False)
    return folder / "shards"


def train(data: Path, out: Path, *more: str, env: dict[str, str] = FREE) -> str:
    """What it says."""
    settings = ["--set=train.steps=20", "--set=train.samples=0", "--set=train.batch=8"]
    words = ["-m", "glauber", "train", "--recipe=tiny", f"--data={data}", f"--out={out}", *settings, *more]
    return subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=True).stdout


def settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], recorded: int | None = None
) -> tuple[int, str]:
    """What is chosen, and said, where a step takes so long with so many threads and torch would take the most of them."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "LEAST", 0.05)
    write(tmp_path / "config.json", json.dumps({"data": "d"} | ({"threads": recorded} if recorded else {})).encode())
    trainer = SimpleNamespace(
        device=torch.device("cpu"), world=ALONE, rehearse=lambda: time.sleep(seconds[torch.get_num_threads()])
    )
    said: list[str] = []
    torch.set_num_threads(max(seconds))
    try:
        settle_threads(trainer, tmp_path / "config.json", said.append)
        chosen = torch.get_num_threads()
    finally:
        torch.set_num_threads(1)
    assert read_object(tmp_path / "config.json") == {"data": "d", "threads": chosen}
    return chosen, " ".join(said)


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({2: 0.02, 1: 0.036}, 2),
        ({2: 0.03, 1: 0.034}, 1),  # a second thread that saves a tenth
        ({2: 0.06, 1: 0.01}, 1),  # another program is on the other core
        ({8: 0.06, 4: 0.02, 2: 0.036, 1: 0.07}, 4),
        ({8: 0.06, 4: 0.05, 2: 0.03, 1: 0.01}, 1),
        ({3: 0.02, 1: 0.04}, 3),
    ],
)
def test_the_fewest_threads_that_are_about_the_fastest_are_taken(seconds, chosen, tmp_path, monkeypatch):
    found, said = settled(tmp_path, monkeypatch, seconds)
    assert found == chosen
    assert f"{chosen} thread" in said
    assert f"with {max(seconds)}" in said
    assert "OMP_NUM_THREADS" in said


def test_a_run_keeps_the_number_that_it_began_with_if_the_machine_has_so_many(tmp_path, monkeypatch):
    assert settled(tmp_path, monkeypatch, {2: 0.06, 1: 0.01}, recorded=2)[0] == 2
    assert settled(tmp_path, monkeypatch, {2: 0.06, 1: 0.01}, recorded=4)[0] == 1


def test_beside_busy_loops_on_the_other_cores_a_run_takes_one_thread_and_says_so(data, tmp_path):
    others = sorted(os.sched_getaffinity(0))[1:]
    loops = [
        subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"])
        for core in others
    ]
    try:
        said = train(data, tmp_path / "run")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert ("1 thread: a step takes" if others else "1 thread: torch would take no more here") in said
    assert read_object(tmp_path / "run" / "config.json")["threads"] == 1
    assert "1 thread: so many the run began with" in train(data, tmp_path / "run", "--resume")


def test_the_user_s_number_goes_before_all_others_and_timing_changes_no_loss(data, tmp_path):
    assert "1 thread: OMP_NUM_THREADS says so" in train(data, tmp_path / "one", env=FREE | {"OMP_NUM_THREADS": "1"})
    train(data, tmp_path / "two")  # with its own, after timing them
    losses = [[line["loss"] for line in read_log(tmp_path / name / "log.jsonl")] for name in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
