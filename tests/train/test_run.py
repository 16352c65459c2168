"""A training run in a folder: stopped, killed, damaged, resumed, and refused."""

import hashlib
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
import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import glauber
from glauber import Model, NoiseLaw, PixelCodec, Process, Schedule, Transformer, TransformerConfig
from glauber.cli.info_facts import model_facts, run_facts
from glauber.cli.info_words import run_words
from glauber.data import open_shards, prepare
from glauber.train import recipe
from glauber.train.checkpoint import checkpoints, read_newest, write_checkpoint
from glauber.train.data import Data, shards_data
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings, parse_settings, read_settings
from glauber.train.parallel import World
from glauber.train.report import read_log
from glauber.train.run import run
from glauber.train.samples import quick_sampler
from glauber.train.validate import preview

SETTINGS = [
    "train.steps=40",
    "train.decay=40",
    "train.checkpoint_every=5",
    "train.batch=4",
    "train.evaluate_every=20",
    "network.width=16",
]


NUMBERS = {"seconds": 0.0, "averaged": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 16, progress=False)
    return folder / "shards"


def command(data: Path, out: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "glauber", "train", "--recipe", "tiny", "--data", str(data), "--out", str(out), *more]
    return words + [f"--set={setting}" for setting in SETTINGS]


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*command(*arguments)[3:])  # type: ignore[arg-type]


