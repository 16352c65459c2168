"""A run goes on by its folder alone; what may change can be given, the rest is refused; nobody else trains there meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import commands
import pytest
from refusals import refused

from glauber.data import prepare
from glauber.train import RECIPES, Recipe, recipe
from glauber.train.checkpoint import checkpoints
from glauber.train.data import shards_data
from glauber.train.folder import LOCK, MAY_CHANGE, read_config
from glauber.train.overrides import apply_settings, flat, recipe_of
from glauber.train.run import Outcome, run

SETTINGS = {
    "train.steps": 20,
    "train.decay": 20,
    "train.batch": 4,
    "train.checkpoint_every": 5,
    "train.samples": 0,
    "network.width": 16,
    "process.keep": [0.9, 0.8, 0.7, 0.0],
    "sampling.top_p": 0.9,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 16, progress=False)
    return folder / "shards"


def plan(**changes: object) -> Recipe:
    return apply_settings(recipe("tiny"), SETTINGS | {f"train.{name}": value for name, value in changes.items()})


def quietly(asked: Recipe, data: Path, out: Path, **options: object) -> Outcome:
    return run(asked, shards_data(data), out, say=lambda _: None, **options)


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("straight") / "run"
    quietly(plan(), data, out)
    return out


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its first half."""
    out = tmp_path_factory.mktemp("begun") / "run"
    quietly(plan(steps=10), data, out)
    shutil.rmtree(out / "model")
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def weights(out: Path) -> bytes:
    return (out / "model" / "model.safetensors").read_bytes()


