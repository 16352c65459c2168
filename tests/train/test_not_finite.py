"""A loss, a gradient or a weight that is NaN or infinite ends a run at once; what is on the disk stays good and goes on."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from refusals import refused

from glauber import NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.cli import main
from glauber.cli.info_facts import run_facts
from glauber.cli.info_words import run_words
from glauber.data import prepare
from glauber.train import Recipe, Trainer, TrainSpec, recipe, train
from glauber.train import run as train_run
from glauber.train.checkpoint import checkpoints, read_checkpoint, read_newest, write_checkpoint
from glauber.train.data import shards_data
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings
from glauber.train.report import cut_log
from glauber.train.run import Outcome, run

SETTINGS = {"train.steps": 40, "train.decay": 40, "train.checkpoint_every": 5, "train.batch": 4, "train.samples": 0}
NUMBERS = {"seconds": 0.0, "averaged": 0}
BAD_STEP = 18  # neither logged nor written


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 16, progress=False)
    return folder / "shards"


def plan(**changes: object) -> Recipe:
    return apply_settings(recipe("tiny"), SETTINGS | {f"train.{name}": value for name, value in changes.items()})


def quietly(asked: Recipe, data: Path, out: Path, resume: bool = False) -> Outcome:
    return run(asked, shards_data(data), out, resume=resume, say=lambda _: None)


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    out = tmp_path_factory.mktemp("straight") / "run"
    quietly(plan(), data, out)
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def strict(out: Path) -> list[dict[str, float | None]]:
    """The log, as a reader that knows nothing but JSON takes it."""

    def no_json(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=no_json) for line in (out / "log.jsonl").read_text().splitlines()]


def require_finite(out: Path) -> list[str]:
    """The names of the checkpoints, each of which is whole and holds nothing but finite numbers."""
    kept = checkpoints(out / "checkpoints")
    for path in kept:
        for named in read_checkpoint(path)[0].values():
            assert all(bool(tensor.isfinite().all()) for tensor in named.values())
    return [path.name for path in kept]


def spoil_loss(trainer: Trainer, loss: torch.Tensor) -> torch.Tensor:
    return loss * torch.nan


def spoil_gradient(trainer: Trainer, loss: torch.Tensor) -> torch.Tensor:
    trainer.network.embed.weight.grad[0, 0] = -torch.inf
    return loss


def spoil_weight(trainer: Trainer, loss: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        trainer.network.embed.weight[0, 0] = torch.inf
    return loss


FAULTS = {
    "loss": (spoil_loss, BAD_STEP, f"the loss of step {BAD_STEP} is nan, at a learning rate of "),
    "gradient": (spoil_gradient, BAD_STEP, f"the norm of the gradient of step {BAD_STEP} is inf, at a learning rate of "),
    "weight": (spoil_weight, 20, "the weights after step 20 are not finite, at a learning rate of "),  # as it would be written
}


def break_at(monkeypatch: pytest.MonkeyPatch, step: int, fault) -> None:
    gradient = Trainer._gradient

    def broken(self: Trainer) -> torch.Tensor:
        loss = gradient(self)
        return fault(self, loss) if self.step + 1 == step else loss

    monkeypatch.setattr(Trainer, "_gradient", broken)


@pytest.mark.parametrize("grad_clip", [1.0, None])
@pytest.mark.parametrize("what", FAULTS)
def test_the_first_loss_gradient_or_weight_that_is_not_finite_ends_the_run_and_it_goes_on_from_before(
    what, grad_clip, data, straight, tmp_path, monkeypatch
):
    fault, step, words = FAULTS[what]
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        break_at(patch, step, fault)
        with refused(re.escape(words)) as caught:
            quietly(plan(grad_clip=grad_clip), data, out)
    said = str(caught.value)
    assert "the checkpoint of step 15 is good, go on from it with a lower rate: " in said
    assert f"glauber train --out {out} --resume --set train.lr=0.0003" in said
    assert require_finite(out) == ["step-00000010", "step-00000015"]
    assert [record["step"] for record in strict(out)] == ([10, 20] if what == "weight" else [10])
    assert not (out / "model").exists()
    if grad_clip is not None:  # with the rate that it had, since nothing was wrong with that
        assert quietly(plan(), data, out, resume=True).step == 40
        assert contents(out / "model")["model.safetensors"] == contents(straight / "model")["model.safetensors"]


def test_a_rate_far_too_high_ends_in_one_sentence_and_a_lower_one_goes_on(data, straight, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    quietly(plan(steps=10), data, out)
    before = contents(out / "checkpoints")
    words = ["glauber", "train", "--recipe=tiny", f"--data={data}", f"--out={out}", "--resume"]
    changed = SETTINGS | {"train.checkpoint_every": 1000, "train.lr": 1e8}
    monkeypatch.setattr(sys, "argv", [*words, *(f"--set={name}={value}" for name, value in changed.items())])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("glauber: ")]
    assert re.search(r"of step 1\d is (nan|inf), at a learning rate of [\d.]+e\+07; the checkpoint of step 10 is good", said), (
        said
    )
    assert said.endswith(" --resume --set train.lr=0.001")
    assert contents(out / "checkpoints") == before
    assert [record["step"] for record in strict(out)] == [10]
    assert quietly(plan(), data, out, resume=True).step == 40
    assert contents(out / "model")["model.safetensors"] == contents(straight / "model")["model.safetensors"]


def test_a_run_that_is_lost_before_its_first_checkpoint_begins_again(data, straight, tmp_path):
    with refused(
        "no checkpoint was written yet, begin again with a lower rate: glauber train --out .* --resume --set train.lr"
    ):
        quietly(plan(lr=1e8), data, tmp_path / "run")
    assert not checkpoints(tmp_path / "run" / "checkpoints")
    assert quietly(plan(), data, tmp_path / "run", resume=True).step == 40
    assert contents(tmp_path / "run" / "model")["model.safetensors"] == contents(straight / "model")["model.safetensors"]


def test_a_finished_model_stays_when_the_run_is_lost_later(data, straight, tmp_path):
    out = shutil.copytree(straight, tmp_path / "run")
    before = contents(out / "model"), contents(out / "checkpoints")
    with refused("the checkpoint of step 40 is good"):
        quietly(plan(steps=80, decay=80, lr=1e8), data, out, resume=True)
    assert (contents(out / "model"), contents(out / "checkpoints")) == before


def test_what_comes_after_a_loss_that_is_not_finite_is_not_mistaken_for_the_first():
    trainer = small_trainer(1e9)
    for _ in range(30):
        trainer.advance()
    found = trainer.trouble()
    assert found is not None
    step, words = found
    assert 1 < step < 10
    assert f"of step {step} is " in words
    again = small_trainer(1e9)
    for _ in range(step - 1):
        again.advance()
        assert again.trouble() is None
    again.advance()
    assert again.trouble() == found


def small_trainer(rate: float) -> Trainer:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab=3, length=4, width=8, layers=1, heads=1))
    process = Process(Schedule.round_robin(4, 8, keep="linear"), NoiseLaw.uniform(3))
    rows = torch.arange(40).view(10, 4) % 3
    return Trainer(network, process, InMemory(rows), TrainSpec(steps=100, batch=4, lr=rate, warmup=0))


def test_training_in_memory_ends_at_the_first_loss_that_is_not_finite():
    trainer = small_trainer(1e9)
    with refused(r"of step \d is (nan|inf), at a learning rate of [\d.]+e\+08; train anew with a lower rate than 1e\+09"):
        train(trainer.network, trainer.process, torch.arange(40).view(10, 4) % 3, trainer.spec)


@pytest.mark.parametrize("name", ["lr", "min_lr", "eps", "weight_decay", "grad_clip", "seconds"])
def test_a_setting_that_is_no_number_is_refused(name):
    with refused(f"train.{name} "):
        TrainSpec(steps=1, batch=1, **{name: float("nan")})


def test_a_bound_that_is_not_finite_is_null_in_the_log_and_no_point_on_the_board(data, tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {20: float("nan"), 40: float("inf")}
    monkeypatch.setattr(train_run, "validate", lambda trainer, *_: {"valid_bits_per_token": found.get(trainer.step, 2.5)})
    out = tmp_path / "run"
    quietly(plan(evaluate_every=10, tensorboard=True), data, out)
    bounds = {record["step"]: record["valid_bits_per_token"] for record in strict(out)}
    assert bounds == {10: 2.5, 20: None, 30: 2.5, 40: None}
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("valid_bits_per_token")] == [10, 30]
    assert [event.step for event in events.Scalars("loss")] == [10, 20, 30, 40]
    assert "at step 30" in run_words(run_facts(str(out)))["validation"]


def test_a_log_with_nan_in_it_is_json_after_the_next_start(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": NaN}\n{"step": 2, "loss": -Infinity}\n{"step": 3, "loss": 1.0}\n')
    cut_log(tmp_path / "log.jsonl", 2)
    assert strict(tmp_path) == [{"step": 1, "loss": None}, {"step": 2, "loss": None}]


@pytest.mark.parametrize("keep", [1, 2])
def test_no_good_checkpoint_goes_for_a_damaged_newer_one(keep, tmp_path):
    for step in (10, 15):
        write_checkpoint(tmp_path, {"weights": {"a": torch.full((4,), float(step))}}, NUMBERS | {"step": step}, keep=2)
    (tmp_path / "step-00000015" / "weights.safetensors").write_bytes(b"torn")
    write_checkpoint(tmp_path, {"weights": {"a": torch.full((4,), 12.0)}}, NUMBERS | {"step": 12}, keep=keep)
    found = read_newest(tmp_path)
    assert found is not None
    assert found[1]["step"] == 12
    assert found[0]["weights"]["a"].tolist() == [12.0] * 4
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000010", "step-00000012"][2 - keep :]
