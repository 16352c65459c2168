"""A full disk, damaged shards, data that does not fit: one sentence, exit code 2, and what was there before is still there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
from PIL import Image

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import ByteCodec
from glauber.data import open_shards, prepare
from glauber.data.shards import content_hash
from glauber.runs import checkpoints

PROGRESS = re.compile(r"(train|prepare|alphabet|codes):.*(\d+%|/s)")
SETTINGS = ("train.decay=20", "train.checkpoint_every=5", "train.batch=4", "network.width=8", "network.layers=1")


def glauber(*words: object, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*words, limit=limit)


def train(data: Path, out: Path, *words: object, steps: int = 20, limit: int | None = None):
    settings = [f"--set={setting}" for setting in (*SETTINGS, f"train.steps={steps}")]
    return glauber("train", "--recipe", "tiny", "--data", data, "--out", out, *settings, *words, limit=limit)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a command that was refused."""
    said = [line for line in done.stderr.splitlines() if line.strip() and not PROGRESS.match(line.strip())]
    assert done.returncode == 2, done.stderr
    assert len(said) == 1, done.stderr
    assert said[0].startswith("glauber: ")
    assert not re.search(r"[.!?]\s+[A-Z(]", said[0]), f"more than one sentence: {said[0]}"
    return said[0]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below, byte for byte."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images whose codec is larger than the network, so that a model takes more room than its checkpoints."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "images").mkdir()
    for k, image in enumerate(np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)):
        Image.fromarray(image).save(folder / "images" / f"{k}.png")
    prepare([folder / "images"], folder / "shards", "patches:64:16", shard_tokens=40, progress=False)
    return folder / "shards"


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    assert train(data, out).returncode == 0
    return out


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first half of the same run, with a model of its own."""
    out = tmp_path_factory.mktemp("runs") / "begun"
    assert train(data, out, steps=10).returncode == 0
    return out


def test_a_disk_that_is_full_while_preparing_leaves_the_old_data_and_the_work_goes_on(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat " * 20_000)
    words = ("prepare", tmp_path / "a.txt", "--out", tmp_path / "data", "--tokenizer", "bytes")
    prepare([tmp_path / "a.txt"], tmp_path / "data", "char", progress=False)
    before = contents(tmp_path / "data")
    done = glauber(*words, "--force", limit=200_000)
    assert f"the disk of {tmp_path / 'data.unfinished'} is full; free some space and repeat the command" in complaint(done)
    assert contents(tmp_path / "data") == before
    unfinished = contents(tmp_path / "data.unfinished")
    assert not [name for name in unfinished if name.endswith(".tmp")]
    assert glauber(*words, "--force").returncode == 0
    straight = prepare([tmp_path / "a.txt"], tmp_path / "straight", "bytes", progress=False)
    assert open_shards(tmp_path / "data").hash == straight.hash
    assert not (tmp_path / "data.unfinished").exists()


@pytest.mark.parametrize("moment", ["checkpoint", "model"])
def test_a_disk_that_is_full_while_training_leaves_what_was_there_and_the_run_goes_on(moment, begun, straight, data, tmp_path):
    out = shutil.copytree(begun, tmp_path / "run")
    before = {part: contents(out / part) for part in ("checkpoints", "model")}
    checkpoint = max(path.stat().st_size for path in (straight / "checkpoints").glob("step-*/*.safetensors"))
    model = (straight / "model" / "model.safetensors").stat().st_size
    assert checkpoint + 1000 < model
    done = train(data, out, "--resume", limit=checkpoint // 2 if moment == "checkpoint" else checkpoint + 1000)
    assert f"the disk of {out} is full; free some space and go on with --resume" in complaint(done)
    assert contents(out / "model") == before["model"]
    if moment == "checkpoint":
        assert contents(out / "checkpoints") == before["checkpoints"]
    assert train(data, out, "--resume").returncode == 0
    assert contents(out / "model") == contents(straight / "model") | {"config.json": (out / "model/config.json").read_bytes()}
    assert not [name for name in contents(out) if "tmp" in name or "unfinished" in name]


def test_a_disk_that_is_full_when_the_log_is_written_is_one_sentence_too(data, tmp_path):
    out = tmp_path / "run"
    rarely = ("train.checkpoint_every=100000", "train.evaluate_every=100000")
    words = [f"--set={setting}" for setting in rarely]
    assert train(data, out, *words, steps=1).returncode == 0
    shutil.rmtree(checkpoints(out / "checkpoints")[-1])
    limit = (out / "config.json").stat().st_size + 1000
    assert f"the disk of {out} is full" in complaint(train(data, out, "--resume", *words, steps=5000, limit=limit))
    assert train(data, out, "--resume", *words, steps=20).returncode == 0
    steps = [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert steps == [10, 20]


def test_a_run_that_had_no_room_to_begin_begins_when_there_is(data, straight, tmp_path):
    out = tmp_path / "run"
    assert complaint(train(data, out, limit=100)).endswith("is full; free some space and repeat the command")
    assert train(data, out).returncode == 0
    assert contents(out / "model")["model.safetensors"] == contents(straight / "model")["model.safetensors"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of bytes, untrained."""
    network = Transformer(TransformerConfig(257, 8, width=8, layers=1, heads=2))
    process = Process(Schedule.round_robin(8, 8, keep="linear"), NoiseLaw.uniform(257))
    return Model(network, process, ByteCodec()).save(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("what", ["sample", "tokens", "texts"])
def test_a_disk_that_is_full_leaves_the_old_results(what, model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(8, np.int64))
    np.save(tmp_path / "m.npy", np.arange(8) < 3)
    (tmp_path / "in.jsonl").write_text('{"text": "a[[2]]"}\n' * 3)
    (tmp_path / "out").mkdir()
    for name in ("samples.json", "y.npy", "out.jsonl"):
        (tmp_path / "out" / name).write_text("old")
    words = {
        "sample": ("sample", model, "--out", tmp_path / "out"),
        "tokens": (
            "infill",
            model,
            "--tokens",
            tmp_path / "x.npy",
            "--mask",
            tmp_path / "m.npy",
            "--out",
            tmp_path / "out/y.npy",
        ),
        "texts": ("infill", model, "--texts", tmp_path / "in.jsonl", "--out", tmp_path / "out/out.jsonl"),
    }[what]
    before = contents(tmp_path)
    assert (
        complaint(glauber(*words, "--force", limit=50)) == "glauber: the disk is full; free some space and repeat the command"
    )
    begun = {name for name in contents(tmp_path) if name.endswith(".part")}  # from which the texts go on
    assert {name: content for name, content in contents(tmp_path).items() if name not in begun} == before
    assert len(begun) == (what == "texts")


def _cut(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-2])