def go_on(out: Path, *more: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return commands.glauber("train", "--out", out, "--resume", *more, cwd=cwd)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


def test_a_run_goes_on_by_its_folder_alone_to_the_same_weights_and_remembers_what_was_changed(begun, straight, tmp_path):
    shutil.copytree(begun, tmp_path / "run")
    half = go_on("run", "--set=train.steps=15", cwd=tmp_path)
    assert "going on from step 10" in half.stdout, half.stderr
    assert "done: 15 steps" in go_on("run", cwd=tmp_path).stdout
    whole = go_on("run", "--set", "train.steps=20", cwd=tmp_path)
    assert "going on from step 15" in whole.stdout, whole.stderr
    assert weights(tmp_path / "run") == weights(straight)


def test_repeating_what_a_run_has_is_no_change(begun, data, straight, tmp_path):
    out = shutil.copytree(begun, tmp_path / "run")
    said = [f"--set={name}={json.dumps(value)}" for name, value in SETTINGS.items()]
    done = go_on(out, "--recipe", "tiny", "--data", data, *said)
    assert done.returncode == 0, done.stderr
    assert weights(out) == weights(straight)


@pytest.mark.parametrize(
    ("words", "about"),
    [
        (["--set=train.batch=8"], "has train.batch=4, and --resume cannot make it 8; leave it as it is, or start another run"),
        (["--set=train.seed=1"], "has train.seed=0, and --resume cannot make it 1"),
        (["--set=network.width=32"], "has network.width=16, and --resume cannot make it 32"),
        (["--set=network.vocab=99"], "and --resume cannot make it 99"),
        (["--set=process.keep=0.5"], "has process.keep=[0.9, 0.8, 0.7, 0.0], and --resume cannot make it 0.5"),
        (["--set=method=ar"], 'has method="ggm", and --resume cannot make it "ar"'),
        (["--set=sampling.top_p=0.5"], "has sampling.top_p=0.9, and --resume cannot make it 0.5"),
        (["--set=sampling.top_k=3"], "has sampling.top_k=null, and --resume cannot make it 3"),
        (["--recipe=digits"], "is of the recipe tiny, not digits; leave --recipe out"),
        (["--init=novels"], "started from random weights, not from novels; leave --init out"),
        (["--set=train.stpes=3"], "did you mean 'train.steps'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_must_not_change_is_refused_with_the_old_and_the_new_value(words, about, begun, tmp_path):
    out = shutil.copytree(begun, tmp_path / "run")
    before = contents(out)
    assert about in refusal(go_on(out, *words))
    assert contents(out) == before


def test_every_setting_that_may_change_is_one():
    assert set(flat(recipe("tiny").to_dict())) > MAY_CHANGE


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_comes_back_from_its_json(name):
    assert recipe_of(json.loads(json.dumps(recipe(name).to_dict()))) == recipe(name)


def test_a_config_that_does_not_fit_is_named(begun, tmp_path):
    out = shutil.copytree(begun, tmp_path / "run")
    config = json.loads((out / "config.json").read_text())
    for harm, about in (
        (lambda said: said["recipe"]["train"].update(batch="many"), "train.batch is a whole number"),
        (lambda said: said["recipe"].update(flavour=3), "unknown setting 'flavour'"),
        (lambda said: said.pop("data"), "'data'"),
    ):
        broken = json.loads(json.dumps(config))
        harm(broken)
        (out / "config.json").write_text(json.dumps(broken))
        with refused(f"config.json is damaged, or of another version of glauber .*{about}"):
            read_config(out)


@pytest.mark.parametrize("what", ["nothing", "an empty folder", "other things", "a model"])
def test_where_there_is_no_run_resume_is_refused_and_leaves_no_trace(what, straight, tmp_path):
    out = tmp_path / "run"
    if what == "a model":
        shutil.copytree(straight / "model", out)
    elif what != "nothing":
        out.mkdir()
        (out / "mine.txt").write_text("mine") if what == "other things" else None
    before = sorted(tmp_path.rglob("*"))
    assert f"{out} holds no run to go on with; leave --resume out to start one there" in refusal(go_on(out))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_needs_data_or_a_recipe_to_begin(tmp_path):
    done = commands.glauber("train", "--out", tmp_path / "run")
    assert "say with --data what to train on, name a recipe that brings its own, or go on with --resume" in refusal(done)
    assert not (tmp_path / "run").exists()


def test_data_that_has_moved_is_asked_for_and_its_new_place_remembered(data, straight, tmp_path):
    here = shutil.copytree(data, tmp_path / "here")
    quietly(plan(steps=10), here, tmp_path / "run")
    there = here.rename(tmp_path / "there")
    assert f"was in {here}, which is gone; say with --data where it is now" in refusal(go_on(tmp_path / "run"))
    assert go_on("run", "--data", "there", "--set=train.steps=15", cwd=tmp_path).returncode == 0
    assert read_config(tmp_path / "run").data == there
    assert go_on(tmp_path / "run", "--set=train.steps=20").returncode == 0
    assert weights(tmp_path / "run") == weights(straight)


def test_other_data_is_refused(begun, tmp_path):
    (tmp_path / "b.txt").write_text("0123456789 " * 400)
    prepare([tmp_path / "b.txt"], tmp_path / "other", "char", 16, progress=False)
    before = contents(begun)
    assert f"the run in {begun} was trained on other data" in refusal(go_on(begun, "--data", tmp_path / "other"))
    assert contents(begun) == before


def test_the_digits_need_no_data_on_going_on(tmp_path):
    words = ("--set=train.steps=2", "--set=network.width=16", "--set=network.layers=1", "--set=train.samples=0")
    assert commands.glauber("train", "--recipe", "digits", "--out", tmp_path / "run", *words).returncode == 0
    assert "going on from step 2" in go_on(tmp_path / "run", "--set=train.steps=3").stdout


def test_a_run_that_was_stopped_before_its_first_checkpoint_starts_from_its_model_again(data, straight, tmp_path, monkeypatch):
    quietly(plan(), data, tmp_path / "from", init=str(straight))
    assert weights(tmp_path / "from") != weights(straight)
    monkeypatch.chdir(straight.parent)
    quietly(plan(), data, tmp_path / "run", init="run")
    assert read_config(tmp_path / "run").init == str(straight)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.rmtree(tmp_path / "run" / "model")
    monkeypatch.chdir(tmp_path)
    done = go_on("run")
    assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "run") == weights(tmp_path / "from")


def test_the_model_that_a_run_started_from_is_not_needed_once_there_is_a_checkpoint(data, straight, tmp_path):
    other = shutil.copytree(straight / "model", tmp_path / "other")
    quietly(plan(steps=10), data, tmp_path / "run", init=str(other))
    shutil.rmtree(other)
    assert quietly(plan(), data, tmp_path / "run", resume=True).step == 20


def training(out: Path, *more: object) -> "subprocess.Popen[str]":
    """A run that does not end by itself, once it trains."""
    words = ["train", "--out", str(out), *map(str, more), "--set=train.steps=1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "glauber", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (out / "log.jsonl").exists():
        time.sleep(0.01)
    return process


def test_two_runs_in_one_folder_are_refused_and_a_killed_one_leaves_no_lock(data, tmp_path):
    out = tmp_path / "run"
    shorter = [f"--set={name}={json.dumps(value)}" for name, value in SETTINGS.items()]
    first = training(out, "--recipe=tiny", f"--data={data}", *shorter)
    try:
        for second in (go_on(out), go_on(out, "--set=train.lr=1e-4")):
            assert f"another process trains in {out} at this moment; wait until it ends, stop it, or name" in refusal(second)
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert (out / LOCK).exists()
    assert read_config(out).recipe.train.lr == plan().train.lr
    step = int(checkpoints(out / "checkpoints")[-1].name[5:]) if (out / "checkpoints").exists() else 0
    done = go_on(out, f"--set=train.steps={step + 5}")
    assert f"done: {step + 5} steps" in done.stdout, done.stderr


def test_a_pipe_in_the_place_of_the_log_is_refused_and_not_waited_for(begun, tmp_path):
    out = shutil.copytree(begun, tmp_path / "run")
    (out / "log.jsonl").unlink()
    os.mkfifo(out / "log.jsonl")
    done = commands.glauber("train", "--out", out, "--resume", seconds=10)
    assert (done.returncode, done.stderr) == (
        2,
        f"glauber: {out / 'log.jsonl'} is damaged; remove it, and the run does without\n",
    )


def test_a_lock_is_not_left_to_the_next_run_of_the_same_process(data, tmp_path):
    quietly(plan(steps=2), data, tmp_path / "run")
    quietly(plan(steps=4), data, tmp_path / "run", resume=True)
    with refused("has train.batch=4"):
        quietly(replace(plan(), train=replace(plan().train, batch=8)), data, tmp_path / "run", resume=True)
    assert quietly(plan(steps=5), data, tmp_path / "run", resume=True).step == 5


def test_a_run_that_was_killed_before_it_had_a_config_begins_as_if_nothing_had_been(data, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / LOCK).touch()
    (out / "config.json.tmp").write_text("{")
    assert quietly(plan(steps=2), data, out).step == 2


def test_a_file_system_without_locks_is_no_hindrance(data, tmp_path, monkeypatch):
    def none(descriptor: int, how: int) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr("fcntl.flock", none)
    assert quietly(plan(steps=2), data, tmp_path / "run").step == 2