def go_on(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return commands.glauber("train", "--out", out, "--resume", *more)


def digest(out: Path) -> str:
    return hashlib.sha256((out / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    result = call(data, out)
    assert result.returncode == 0, result.stderr
    return out


def plan():
    return apply_settings(recipe("tiny"), parse_settings(SETTINGS))


def test_a_run_leaves_a_model_a_log_and_its_newest_checkpoints(straight, data):
    model = glauber.load(straight / "model")
    assert len(model.sample(1, seed=0)[0]) > 0
    assert [path.name for path in checkpoints(straight / "checkpoints")] == ["step-00000035", "step-00000040"]
    log = [json.loads(line) for line in (straight / "log.jsonl").read_text().splitlines()]
    assert [record["step"] for record in log] == [10, 20, 30, 40]
    assert log[-1]["valid_bits_per_token"] > 0
    assert model.about["metrics"] == {"valid_bits_per_token": log[-1]["valid_bits_per_token"]}
    assert model.about["data"] == open_shards(data).hash


def test_a_run_is_loaded_by_its_folder_once_it_has_a_model(straight, data, tmp_path):
    assert glauber.load(straight).sample(1, seed=0) == glauber.load(straight / "model").sample(1, seed=0)
    shutil.copy(straight / "config.json", tmp_path)
    with refused("has no model yet; go on with it by glauber train --out"):
        glauber.load(tmp_path)


LONG = [f"--set={name}" for name in ("train.steps=300", "train.decay=300", "train.evaluate_every=150")]


@pytest.fixture(scope="module")
def long(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed, and that takes seconds more than a killer needs."""
    out = tmp_path_factory.mktemp("runs") / "long"
    assert commands.glauber(*command(data, out)[3:], *LONG).returncode == 0
    return out


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_or_killed_run_goes_on_to_the_same_weights(how, long, data, tmp_path):
    out = tmp_path / "run"
    again = [sys.executable, "-m", "glauber", "train", "--out", str(out), "--resume"]
    for moment, words in ((5, command(data, out) + LONG), (30, again)):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while process.poll() is None and not any(int(p.name[5:]) >= moment for p in checkpoints(out / "checkpoints")):
            time.sleep(0.002)
        process.send_signal(how)
        process.send_signal(how)  # as `timeout` and terminals do
        said = process.communicate()[0]
        assert not (out / "model").exists(), "it ended before its killer came"
        assert process.returncode == (0 if how == signal.SIGTERM else -how)
        assert (f"go on with: glauber train --out {out} --resume" in said) == (how == signal.SIGTERM)
    assert go_on(out).returncode == 0
    assert digest(out) == digest(long)
    logs = [[json.loads(line)["loss"] for line in (path / "log.jsonl").read_text().splitlines()] for path in (out, long)]
    assert logs[0][-1] == pytest.approx(logs[1][-1], rel=0.2)  # the mean over the steps since the last line

    ours, theirs = ({path.name: path.read_bytes() for path in (each / "samples").iterdir()} for each in (out, long))
    assert ours == theirs


def test_the_samples_of_the_last_validation_are_the_model_s_own(straight):
    """Its chain has 64 steps, few enough to go all of them."""
    files = sorted((straight / "samples").iterdir())
    assert [file.name for file in files] == ["step-00000020.txt", "step-00000040.txt"]
    assert files[-1].read_text() == "\n----\n".join(glauber.load(straight).sample(4, seed=0)) + "\n"


def test_samples_change_nothing_but_their_folder(straight, data, tmp_path):
    silent = replace(plan(), train=replace(plan().train, samples=0))
    run(silent, shards_data(data), tmp_path / "run", say=lambda _: None)
    assert digest(tmp_path / "run") == digest(straight)
    assert not (tmp_path / "run" / "samples").exists()


def test_no_clock_runs_while_samples_are_drawn(data, tmp_path, monkeypatch):
    """On a clock that goes a thousandth of a second at each look, and a day while samples are drawn."""
    clock = [0.0]

    def look() -> float:
        clock[0] += 1e-3
        return clock[0]

    def draw(*arguments):
        clock[0] += 86400
        preview(*arguments)

    monkeypatch.setattr(time, "perf_counter", look)
    monkeypatch.setattr("glauber.train.validate.preview", draw)
    timed = replace(plan(), train=replace(plan().train, steps=10**9, seconds=0.1))
    assert run(timed, shards_data(data), tmp_path / "run", say=lambda _: None).step > 20
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert last["seconds"] == pytest.approx(0.1, rel=0.1)
    assert last["tokens_per_second"] > 1000


@pytest.mark.parametrize(("codec", "kind"), [(PixelCodec((4, 4), 4), "png"), (None, "json")])
def test_samples_are_pictures_where_tokens_are_and_tokens_where_they_stand_for_nothing(codec, kind, tmp_path):
    rows = InMemory(torch.arange(40 * 16).view(40, 16) % 4)
    run(replace_steps(10), Data(rows, rows, 4, 16, torch.ones(4), codec, "made up"), tmp_path / "run", say=lambda _: None)
    (file,) = (tmp_path / "run" / "samples").iterdir()
    assert file.name == f"step-00000010.{kind}"
    expected = glauber.load(tmp_path / "run").sample_tokens(4, seed=0)
    if kind == "json":
        assert json.loads(file.read_text()) == expected.tolist()
    else:
        sheet = np.asarray(Image.open(file))  # each 4×4 image enlarged 16 times, 16 pixels of white around it
        assert sheet.shape == (16 + 80, 16 + 4 * 80, 3)
        assert len(np.unique(sheet)) > 4


@pytest.mark.parametrize("length", [16, 17, 256, 1000])
def test_the_chain_of_the_samples_goes_to_every_site_in_few_calls(length):
    process = Process(Schedule.round_robin(length, 4 * length, keep="linear"), NoiseLaw.uniform(3))
    shape = TransformerConfig(vocab=3, length=length, width=8, layers=1, heads=1)
    sampler = quick_sampler(Model(Transformer(shape), process))
    assert sampler is not None
    schedule = sampler.schedule
    assert len(schedule.times) <= 64
    visited = torch.cat([schedule.sites(torch.tensor([t]))[0] for t in schedule.times])
    assert visited.bincount().tolist() == [4] * length
    told = Model(Transformer(replace(shape, conditioning="time")), process)
    assert (quick_sampler(told) is None) == (length > 16)


def test_a_model_that_must_go_its_own_long_chain_is_not_sampled_and_it_says_so(data, tmp_path):
    said: list[str] = []
    long = apply_settings(replace_steps(10), {"network.conditioning": "time", "process.sweeps": 8})
    run(long, shards_data(data), tmp_path / "run", say=said.append)
    assert any("no samples while it trains" in line and "128 steps" in line for line in said)
    assert not (tmp_path / "run" / "samples").exists()


def test_tensorboard_shows_what_the_log_says_also_after_a_lost_stretch(data, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def watched(steps: int):
        return replace(plan(), train=replace(plan().train, steps=steps, tensorboard=True))

    out = tmp_path / "run"
    run(watched(20), shards_data(data), out, say=lambda _: None)
    shutil.rmtree(checkpoints(out / "checkpoints")[-1])  # so that it goes on from step 15 and logs step 20 again
    run(watched(40), shards_data(data), out, resume=True, say=lambda _: None)
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    log = read_log(out / "log.jsonl")
    for name in ("loss", "tokens_per_second", "lr", "seconds", "valid_bits_per_token"):
        shown = [(event.step, event.value) for event in events.Scalars(name)]
        assert shown == [(line["step"], pytest.approx(line[name], rel=1e-6)) for line in log if name in line]
        assert len(shown) == (2 if name == "valid_bits_per_token" else 4)


def test_tensorboard_that_is_missing_is_named_with_its_extra_before_anything_is_written(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    watched = replace(plan(), train=replace(plan().train, tensorboard=True))
    with pytest.raises(ImportError, match=r"glauber\[track\]"):
        run(watched, shards_data(data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_info_tells_how_far_a_run_is(straight, data, tmp_path):
    facts, log = run_facts(str(straight)), read_log(straight / "log.jsonl")
    assert (facts["step"], facts["finished"]) == (40, True)
    assert facts["seconds"] == log[-1]["seconds"]
    assert facts["data"] == open_shards(data).hash
    assert facts["checkpoints"] == ["step-00000035", "step-00000040"]
    assert facts["model"] == model_facts(str(straight / "model"))
    assert facts["recipe"]["train"]["batch"] == 4

    out = tmp_path / "run"
    shutil.copytree(straight, out)
    shutil.rmtree(out / "model")
    (out / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log[:3]) + '{"step": 4')
    facts = run_facts(str(out))
    assert (facts["step"], facts["finished"], facts["last"]) == (40, False, log[2])
    assert facts["model"]["about"]["checkpoint"] == "step-00000040"
    assert facts["validation"] == log[1]
    words = run_words(facts)
    assert words["step"] == "40 of 40"
    assert words["loss"] == f"{log[2]['loss']:.4f} at step 30"
    assert f"{log[1]['valid_bits_per_token']:.4f} bits per token, at step 20" == words["validation"]
    assert "--resume" in words["model"]

    for name in ("log.jsonl", "checkpoints", "samples"):  # killed before its first step
        (out / name).unlink() if (out / name).is_file() else shutil.rmtree(out / name)
    assert run_words(run_facts(str(out)))["step"] == "0 of 40"


def test_info_says_what_a_tokenizer_is_and_not_what_is_in_it(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([tmp_path / "a.txt"], tmp_path / "shards", "bpe:300", 16, progress=False)
    run(replace_steps(1), shards_data(tmp_path / "shards"), tmp_path / "run", say=lambda _: None)
    facts = model_facts(str(tmp_path / "run"))
    assert facts["codec"] == {"kind": "tokenizer", "vocab": facts["network"]["vocab"], "lossless": True}
    assert max(map(len, run_words(run_facts(str(tmp_path / "run"))).values())) < 80


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(data, tmp_path):
    out, undisturbed = tmp_path / "run", tmp_path / "undisturbed"
    run(plan(), shards_data(data), undisturbed, say=lambda _: None)
    assert run(replace_steps(20), shards_data(data), out, say=lambda _: None).finished
    newest = checkpoints(out / "checkpoints")[-1]
    weights = newest / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    said: list[str] = []
    assert run(plan(), shards_data(data), out, resume=True, say=said.append).step == 40
    assert any(newest.name in line and "damaged" in line for line in said)
    assert "going on from step 15" in said
    assert digest(out) == digest(undisturbed)


def replace_steps(steps: int):
    """The same run, ended early; the cosine ends where the long one's does."""
    return replace(plan(), train=replace(plan().train, steps=steps))


def test_an_existing_run_is_refused_without_resume(straight, data):
    assert "holds a run already" in call(data, straight).stderr


def test_a_folder_of_something_else_is_refused(data, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for resume, about in ((False, "not empty and holds no run"), (True, "holds no run to go on with")):
        with refused(about):
            run(plan(), shards_data(data), tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_checkpoint_that_cannot_be_written_leaves_the_older_ones(tmp_path, monkeypatch):
    tensors = {"weights": {"a": torch.arange(4.0)}}
    write_checkpoint(tmp_path, tensors, NUMBERS | {"step": 1}, keep=1)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="checkpoint of step 2 could not be written: No space left"):
        write_checkpoint(tmp_path, {"weights": {"a": torch.zeros(4)}}, NUMBERS | {"step": 2}, keep=1)
    monkeypatch.undo()
    found = read_newest(tmp_path)
    assert found is not None
    assert torch.equal(found[0]["weights"]["a"], tensors["weights"]["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_whole_checkpoint_of_the_same_step_stays_and_a_damaged_one_is_replaced(tmp_path):
    write_checkpoint(tmp_path, {"weights": {"a": torch.zeros(4)}}, NUMBERS | {"step": 1}, keep=1)
    written = (tmp_path / "step-00000001").stat().st_ino
    write_checkpoint(tmp_path, {"weights": {"a": torch.ones(4)}}, NUMBERS | {"step": 1}, keep=1)
    assert (tmp_path / "step-00000001").stat().st_ino == written
    assert (read_newest(tmp_path) or [{}])[0]["weights"]["a"].tolist() == [0.0] * 4
    (tmp_path / "step-00000001" / "weights.safetensors").write_bytes(b"torn")
    write_checkpoint(tmp_path, {"weights": {"a": torch.ones(4)}}, NUMBERS | {"step": 1}, keep=1)
    assert (read_newest(tmp_path) or [{}])[0]["weights"]["a"].tolist() == [1.0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_finished_run_that_is_resumed_keeps_its_only_checkpoint(data, tmp_path):
    alone = replace(plan(), train=replace(plan().train, steps=4, keep_checkpoints=1))
    run(alone, shards_data(data), tmp_path / "run", say=lambda _: None)
    (only,) = checkpoints(tmp_path / "run" / "checkpoints")
    written, weights = only.stat().st_ino, digest(tmp_path / "run")
    assert run(alone, shards_data(data), tmp_path / "run", resume=True, say=lambda _: None).finished
    assert (only.stat().st_ino, digest(tmp_path / "run")) == (written, weights)


@pytest.mark.parametrize("every", [4, 15])
def test_validation_happens_when_it_was_asked_for_and_changes_no_weight(every, straight, data, tmp_path):
    asked = replace(plan(), train=replace(plan().train, evaluate_every=every, samples=0))
    run(asked, shards_data(data), tmp_path / "run", say=lambda _: None)
    lines = read_log(tmp_path / "run" / "log.jsonl")
    assert [line["step"] for line in lines if "valid_bits_per_token" in line] == sorted({*range(every, 41, every), 40})
    assert [line["step"] for line in lines] == sorted({*range(every, 41, every), *range(10, 41, 10)})
    assert digest(tmp_path / "run") == digest(straight)


def test_a_run_whose_time_is_up_while_it_waits_for_the_gpu_is_validated_at_its_end(data, tmp_path, monkeypatch):
    mean = World.mean

    def slow(self: World, value: torch.Tensor) -> torch.Tensor:
        time.sleep(0.5)  # more than all of the time
        return mean(self, value)

    monkeypatch.setattr(World, "mean", slow)
    timed = replace(plan(), train=replace(plan().train, steps=10**6, seconds=0.4, evaluate_every=10**6, samples=0))
    run(timed, shards_data(data), tmp_path / "run", say=lambda _: None)
    assert "valid_bits_per_token" in read_log(tmp_path / "run" / "log.jsonl")[-1]


def test_training_starts_from_a_saved_model_and_says_what_it_made_anew(straight, data, tmp_path):
    (tmp_path / "b.txt").write_text("0123456789 " * 400)
    prepare([tmp_path / "b.txt"], tmp_path / "other", "char", 16, progress=False)
    said: list[str] = []
    run(replace_steps(1), shards_data(tmp_path / "other"), tmp_path / "run", init=str(straight / "model"), say=said.append)
    assert any("made anew" in line and "embed.weight" in line and "head.weight" in line for line in said)
    wider = apply_settings(plan(), {"network.width": 32})
    with pytest.raises(ValueError, match="must be the recipe's"):
        run(wider, shards_data(data), tmp_path / "wide", init=str(straight / "model"), say=lambda _: None)


def test_training_by_the_clock_stops_by_it(data, tmp_path):
    timed = replace(plan(), train=replace(plan().train, steps=10**9, seconds=0.5))
    outcome = run(timed, shards_data(data), tmp_path / "run", say=lambda _: None)
    assert outcome.finished
    assert 1 < outcome.step < 10**9


@pytest.mark.parametrize(
    ("setting", "about"),
    [
        ("train.stpes=3", "did you mean 'train.steps'"),
        ("steps=3", "unknown setting 'steps'"),
        ("train=3", "is a group of settings"),
        ("train.steps=many", "is a whole number"),
        ("train.steps", "reads name=value"),
        ("objective=dense", "unknown setting 'objective'"),
        ("method=d3pm", "method is one of ggm, ggm-marginal, ggm-binary, ar, mlm, mdlm"),
        ("train.precision=fp8", "precision is fp32 or bf16"),
        ("process.noise=foo", "process.noise is uniform or unigram"),
        ("process.keep=true", "process.keep is a number or a text or a list of numbers"),
        ("train.lr=-1", "train.lr is 0 or more"),
        ("train.min_lr=-1", "train.min_lr is 0 or more"),
        ("train.weight_decay=-0.1", "train.weight_decay is 0 or more"),
        ("train.eps=-1e-8", "train.eps is 0 or more"),
        ("train.warmup=-5", "train.warmup is 0 or more"),
        ("train.grad_clip=-1", "train.grad_clip is above 0"),
        ("train.grad_clip=0", "train.grad_clip is above 0"),
        ("train.ema_decay=5", r"train.ema_decay lies in \[0, 1\)"),
        ("train.ema_decay=true", "train.ema_decay is a number, not true"),
        ("train.betas=[0.9,1.0]", r"train.betas lie in \[0, 1\)"),
        ("train.betas=[0.9]", "train.betas is a list of numbers"),
        ("train.betas=3", "train.betas is a list of numbers"),
        ("train.lr=abc", "train.lr is a number, not"),
        (f"train.lr={10**400}", "train.lr is a number, not"),
        ("train.lr=NaN", "train.lr is a number, not"),
        ("train.grad_clip=abc", "train.grad_clip is a number or none, not"),
        ("train.steps=none", "train.steps is a whole number, not null"),
        ("train.tensorboard=1", "train.tensorboard is true or false"),
        ("train.seed=-1", "train.seed is 0 or more"),
        ("train.seed=9223372036854775808", "train.seed is 0 or more"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_nearest_right_one(setting, about):
    with refused(about):
        apply_settings(recipe("tiny"), parse_settings([setting]))


def test_a_setting_of_the_wrong_kind_leaves_no_folder(data, tmp_path):
    result = call(data, tmp_path / "run", "--set=train.grad_clip=abc")
    assert (result.returncode, result.stderr) == (2, 'glauber: train.grad_clip is a number or none, not "abc"\n')
    assert not (tmp_path / "run").exists()


def test_a_whole_number_is_a_number_also_where_there_was_none():
    changed = apply_settings(recipe("digits"), parse_settings(["train.grad_clip=2", "train.seconds=3", "process.keep=0"])).train
    assert (type(changed.grad_clip), type(changed.seconds)) == (float, float)
    assert apply_settings(recipe("tiny"), parse_settings(["train.grad_clip=none"])).train.grad_clip is None


def test_settings_come_from_a_file_and_from_words(tmp_path):
    (tmp_path / "s.toml").write_text('method = "ggm-marginal"\n[train]\nsteps = 7\nlr = 1\n[process]\nkeep = [0.5, 0.4]\n')
    changed = apply_settings(recipe("tiny"), read_settings(tmp_path / "s.toml") | parse_settings(["train.steps=9"]))
    assert (changed.method, changed.train.steps, changed.train.lr) == ("ggm-marginal", 9, 1.0)
    assert changed.process.keep == (0.5, 0.4)
    with pytest.raises(ValueError, match="cannot be read as TOML"):
        read_settings(tmp_path / "absent.toml")
