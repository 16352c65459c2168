"""Several processes, started by torchrun, train as one does: same losses, same checkpoints, one voice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import glauber
from glauber.data import prepare
from glauber.runs import is_run
from glauber.train import loop as train_loop
from glauber.train import recipe
from glauber.train.checkpoint import checkpoints, read_newest
from glauber.train.data import shards_data
from glauber.train.overrides import apply_settings, parse_settings
from glauber.train.parallel import World
from glauber.train.run import run

SETTINGS = {
    "train.steps": 40,
    "train.decay": 40,
    "train.warmup": 5,
    "train.checkpoint_every": 5,
    "train.batch": 4,
    "train.evaluate_every": 10,
    "network.width": 16,
}
CLOSE = {"rtol": 0.0, "atol": 1e-5}
PROGRAM = """
import os, sys
from pathlib import Path

import glauber.train.loop
from glauber.cli import main

glauber.train.loop.LOG_EVERY = 1
if os.environ["RANK"] == os.environ.get("SPOILED"):  # its own loss at step 12, and not the gradient that all share
    from glauber.train.trainer import Trainer

    gradient = Trainer._gradient
    Trainer._gradient = lambda self: gradient(self) * (float("nan") if self.step == 11 else 1.0)
Path(__file__).with_name("pid" + os.environ["RANK"]).write_text(str(os.getpid()))
main()
"""


@pytest.fixture(autouse=True)
def every_step_is_logged(monkeypatch):
    monkeypatch.setattr(train_loop, "LOG_EVERY", 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 16, valid=0.03, progress=False)
    return folder / "shards"


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process."""
    out = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_loop, "LOG_EVERY", 1)
        alone(data, out)
    return out


def alone(data: Path, out: Path, **changes: object) -> list[str]:
    """Begin or go on with one process, this one; what it said."""
    said: list[str] = []
    run(apply_settings(recipe("tiny"), settings(changes)), shards_data(data), out, resume=is_run(out), say=said.append)
    return said


def settings(changes: dict[str, object]) -> dict[str, object]:
    """Of [train] by their short names, others by their own."""
    return SETTINGS | {name if name == "method" or "." in name else f"train.{name}": value for name, value in changes.items()}