def _change(shard: Path) -> None:
    content = bytearray(shard.read_bytes())
    content[3] ^= 1
    shard.write_bytes(content)


DAMAGES = {
    "truncated": (_cut, "train-00001.bin has 78 bytes instead of 80"),
    "changed": (_change, "train-00001.bin are not what was prepared (its hash differs)"),
    "missing": (Path.unlink, "train-00001.bin is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_named_and_the_run_left_as_it_was(damage, begun, data, tmp_path):
    harm, about = DAMAGES[damage]
    broken = shutil.copytree(data, tmp_path / "data")
    harm(broken / "train-00001.bin")
    before = contents(begun), contents(broken)
    assert about in complaint(train(broken, begun, "--resume"))
    assert (contents(begun), contents(broken)) == before
    if damage == "changed":
        complaint(train(broken, tmp_path / "new"))
        assert not (tmp_path / "new").exists()


def test_a_run_is_not_resumed_on_data_of_another_tokenizer(begun, data, tmp_path):
    images = data.parent / "images"
    prepare([images], tmp_path / "other", "patches:64:16", grey=True, shard_tokens=40, progress=False)
    before = contents(begun)
    assert "was trained on other data; give that with --data, or name another folder with --out" in complaint(
        train(tmp_path / "other", begun, "--resume")
    )
    assert contents(begun) == before


def test_a_header_whose_vocabulary_is_not_its_codecs_is_refused(data, tmp_path):
    wrong = shutil.copytree(data, tmp_path / "data")
    header = json.loads((wrong / "header.json").read_text())
    header["vocab"] += 1
    header["hash"] = content_hash(header)
    (wrong / "header.json").write_text(json.dumps(header))
    before = contents(wrong)
    assert "header.json says V = 65, its codec 64; prepare the data again" in complaint(train(wrong, tmp_path / "run"))
    assert contents(wrong) == before
    assert not (tmp_path / "run").exists()


def test_unfinished_data_does_not_go_on_with_another_tokenizer(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat " * 20_000)
    words = ("prepare", tmp_path / "a.txt", "--out", tmp_path / "data", "--tokenizer")
    complaint(glauber(*words, "bytes", limit=200_000))
    before = contents(tmp_path)
    assert "unfinished work with another choice of tokenizer" in complaint(glauber(*words, "char"))
    assert contents(tmp_path) == before


def test_rows_longer_than_all_documents_are_refused_and_leave_nothing(tmp_path):
    (tmp_path / "texts").mkdir()
    for k in range(5):
        (tmp_path / "texts" / f"{k}.txt").write_text("a few words")
    before = contents(tmp_path)
    done = glauber("prepare", tmp_path / "texts", "--out", tmp_path / "data", "--length", 256, "--valid", 0)
    assert "a row of 256 is longer than all 60 training tokens; choose a smaller L" in complaint(done)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


def test_where_there_is_no_gpu_the_tests_that_need_one_fail_in_one_sentence():
    where, env = Path(__file__).parents[2], os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    words = ["make", "-s", "--no-print-directory", "test-gpu", f"GPU_PYTHON={sys.executable}"]
    done = subprocess.run(words, cwd=where, env=env, capture_output=True, text=True)
    assert done.returncode != 0
    (sentence,) = done.stdout.splitlines()
    assert sentence.startswith("no GPU")
    assert "GPU_PYTHON=" in sentence
