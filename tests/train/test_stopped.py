"""A run that was stopped has a model: the averaged network of its newest checkpoint, without its data, and it says so."""

import json
import shutil
import signal
import threading
from pathlib import Path

import commands
import numpy as np
import pytest
import safetensors.torch
import torch
from refusals import refused

import glauber
from glauber.cli.info_facts import run_facts
from glauber.cli.info_words import run_words
from glauber.data import prepare
from glauber.method import METHODS
from glauber.runs import checkpoints
from glauber.train import Recipe, recipe
from glauber.train.data import Data, digits_data, shards_data
from glauber.train.overrides import apply_settings
from glauber.train.run import run

SETTINGS = {"train.steps": 40, "train.batch": 4, "train.checkpoint_every": 5, "train.samples": 0, "network.width": 16}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "bpe:280", 16, progress=False)
    return folder / "shards"


def plan(**changes: object) -> Recipe:
    return apply_settings(recipe("tiny"), SETTINGS | {f"train.{name}": value for name, value in changes.items()})


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    run(plan(), shards_data(data), out, say=lambda _: None)
    return out


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At step 23, by a signal; its data is gone since."""
    folder = tmp_path_factory.mktemp("stopped")
    shutil.copytree(data, folder / "data")
    out = folder / "run"
    with pytest.MonkeyPatch.context() as patch:
        advance = glauber.train.Trainer.advance

        def until(trainer: glauber.train.Trainer) -> torch.Tensor:
            if trainer.step == 22:
                signal.raise_signal(signal.SIGTERM)
            return advance(trainer)

        patch.setattr(glauber.train.Trainer, "advance", until)
        assert run(plan(), shards_data(folder / "data"), out, say=lambda _: None) == (23, False, None)
    shutil.rmtree(folder / "data")
    return out


def without_model(out: Path, to: Path) -> Path:
    shutil.copytree(out, to)
    shutil.rmtree(to / "model")
    return to


def average(checkpoint: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(checkpoint / "average.safetensors")


def require_same(model: glauber.Model, weights: dict[str, torch.Tensor]) -> None:
    own = dict(model.network.named_parameters())
    assert own.keys() == weights.keys()
    assert all(torch.equal(own[name], weights[name]) for name in own)


def test_a_stopped_run_is_loaded_as_the_average_of_its_newest_checkpoint_without_its_data(stopped, data):
    model = glauber.load(stopped)
    require_same(model, average(stopped / "checkpoints" / "step-00000023"))
    about = {name: model.about[name] for name in ("recipe", "steps", "checkpoint", "data")}
    assert about == {"recipe": "tiny", "steps": 23, "checkpoint": "step-00000023", "data": shards_data(data).hash}
    assert model.about["seconds"] > 0
    assert model.codec.encode("the cat") == shards_data(data).codec.encode("the cat")


def test_the_model_of_the_last_checkpoint_is_the_one_that_the_run_ended_in(finished, tmp_path):
    again = glauber.load(without_model(finished, tmp_path / "run"))
    assert again.about.pop("checkpoint") == "step-00000040"
    model = glauber.load(finished)
    model.about.pop("metrics")
    assert again.config() == model.config()
    for (name, one), (other_name, other) in zip(again.state_dict().items(), model.state_dict().items(), strict=True):
        assert name == other_name
        assert torch.equal(one, other)


@pytest.fixture(scope="module")
def digits() -> Data:
    return digits_data()


@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_run_of_every_method_has_its_model(method, digits, tmp_path):
    """Of the digits, whose codec has tensors of its own."""
    keep = {} if METHODS[method].can.clean_conditional else {"process.keep": 0.5}  # the paper's losses cannot learn 0
    asked = apply_settings(recipe("digits"), SETTINGS | keep | {"method": method, "train.steps": 2})
    run(asked, digits, tmp_path / "run", say=lambda _: None)
    model, stopped = glauber.load(tmp_path / "run"), glauber.load(without_model(tmp_path / "run", tmp_path / "stopped"))
    assert stopped.config() | {"about": None} == model.config() | {"about": None}
    assert all(map(torch.equal, stopped.state_dict().values(), model.state_dict().values()))
    assert torch.equal(stopped.sample_tokens(2, seed=0), model.sample_tokens(2, seed=0))


def test_commands_take_a_stopped_run_and_say_which_step_it_is(stopped, data, tmp_path):
    note = f"glauber: {stopped} is not finished; these are its averaged weights of step 23\n"
    model = glauber.load(stopped)
    sampled = commands.glauber("sample", stopped, "-n", 2, "--seed", 1, "--json")
    assert sampled.returncode == 0, sampled.stderr
    assert note in sampled.stderr
    assert json.loads(sampled.stdout)["tokens"] == model.sample_tokens(2, seed=1).tolist()
    (tmp_path / "b.txt").write_text("the cat sat on the mat. " * 20)
    np.save(tmp_path / "x.npy", np.zeros(16, np.int64))
    np.save(tmp_path / "m.npy", np.arange(16) < 3)
    for words in (
        ("infill", stopped, "--text", "the [[2]] sat", "--json"),
        ("vary", stopped, "--text", "the cat", "--json"),
        ("score", stopped, data, "--json"),
        ("infill", stopped, "--tokens", tmp_path / "x.npy", "--mask", tmp_path / "m.npy", "--out", tmp_path / "y.npy"),
    ):
        done = commands.glauber(*words)
        assert (done.returncode, done.stderr.count(note)) == (0, 1), done.stderr


def test_info_tells_of_a_stopped_run_what_it_tells_of_a_model(stopped):
    facts = run_facts(str(stopped))
    assert (facts["step"], facts["finished"], facts["model"]["about"]["checkpoint"]) == (23, False, "step-00000023")
    words = run_words(facts)
    assert words["model"] == f"not finished, as of step 23; glauber train --out {stopped} --resume goes on"
    assert int(words["parameters"].replace(",", "")) == sum(p.numel() for p in glauber.load(stopped).network.parameters())


def test_a_run_that_went_on_since_its_model_gives_its_newest_average_and_says_where_the_model_is(finished, data, tmp_path):
    out = shutil.copytree(finished, tmp_path / "run")
    run(plan(steps=60), shards_data(data), out, resume=True, say=lambda _: None)
    shutil.rmtree(out / "model")
    shutil.copytree(finished / "model", out / "model")
    require_same(glauber.load(out), average(out / "checkpoints" / "step-00000060"))
    require_same(glauber.load(out / "model"), average(finished / "checkpoints" / "step-00000040"))
    done = commands.glauber("sample", out, "-n", 1)
    assert f"{out} has gone on since the model in {out / 'model'}; these are its averaged weights of step 60" in done.stderr
    assert not run_facts(str(out))["finished"]


def test_a_finished_run_says_nothing(finished):
    assert "checkpoint" not in glauber.load(finished).about
    assert "glauber:" not in commands.glauber("sample", finished, "-n", 1).stderr


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before_it_or_to_the_model(stopped, finished, tmp_path):
    out = shutil.copytree(stopped, tmp_path / "run")
    (out / "checkpoints" / "step-00000023" / "average.safetensors").write_bytes(b"torn")
    model = glauber.load(out)
    require_same(model, average(out / "checkpoints" / "step-00000020"))
    assert model.about["steps"] == 20
    (out / "checkpoints" / "step-00000020" / "state.json").unlink()
    with refused(f"{out} is a training run that has no model yet; go on with it by glauber train --out {out} --resume"):
        glauber.load(out)
    shutil.copytree(finished / "model", out / "model")
    assert glauber.load(out).about["steps"] == 40


def test_a_checkpoint_that_is_longer_than_it_says_is_not_read_into_memory(stopped, tmp_path):
    out = shutil.copytree(stopped, tmp_path / "run")
    with (out / "checkpoints" / "step-00000023" / "average.safetensors").open("ab") as file:
        file.truncate(2**33)  # zeros, which take no room on the disk
    done = commands.glauber("sample", out, "-n", 1, seconds=10)
    assert "averaged weights of step 20" in done.stderr
    assert done.peak < 950


@pytest.mark.parametrize("name", ["frame.json", "frame.safetensors"])
def test_a_damaged_frame_is_named_and_going_on_makes_it_anew(name, stopped, data, tmp_path):
    out = shutil.copytree(stopped, tmp_path / "run")
    whole = (out / "checkpoints" / name).read_bytes()
    (out / "checkpoints" / name).write_bytes(whole[:-10])
    with refused(rf"frame\.\* is damaged .*; make it anew by glauber train --out {out} --resume"):
        glauber.load(out)
    run(plan(), shards_data(data), out, resume=True, say=lambda _: None)
    assert (out / "checkpoints" / name).read_bytes() == whole


def test_a_run_can_be_loaded_at_any_moment_while_it_trains(data, tmp_path):
    out, steps, ended = tmp_path / "run", [], threading.Event()

    def look() -> None:
        while not ended.is_set():
            if checkpoints(out / "checkpoints"):
                steps.append(glauber.load(out).about["steps"])

    looking = threading.Thread(target=look)
    looking.start()
    try:
        run(plan(steps=60, checkpoint_every=1, keep_checkpoints=1), shards_data(data), out, say=lambda _: None)
    finally:
        ended.set()
        looking.join()
    assert len(set(steps)) > 3
    assert steps == sorted(steps)