def start(data: Path, out: Path, spoiled: str = "", **changes: object) -> subprocess.Popen[str]:
    """Begin or go on with two processes; the loss of the one of rank `spoiled` is NaN at step 12."""
    program = out.parent / "program.py"
    program.write_text(PROGRAM)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program), "train", f"--out={out}"]
    if is_run(out):
        words += ["--resume", *(f"--set=train.{name}={json.dumps(value)}" for name, value in changes.items())]
    else:
        words += ["--recipe=tiny", f"--data={data}"]
        words += [f"--set={name}={json.dumps(value)}" for name, value in settings(changes).items()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SPOILED": spoiled}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *words], stdout=pipe, stderr=pipe, text=True, env=environment)


def two(data: Path, out: Path, **changes: object) -> str:
    said, errors = (process := start(data, out, **changes)).communicate(timeout=100)
    assert process.returncode == 0, errors
    return said


def log(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def require_alike(out: Path, other: Path) -> None:
    """Every loss, the bounds, the last weights and their average agree."""
    ours, theirs = log(out), log(other)
    assert [record["step"] for record in ours] == [record["step"] for record in theirs] == list(range(1, 41))
    for name in ("loss", "valid_bits_per_token", "valid_bits_per_token_causal"):
        one, two = (torch.tensor([record[name] for record in records if name in record]) for records in (ours, theirs))
        torch.testing.assert_close(one, two, **CLOSE)
    ours, theirs = (read_newest(folder / "checkpoints")[0] for folder in (out, other))
    for part in ("weights", "average", "optimizer"):
        assert ours[part].keys() == theirs[part].keys()
        for name in ours[part]:
            torch.testing.assert_close(ours[part][name], theirs[part][name], **CLOSE)
    one, two = (glauber.load(folder / "model").network.state_dict() for folder in (out, other))
    for name in one:
        torch.testing.assert_close(one[name], two[name], **CLOSE)


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def pair(request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of two processes, and what it said."""
    out = tmp_path_factory.mktemp(request.param) / "run"
    return out, two(data, out, parallel=request.param)


def test_two_processes_follow_the_losses_of_one(pair, straight):
    require_alike(pair[0], straight)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_that_cut_their_rows_into_parts_follow_one_that_does_not(kind, straight, data, tmp_path):
    two(data, tmp_path / "run", parallel=kind, grad_accum=2)
    require_alike(tmp_path / "run", straight)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ddp", {"batch": 8, "network.causal": True, "causal_every": 2, "marked_fraction": 0.3, "grad_accum": 2}),
        ("fsdp", {"batch": 8, "network.causal": True, "causal_every": 4}),
        ("ddp", {"method": "ar"}),
        ("fsdp", {"method": "ar"}),
        ("ddp", {"optimizer": "muon"}),
        ("fsdp", {"optimizer": "muon", "grad_accum": 2}),
    ],
    ids=["ddp-both-in-parts", "fsdp-both", "ddp-ar", "fsdp-ar", "ddp-muon", "fsdp-muon"],
)
def test_two_processes_that_read_follow_one(kind, changes, data, tmp_path):
    alone(data, tmp_path / "one" / "run", **changes | {"grad_accum": 1})
    (tmp_path / "two").mkdir()
    two(data, tmp_path / "two" / "run", parallel=kind, **changes)
    require_alike(tmp_path / "two" / "run", tmp_path / "one" / "run")


def test_two_processes_draw_the_samples_of_one(pair, straight):
    """Weights differ by less than 1e-5 in a thousand draws, so one of them changes its token with a chance below 1 %."""
    ours, theirs = ({path.name: path.read_text() for path in (out / "samples").iterdir()} for out in (pair[0], straight))
    assert sorted(ours) == [f"step-{step:08d}.txt" for step in (10, 20, 30, 40)]
    assert ours == theirs
    assert len(set(ours.values())) == 4


def test_a_run_of_two_processes_that_was_stopped_has_the_model_of_its_newest_checkpoint(pair, tmp_path):
    ended = glauber.load(pair[0])
    shutil.copytree(pair[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    stopped = glauber.load(tmp_path / "run")
    ended.about.pop("metrics")
    assert (stopped.about.pop("checkpoint"), stopped.config()) == ("step-00000040", ended.config())
    one, two = ended.state_dict(), stopped.state_dict()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_only_the_first_process_speaks(pair):
    assert pair[1].count("2 processes by") == pair[1].count("done: 40 steps") == 1


def test_a_checkpoint_holds_no_file_that_could_run_code(pair):
    files = [path for path in (pair[0] / "checkpoints").rglob("*") if path.is_file()]
    assert len(files) > 6
    assert {path.name for path in files if path.suffix != ".safetensors"} == {"state.json", "frame.json"}
    assert [path.name for path in checkpoints(pair[0] / "checkpoints")] == ["step-00000035", "step-00000040"]


def test_a_damaged_file_of_a_checkpoint_is_named_and_the_one_before_it_used(pair, tmp_path):
    shutil.copytree(pair[0] / "checkpoints", tmp_path / "checkpoints")
    newest = checkpoints(tmp_path / "checkpoints")[-1]
    damaged = sorted(newest.rglob("*.safetensors"))[-1]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    found = read_newest(tmp_path / "checkpoints")
    assert found is not None
    assert found[1]["step"] == 35
    assert newest.name in found[2][0]
    assert damaged.name in found[2][0]


def test_a_checkpoint_of_two_processes_resumes_on_one_and_of_one_on_two(straight, data, tmp_path):
    """fsdp → one → ddp → fsdp."""
    out = tmp_path / "run"
    two(data, out, steps=10, parallel="fsdp")
    assert "going on from step 10" in alone(data, out, steps=20)
    assert "going on from step 20" in two(data, out, steps=30, parallel="ddp")
    assert "going on from step 30" in two(data, out, steps=40, parallel="fsdp")
    require_alike(out, straight)


def test_a_checkpoint_of_one_process_resumes_in_pieces_and_pieces_on_one(straight, data, tmp_path):
    """One → fsdp → ddp → one."""
    out = tmp_path / "run"
    alone(data, out, steps=10)
    assert "going on from step 10" in two(data, out, steps=20, parallel="fsdp")
    assert "going on from step 20" in two(data, out, steps=30, parallel="ddp")
    assert "going on from step 30" in alone(data, out, steps=40)
    require_alike(out, straight)


def test_a_checkpoint_with_the_momentum_of_muon_resumes_in_pieces_and_pieces_on_one(data, tmp_path):
    """One → fsdp → one."""
    alone(data, tmp_path / "one" / "run", optimizer="muon")
    (tmp_path / "two").mkdir()
    out = tmp_path / "two" / "run"
    alone(data, out, steps=10, optimizer="muon")
    assert "going on from step 10" in two(data, out, steps=20, parallel="fsdp", optimizer="muon")
    assert "going on from step 20" in alone(data, out, steps=40, optimizer="muon")
    require_alike(out, tmp_path / "one" / "run")


@pytest.mark.parametrize(("whom", "kind"), [("torchrun", "fsdp"), ("the second process", "ddp")])
def test_a_signal_to_anyone_stops_all_at_the_same_step_and_nothing_is_lost(whom, kind, straight, data, tmp_path):
    out = tmp_path / "run"
    process = start(data, out, steps=10**6, parallel=kind)
    while process.poll() is None and not checkpoints(out / "checkpoints"):
        time.sleep(0.01)
    os.kill(process.pid if whom == "torchrun" else int((tmp_path / "pid1").read_text()), signal.SIGTERM)
    said, errors = process.communicate(timeout=100)
    assert whom == "torchrun" or process.returncode == 0, errors
    step = int(checkpoints(out / "checkpoints")[-1].name[5:])
    assert f"stopped at step {step}; nothing is lost" in said
    assert log(out)[-1]["step"] == step
    assert f"going on from step {step}" in alone(data, out, steps=step + 2)
    losses, expected = (torch.tensor([record["loss"] for record in log(path)]) for path in (out, straight))
    torch.testing.assert_close(losses[:40], expected[: len(losses)], **CLOSE)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_loss_that_is_not_finite_in_one_process_stops_all_and_the_newest_checkpoint_is_good(kind, straight, data, tmp_path):
    out = tmp_path / "run"
    errors = (process := start(data, out, spoiled="1", parallel=kind)).communicate(timeout=100)[1]
    assert process.returncode != 0
    assert errors.count("glauber: the loss of step 12 is nan") == errors.count("glauber: ") == 1
    assert "the checkpoint of step 10 is good, go on from it with a lower rate" in errors
    assert [path.name for path in checkpoints(out / "checkpoints")] == ["step-00000005", "step-00000010"]
    assert log(out)[-1]["step"] == 11
    assert "going on from step 10" in alone(data, out)
    require_alike(out, straight)


def test_a_batch_that_the_processes_cannot_share_is_refused_once(data, tmp_path):
    process = start(data, tmp_path / "run", batch=5)
    errors = process.communicate(timeout=100)[1]
    assert process.returncode != 0
    assert errors.count("glauber: train.batch is 5, which 2 processes cannot share equally") == 1
    assert "exitcode  : 2 " in errors  # ours, as torchrun tells it; its own is always 1
    assert not (tmp_path / "run").exists()


def test_the_rows_of_a_batch_are_shared_out():
    assert [World(rank, 3).rows(6) for rank in range(3)] == [slice(0, 2), slice(2, 4), slice(4, 6)]
    with pytest.raises(ValueError, match="set it to a multiple"):
        World(0, 3).rows(7)
    with pytest.raises(ValueError, match=r"2 rows of each process; set train\.batch to a multiple of 12"):
        World(0, 3).rows(6, 4)


def test_an_unknown_kind_of_parallelism_is_refused():
    with pytest.raises(ValueError, match=r"train\.parallel is ddp or fsdp, not 'tp'"):
        apply_settings(recipe("tiny"), parse_settings(["train.parallel=tp"]))
