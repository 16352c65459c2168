"""The held-out bound of a run is followed: its best weights are the model's, and training stops when it falls no more."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused

import glauber
from glauber.cli.info_facts import run_facts
from glauber.process import NoiseLaw, Process, Schedule
from glauber.recipe import TrainSpec
from glauber.runs import checkpoints, read_checkpoint
from glauber.train import Trainer, recipe
from glauber.train.best import Best, followed
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings
from glauber.train.parallel import World
from glauber.train.report import read_log
from glauber.train.run import check_plan, run

NAME = "valid_bits_per_token"


def trainer(patience: int) -> Trainer:
    config = glauber.TransformerConfig(3, 4, width=8, layers=1, heads=2)
    process = Process(Schedule.round_robin(4, 16, "linear"), NoiseLaw.uniform(3))
    rows = InMemory(torch.randint(3, (8, 4), generator=torch.Generator().manual_seed(0)))
    return Trainer(glauber.Transformer(config), process, rows, TrainSpec(steps=100, batch=4, patience=patience), "ggm")


def weights(made: Trainer) -> list[torch.Tensor]:
    return [parameter.clone() for parameter in made.average.network.parameters()]


def test_the_weights_of_the_best_bound_come_back_and_the_run_is_over_after_as_many_looks_as_it_has_patience(tmp_path):
    made = trainer(2)
    best, seen = Best(made, tmp_path), {}
    for bits, over in [(3.0, False), (2.0, False), (2.5, False), (1.9, False), (1.9, False), (math.nan, False), (2.2, True)]:
        made.advance()
        best.see({NAME: bits})
        seen[made.step] = weights(made)
        assert best.over == over
    assert (best.step, best.bits) == (4, 1.9)
    best.take()
    assert all(torch.equal(ours, then) for ours, then in zip(weights(made), seen[4], strict=True))
    assert not all(torch.equal(ours, then) for ours, then in zip(weights(made), seen[7], strict=True))


def test_it_is_found_again_with_the_looks_since_and_a_look_that_is_repeated_does_not_count(tmp_path):
    made = trainer(3)
    best = Best(made, tmp_path)
    for step, bits in [(10, 2.0), (20, 2.1)]:
        made.step = step
        best.see({NAME: bits})
    log = [json.dumps({"step": step, "loss": 1.0, NAME: bits}) for step, bits in [(10, 2.0), (20, 2.1)]]
    (tmp_path / "log.jsonl").write_text("\n".join(log) + "\n")
    again = Best(made, tmp_path)
    assert (again.step, again.bits, again.since) == (10, 2.0, 1)
    made.step = 10  # from a checkpoint before both
    again.see({NAME: 2.0})
    assert again.since == 1


def test_a_damaged_best_is_as_none(tmp_path):
    made = trainer(3)
    Best(made, tmp_path).see({NAME: 2.0})
    (file,) = tmp_path.rglob("average.safetensors")
    file.write_bytes(file.read_bytes()[:-1])
    assert Best(made, tmp_path).step == -1


def test_what_is_followed_is_the_bound_of_the_way_in_which_the_model_samples():
    assert followed({NAME: 2.0, f"{NAME}_causal": 1.0, "unigram_bits_per_token": 0.5}) == 1.0
    assert followed({NAME: 2.0}) == 2.0
    assert followed({f"{NAME}_causal": None}) is None
    assert followed({}) is None


def memorised() -> Data:
    """Few random rows to learn by heart, and others to validate on: the bound rises again."""
    tokens = torch.randint(4, (24, 8), generator=torch.Generator().manual_seed(0))
    return Data(InMemory(tokens[:4]), InMemory(tokens[4:]), 4, 8, torch.ones(4), None, "random tokens")


SETTINGS = {"train.steps": 400, "train.batch": 4, "train.evaluate_every": 20, "train.samples": 0, "train.decay": 400}


def followed_run(out: Path, steps: int = 400, resume: bool = False, patience: int = 3):
    plan = apply_settings(recipe("tiny"), SETTINGS | {"train.steps": steps, "train.patience": patience})
    said: list[str] = []
    return run(plan, memorised(), out, resume=resume, say=said.append), said


def digest(out: Path) -> str:
    return hashlib.sha256((out / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    out = tmp_path_factory.mktemp("best") / "run"
    return out, *followed_run(out)


def test_a_run_that_learns_by_heart_stops_and_its_model_has_the_best_weights(straight):
    out, outcome, said = straight
    log = {line["step"]: line[NAME] for line in read_log(out / "log.jsonl") if NAME in line}
    best = min(log, key=lambda step: log[step])
    assert outcome.finished
    assert 0 < best < outcome.step == best + 3 * 20 < 400
    assert any(f"the bound was best at step {best:,}" in words for words in said)
    model = glauber.load(out)
    assert (model.about["steps"], model.about["best_step"], model.about["metrics"]) == (outcome.step, best, {NAME: log[best]})
    (kept,) = checkpoints(out / "best")
    saved = read_checkpoint(kept, parts=("average",))[0]["average"]
    assert all(torch.equal(parameter, saved[name]) for name, parameter in model.network.named_parameters())
    assert run_facts(str(out))["finished"]


def test_a_run_that_was_stopped_on_the_way_goes_on_to_the_same_model(straight, tmp_path):
    out, outcome, _ = straight
    first, _ = followed_run(tmp_path / "run", steps=40)
    assert first.step == 40
    again, _ = followed_run(tmp_path / "run", resume=True)
    assert (again.step, digest(tmp_path / "run")) == (outcome.step, digest(out))
    once_more, _ = followed_run(tmp_path / "run", resume=True)  # it is over, and stays so
    assert (once_more.step, digest(tmp_path / "run")) == (outcome.step, digest(out))


def test_without_patience_the_weights_are_the_last_ones(tmp_path):
    outcome, _ = followed_run(tmp_path / "run", steps=60, patience=0)
    assert outcome.step == 60
    assert not (tmp_path / "run" / "best").exists()


def test_patience_is_refused_where_no_process_has_the_whole_weights():
    plan = apply_settings(recipe("tiny"), {"train.patience": 2, "train.parallel": "fsdp", "train.batch": 4})
    with refused("train.patience keeps whole weights"):
        check_plan(plan, memorised(), World(0, 2))


def test_it_is_said_at_the_start_when_rows_are_seen_often_and_when_the_splits_overlap(tmp_path):
    rows = torch.from_numpy(np.random.default_rng(0).integers(50, size=(40, 16)))
    data = Data(InMemory(rows), InMemory(rows[:5]), 50, 16, torch.ones(50), None, "random tokens")
    said: list[str] = []
    plan = apply_settings(recipe("tiny"), {"train.steps": 21, "train.batch": 40, "train.samples": 0, "network.width": 8})
    run(plan, data, tmp_path / "run", say=said.append)
    assert any("each row will be seen about 21 times" in words for words in said)
    assert any("5 of the rows to validate on are among those to train on" in words for words in said)
