"""Hostile input: a command ends within ten seconds, in one sentence and exit code 2, and holds less than 1 GB meanwhile."""

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
import torch
import typer
from PIL import Image
from refusals import refused
from safetensors.torch import load_file, save_file

import glauber.cli.run
from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.cli.run import app
from glauber.codec import ByteCodec, CharCodec, PixelCodec, TokenizerCodec
from glauber.data import prepare
from glauber.method import find_method

SECONDS, MEGABYTES = 10, 950
"""Of the 1000, some 45 are the pages of libraries that a process which was forked has not yet touched."""
CONFIG, WEIGHTS = "config.json", "model.safetensors"
DEEP = "[" * 10**5 + "]" * 10**5


def screen(text: str) -> list[str]:
    """The lines that stand on a terminal after this was written to it; a return goes back to the beginning of the line."""
    lines = []
    for line in text.split("\n"):
        cells: list[str] = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        lines.append("".join(cells).rstrip())
    return [line for line in lines if line]


def hostile(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """The one sentence of a command that must end as this file's first line says."""
    done = commands.glauber(*words, cwd=cwd, env=env, seconds=SECONDS)
    assert done.returncode == 2, (done.returncode, done.seconds, done.peak, done.stderr[-1000:])
    assert done.peak < MEGABYTES, f"{done.peak:.0f} MB"
    said = screen(done.stderr)
    assert len(said) == 1, said
    assert said[0].startswith("glauber: "), said
    assert len(said[0]) < 1000, said
    assert not re.search(r"[.!?]\s+[A-Z(]", said[0]), f"more than one sentence: {said}"
    return said[0]


def small(codec: Any = None, vocab: int = 4, length: int = 16, **shape: Any) -> Model:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab, length, width=8, layers=1, heads=2, **shape))
    return Model(network, Process(Schedule.round_robin(length, 2 * length, keep="linear"), NoiseLaw.uniform(vocab)), codec)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of nothing but tokens."""
    return small().save(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of bytes."""
    return small(ByteCodec(), 257, 8).save(tmp_path_factory.mktemp("texts"))


def edit(folder: Path, part: str, **changes: Any) -> None:
    """Change the config of a model."""
    path = folder / CONFIG
    config = json.loads(path.read_text())
    config[part] |= changes
    path.write_text(json.dumps(config))


def pipe(path: Path) -> None:
    """In the place of what is there."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def sparse(path: Path, size: int, head: bytes = b"") -> None:
    """A file of so many bytes, nearly all of them zeros that take no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


FOLDERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a million layers": (lambda f: edit(f, "network", layers=10**6), "says 1,000,000 layers, the weights have 1"),
    "a billion layers": (lambda f: edit(f, "network", layers=10**9), "says 1,000,000,000 layers"),
    "too wide for its weights": (lambda f: edit(f, "network", width=6144), "(5, 8) in the weights, (5, 6144) by the config"),
    "a width beyond all": (lambda f: edit(f, "network", width=2**40), "width is a whole number of at most 1,048,576"),
    "a vocabulary beyond 64 bits": (lambda f: edit(f, "network", vocab=2**70), "vocab is a whole number of at most"),
    "a length beyond all": (lambda f: edit(f, "network", length=2**40), "length is a whole number of at most 1,048,576"),
    "a width that is text": (lambda f: edit(f, "network", width="8" * 10**6), "width is a whole number"),
    "a width that is a list": (lambda f: edit(f, "network", width=[8] * 10**5), "width is a whole number"),
    "layers that are true": (lambda f: edit(f, "network", layers=True), "layers is a whole number"),
    "a grid of text": (lambda f: edit(f, "network", grid=["4", "4"]), "grid"),
    "a million sweeps": (lambda f: edit(f, "schedule", keep=[0.5] * 10**6, steps=16 * 10**6), "at most 4,194,304 sites"),
    "a million values of keep": (lambda f: edit(f, "schedule", keep=[0.5] * 10**6), "keep has 1000000 values"),
    "steps beyond 64 bits": (lambda f: edit(f, "schedule", steps=2**70, keep=0.5), "at most 4,194,304 sites"),
    "a schedule longer than the network": (lambda f: edit(f, "schedule", length=2**40, keep=0.5), "at most 4,194,304 sites"),
    "an option that is text": (lambda f: edit(f, "sampling", top_p="much"), "sampling options do not fit"),
    "a config nested deep": (lambda f: (f / CONFIG).write_text(DEEP), "nested more than 100 deep"),
    "something nested less deep": (
        lambda f: edit_text(f, '"about": {}', f'"about": {{"x": {"[" * 200}{"]" * 200}}}'),
        "nested",
    ),
    "an order that is a table": (lambda f: edit(f, "schedule", order={"0": 1}), "an order is a name"),
    "something nested deep": (lambda f: edit_text(f, '"about": {}', f'"about": {{"x": {DEEP}}}'), "nested"),
    "a config of many values": (lambda f: (f / CONFIG).write_text("[" + "[]," * 5 * 10**6 + "1]"), "4,194,304 values"),
    "a config of gigabytes": (lambda f: sparse(f / CONFIG, 2**32), "has more than 64 MiB"),
    "a pipe for its weights": (lambda f: pipe(f / WEIGHTS), "is a pipe or a device; name a file"),
    "a pipe for its config": (lambda f: pipe(f / CONFIG), "no config.json"),
    "a device for its weights": (lambda f: endless(f / WEIGHTS), "is a pipe or a device; name a file"),
    "weights of nothing but zeros": (lambda f: sparse(f / WEIGHTS, 2**32), "not a safetensors file"),
    "weights with a header without end": (lambda f: sparse(f / WEIGHTS, 2**32, b"\xff" * 8), "not a safetensors file"),
    "weights with a negative shape": (lambda f: header(f, shape=[-5, 64]), "not a safetensors file"),
    "weights that claim more than there is": (lambda f: header(f, shape=[2**62, 64]), "not a safetensors file"),
    "a scale that would blow a weight up": (lambda f: blown_up(f), "does not hold a scale for each row"),
}


def edit_text(folder: Path, old: str, new: str) -> None:
    path = folder / CONFIG
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def header(folder: Path, shape: list[int]) -> None:
    """Weights of one tensor that is not what it says."""
    said = json.dumps({"noise": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    (folder / WEIGHTS).write_bytes(len(said).to_bytes(8, "little") + said + b"0000")


def blown_up(folder: Path) -> None:
    """A compact weight with a scale that is no column, but multiplies it by a million."""
    tensors = load_file(folder / WEIGHTS)
    tensors["network.head.weight"] = torch.zeros(4, 8, dtype=torch.int8)
    tensors["network.head.weight.scale"] = torch.ones(2**20, 1, 1)
    save_file(tensors, folder / WEIGHTS)


@pytest.mark.parametrize("what", FOLDERS)
def test_a_model_folder_is_judged_before_anything_is_built(what, tokens, tmp_path):
    harm, about = FOLDERS[what]
    folder = shutil.copytree(tokens, tmp_path / "model")
    harm(folder)
    assert about in hostile("info", folder)
    with refused():
        glauber.load(folder)


@pytest.mark.parametrize("method", ["ggm", "plaid"])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"learned_positions": True},
        {"causal": True},
        {"conditioning": "time"},
        {"classes": 3},
        {"grid": (2, 3), "cond_dim": 5, "layers": 3},
    ],
    ids=lambda shape: " ".join(shape),
)
def test_the_layout_of_a_network_is_that_of_the_network(method, shape):
    if method == "plaid":  # which never reads
        shape = {name: value for name, value in shape.items() if name != "causal"}
    config = TransformerConfig(**{"vocab": 7, "length": 6, "width": 16, "layers": 2, "heads": 2} | shape)
    layout, network = find_method(method).layout(config), find_method(method).network(config)
    assert layout.shapes() == {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert layout.parameters == sum(parameter.numel() for parameter in network.parameters())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what a user could name: some of it is good, most of it is not."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "good.txt").write_text("it was the best of times\n" * 200)
    (folder / "bad.txt").write_bytes(b"abc\xff\xfe def" * 100)
    for name, line in JSONL.items():
        (folder / f"{name}.jsonl").write_text(line + "\n")
    (folder / "deep.json").write_text(DEEP)
    bpe = TokenizerCodec.train(["ab ab"], 280).to_dict()["tokenizer"]
    bpe["model"] |= {"continuing_subword_prefix": "x" * 100}
    (folder / "panics.json").write_text(json.dumps(bpe))
    (folder / "deep.toml").write_text(f"a = {DEEP}")
    for name, (kind, shape) in ARRAYS.items():
        (folder / f"{name}.npy").write_bytes(npy(kind, shape) + bytes(4096))
    sparse(folder / "terabytes.txt", 2**42)
    sparse(folder / "gigabytes.npy", 128 + 2**32, npy("<i8", f"({2**29},)"))
    np.save(folder / "tokens.npy", np.zeros((4, 16), np.int64))
    np.save(folder / "mask.npy", np.arange(16) < 3)
    (folder / "pictures").mkdir()
    for k in range(8):
        pixels = np.random.default_rng(k).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{k}.png")
    for name, side in (("huge", 12_000), ("large", 7_000)):
        (folder / name).mkdir()
        png(folder / name / "a.png", side)
    shutil.copytree(folder / "pictures", folder / "piped")
    for path in ("pipe.txt", "pipe.jsonl", "pipe.json", "pipe.npy", "pipe.png", "pipe.toml", "pipe.safetensors", "piped/a.png"):
        pipe(folder / path)
    for path in ("endless.txt", "endless.jsonl", "endless.json"):
        endless(folder / path)
    prepare([folder / "good.txt"], folder / "data", "bytes", 8, progress=False)
    small(PixelCodec((4, 4), 4), grid=(4, 4)).save(folder / "images")
    Image.new("L", (4, 4)).save(folder / "image.png")
    Image.fromarray((np.arange(16).reshape(4, 4) < 4).astype(np.uint8) * 255).save(folder / "hole.png")
    return folder


JSONL = {
    "deep": DEEP,
    "deep_field": f'{{"text": "a[[2]]", "x": {DEEP}}}',
    "half": '{"text": "a\\ud800[[2]]"}',
    "digits": f'{{"text": "a[[2]]", "n": {"9" * 10**6}}}',
}
ARRAYS = {
    "negative": ("<i8", "(-5, 64)"),
    "twice_negative": ("<i8", "(-5, -64)"),
    "large": ("<i8", f"({10**12}, 64)"),
    "overflow": ("<i8", f"({2**62}, {2**62})"),
    "objects": ("|O", "(4,)"),
    "short": ("<i8", "(1000, 64)"),
    "item": (f"|V{2**40}", "(1,)"),
    "nested": ("<i8", "(" * 3000),
    "spacious": ("<i8", " " * 9_700 + "\0"),  # numpy alone takes half a minute to refuse it
}


def npy(kind: str, shape: str) -> bytes:
    """The header of an .npy, which may say anything."""
    said = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    said += " " * (-(len(said) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said.encode()


def png(path: Path, side: int) -> None:
    """Grey all over, in colour: a small file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    packer, row = zlib.compressobj(), b"\0" + b"\x80" * (3 * side)
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    parts = chunk(b"IHDR", head), chunk(b"IDAT", pixels), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


TEXTS, TOKENS, TRAIN = (
    ("infill", "{texts}"),
    ("infill", "{tokens}"),
    ("train", "--recipe", "tiny", "--data", "data", "--out", "out"),
)
PREPARE = ("prepare", "--out", "out")
CODEC = ("codec", "train", "pictures", "--out", "out", "--size", 8)
BEYOND = 99999999999999999999
HALF = "a\udcff[[2]]"
COMMANDS: dict[str, tuple[tuple[object, ...], str]] = {
    # sizes
    "ten million layers": ((*TRAIN, "--set", "network.layers=10000000"), "parameters takes at least"),
    "a width of a million": ((*TRAIN, "--set", "network.width=1000000"), "GB of memory, and there are"),
    "a batch of billions": ((*TRAIN, "--set", "train.batch=1000000000"), "tokens at a time, takes at least"),
    "a condition of a billion": ((*TRAIN, "--set", "network.cond_dim=1000000000"), "cond_dim is a whole number of at most"),
    "heads beyond 64 bits": ((*TRAIN, "--set", f"network.heads={BEYOND}"), "network.heads is a whole number"),
    "a trillion sweeps": ((*TRAIN, "--set", "process.sweeps=1000000000000"), "at most 4,194,304 sites and steps"),
    "a setting nested deep": ((*TRAIN, "--set", f"process.keep={DEEP}"), "keep is a number"),
    "a codec of a wide network": ((*CODEC, "--width", 100_000_000), "training this codec takes at least"),
    "a codec of many codes": ((*CODEC, "--codes", 2_000_000_000), "training this codec takes at least"),
    "a codec of a large batch": ((*CODEC, "--batch", 1_000_000_000), "training this codec takes at least"),
    "a codec of large images": ((*CODEC, "--size", 1_000_000), "pixels a side"),
    "a codec of a large factor": ((*CODEC, "--factor", 2**30), "do not tile"),
    "rows of many tokens": ((*PREPARE, "good.txt", "--length", 99_999_999_999), "'--length': 99999999999 is beyond"),
    "rows of quite many tokens": (
        (*PREPARE, "good.txt", "--length", 2_000_000_000),
        "a row of 2,000,000,000 tokens is too long",
    ),
    "tokens of a large vocabulary": ((*PREPARE, "tokens.npy", "--vocab", 2_000_000_000), "at most 16,777,216"),
    "images of a large size": ((*PREPARE, "pictures", "--tokenizer", "pixels", "--size", 100_000), "at most 7,071 pixels"),
    "more patches than there are": ((*PREPARE, "pictures", "--tokenizer", f"patches:{BEYOND}:4"), "only 32 different patches"),
    "a BPE of trillions": ((*PREPARE, "good.txt", "--tokenizer", "bpe:99999999999999"), "a BPE has at most 1,048,576 tokens"),
    "a BPE beyond 64 bits": ((*PREPARE, "good.txt", "--tokenizer", f"bpe:{BEYOND}"), "a BPE has at most 1,048,576 tokens"),
    "two billion samples": (("sample", "{tokens}", "-n", 2_000_000_000), "ask for fewer at once"),
    "two billion fills": ((*TEXTS, "--text", "a[[2]]", "-n", 2_000_000_000), "ask for fewer at once"),
    "two billion variations": (("vary", "{texts}", "--text", "abc", "-n", 2_000_000_000), "ask for fewer at once"),
    "a gap of many tokens": ((*TEXTS, "--text", f"a[[{BEYOND}]]"), "longer than any text"),
    "a gap of many digits": ((*TEXTS, "--text", f"a[[{'9' * 5000}]]"), "longer than any text"),
    "a hundred million samples at each validation": ((*TRAIN, "--set", "train.samples=100000000"), "is 0 to 1,000"),
    "a score of terabytes": (("score", "{texts}", "--text", "terabytes.txt"), "take some of it with --rows"),
    # what would be missed later
    "no model to start from": ((*TRAIN, "--init", "nosuch"), "no model 'nosuch'"),
    "a model to start from that does not fit": ((*TRAIN, "--init", "{texts}"), "the saved model has another"),
    "a damaged model to start from": ((*TRAIN, "--init", "pictures"), "pictures is not a model"),
    "a sampling that cannot be": ((*TRAIN, "--set", "sampling.top_p=7"), "top-p must lie in (0, 1], not 7"),
    "a sampling that there is not": ((*TRAIN, "--set", "sampling.flavour=7"), "the sampling options do not fit"),
    # halves of characters
    "half a character to fill": ((*TEXTS, "--text", HALF), "half a character"),
    "half a character to fill, of a tokenizer": (("infill", "novels", "--text", HALF), "half a character"),
    "half a character to vary": (("vary", "novels", "--text", HALF), "half a character"),
    "half a character in a file": ((*TEXTS, "--texts", "half.jsonl"), "half a character"),
    "half a character to prepare": ((*PREPARE, "half.jsonl"), "half a character"),
    "text that is not UTF-8": ((*PREPARE, "bad.txt"), "not UTF-8 at byte 3"),
    "text that is not UTF-8 to score": (("score", "{texts}", "--text", "bad.txt"), "not UTF-8 at byte 3"),
    # JSON
    "JSON nested deep to prepare": ((*PREPARE, "deep.jsonl"), "is not JSON"),
    "a field nested deep to prepare": ((*PREPARE, "deep_field.jsonl"), "is not JSON"),
    "JSON nested deep to score": (("score", "{texts}", "--text", "deep.jsonl"), "is not JSON"),
    "JSON nested deep to fill": ((*TEXTS, "--texts", "deep_field.jsonl"), "is not JSON"),
    "JSON nested deep to judge": (("evaluate", "deep.jsonl", "--reference", "good.txt"), "is not JSON"),
    "samples nested deep": (("evaluate", "deep.json", "--reference", "good.txt"), 'has no "texts"'),
    "a tokenizer at which Rust panics": ((*PREPARE, "good.txt", "--tokenizer", "panics.json"), "not a tokenizer.json"),
    "a tokenizer nested deep": ((*PREPARE, "good.txt", "--tokenizer", "deep.json"), "not a tokenizer.json"),
    "a number of a million digits": ((*TEXTS, "--texts", "digits.jsonl"), "is not JSON"),
    "settings nested deep": ((*TRAIN, "--config", "deep.toml"), "cannot be read as TOML"),
    # arrays
    **{f"{name}.npy to prepare": ((*PREPARE, f"{name}.npy", "--vocab", 4), ".npy") for name in ARRAYS},
    **{f"{name}.npy to fill": ((*TOKENS, "--tokens", f"{name}.npy", "--mask", "mask.npy"), ".npy") for name in ARRAYS},
    "an array of gigabytes to fill": (
        (*TOKENS, "--tokens", "gigabytes.npy", "--mask", "mask.npy", "--json"),
        "of shape (536870912,)",
    ),
    "a mask of gigabytes": ((*TOKENS, "--tokens", "tokens.npy", "--mask", "gigabytes.npy", "--json"), "of shape (536870912,)"),
    # pictures
    "a picture of 144 million pixels": ((*PREPARE, "huge", "--tokenizer", "patches:4:8", "--size", 8), "more than 50 million"),
    "the same as it is": ((*PREPARE, "huge", "--tokenizer", "patches:4:8"), "more than 50 million pixels"),
    "the same for a codec": (("codec", "train", "huge", "--out", "out", "--size", 8), "more than 50 million pixels"),
    "the same to fill": (("infill", "images", "--image", "huge/a.png", "--mask", "hole.png"), "more than 50 million pixels"),
    "a picture of 49 million pixels": ((*PREPARE, "large", "--tokenizer", "patches:4:8", "--size", 8), "only 1 different"),
    # pipes and devices
    "a pipe of text": ((*PREPARE, "pipe.txt"), "there is no file"),
    "a pipe of lines": ((*PREPARE, "pipe.jsonl"), "there is no file"),
    "a pipe of tokens": ((*PREPARE, "pipe.npy", "--vocab", 4), "there is no file"),
    "a pipe for a tokenizer": ((*PREPARE, "good.txt", "--tokenizer", "pipe.json"), "not a tokenizer.json"),
    "a pipe for a picture": ((*PREPARE, "pipe.png", "--tokenizer", "pixels"), "there is no file"),
    "a pipe among pictures": ((*PREPARE, "piped", "--tokenizer", "pixels"), "is a pipe or a device"),
    "a pipe to score": (("score", "{texts}", "--text", "pipe.txt"), "there is no file"),
    "a pipe of texts to fill": ((*TEXTS, "--texts", "pipe.jsonl"), "is a pipe or a device"),
    "a pipe of tokens to fill": ((*TOKENS, "--tokens", "pipe.npy", "--mask", "mask.npy", "--json"), "is a pipe or a device"),
    "a pipe for a mask": ((*TOKENS, "--tokens", "tokens.npy", "--mask", "pipe.npy", "--json"), "is a pipe or a device"),
    "a pipe for an image": (("infill", "images", "--image", "pipe.png", "--mask", "hole.png"), "is a pipe or a device"),
    "a pipe to judge": (("evaluate", "pipe.txt", "--reference", "good.txt"), "there is no file"),
    "a pipe for features": (("evaluate", "pictures", "--reference", "pictures", "--features", "pipe.safetensors"), "pipe"),
    "a pipe of settings": ((*TRAIN, "--config", "pipe.toml"), "is a pipe or a device"),
    "a device of text": ((*PREPARE, "endless.txt"), "there is no file"),
    "a device of lines": ((*TEXTS, "--texts", "endless.jsonl"), "is a pipe or a device"),
    "a device for a tokenizer": ((*PREPARE, "good.txt", "--tokenizer", "endless.json"), "not a tokenizer.json"),
    # a hub that does not answer
    "a model of no hub": (("sample", "no/such"), "the hub did not give"),
    "data of no hub": ((*PREPARE, "hub:no/such"), "datasets"),
    "a tokenizer of no hub": ((*PREPARE, "good.txt", "--tokenizer", "hub:no/such"), "the hub did not give"),
    "a codec of no hub": ((*PREPARE, "pictures", "--tokenizer", "vq:no/such"), "the hub did not give"),
    # the folder one is in
    "prepare into the folder one is in": (("prepare", "good.txt", "--out", ".", "--force"), "the folder that you are in"),
    "prepare into the folder above": (("prepare", "good.txt", "--out", "..", "--force"), "or above it"),
    "train into the folder one is in": (("train", "--recipe", "tiny", "--data", "data", "--out", "."), "is not empty"),
}
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9", "PATH": "", "NO_COLOR": "1"}
"""A hub that nobody can reach."""


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_ends_soon_in_one_sentence_and_leaves_nothing(what, inputs, texts, tokens):
    words, about = COMMANDS[what]
    before = sorted(path.relative_to(inputs) for path in inputs.rglob("*"))
    named = [str(word).format(texts=texts, tokens=tokens) if "{t" in str(word) else word for word in words]
    assert about in hostile(*named, cwd=inputs, env=NOWHERE)
    assert sorted(path.relative_to(inputs) for path in inputs.rglob("*")) == before


def numbers() -> list[tuple[str, str]]:
    """Every option of every command that takes a whole number, by the types of the commands' arguments."""

    def below(group: typer.Typer, words: str) -> Iterator[tuple[str, str]]:
        for inner in group.registered_groups:
            yield from below(inner.typer_instance, f"{words} {inner.name or inner.typer_instance.info.name}".strip())
        for command in group.registered_commands:
            name = command.name or command.callback.__name__
            for argument in inspect.signature(command.callback).parameters.values():
                if re.search(r"\bint\b", str(argument.annotation.__origin__)):
                    options = argument.annotation.__metadata__[0].param_decls or (f"--{argument.name.replace('_', '-')}",)
                    yield f"{words} {name}".strip(), options[0]

    return list(below(app, ""))


@pytest.mark.parametrize(("command", "option"), numbers())
def test_a_whole_number_beyond_all_is_refused_by_its_name(command, option):
    said = hostile(*command.split(), "x", option, BEYOND)
    assert option in said
    assert (
        "beyond 2,147,483,647" in said or "from 0 to 2^63" in said or "less than or equal" in said or "not in the range" in said
    )


def test_every_number_was_found():
    assert len(numbers()) > 25
    assert {("sample", "--num"), ("prepare", "--length"), ("codec train", "--every"), ("score", "--draws")} <= set(numbers())


def started(*words: object, env: dict[str, str] | None = None, **options: Any) -> "subprocess.Popen[bytes]":
    """A command in a process of its own, from its first moment on."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("module", ["glauber.runtime.progress", "typer", "numpy", "torch._C", "torch.nn", "glauber.model"])
def test_ctrl_c_in_the_midst_of_an_import_is_exit_130_without_a_word(module):
    """Python tells each import when it is done, so that what comes next is interrupted."""
    with started("-X", "importtime", "-m", "glauber", "info", "novels", start_new_session=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.split(b"|")[-1].strip() == module.encode():
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read().splitlines()
    assert said[-1].split(b"|")[-1].strip() == module.encode(), "it was never imported"
    assert process.returncode == 130
    assert not [line for line in rest if not line.startswith(b"import time:")]


def test_ctrl_c_at_work_is_exit_130(texts, tmp_path):
    (tmp_path / "a.txt").write_text("it was the best of times\n" * 10**5)
    with started("-m", "glauber", "score", texts, "--text", tmp_path / "a.txt", "--draws", 10**6) as process:
        assert process.stderr is not None
        assert process.stderr.read(1)  # the bar, from the third second on
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    assert process.returncode == 130


def test_no_bar_is_left_before_an_error(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"it was the best of times\n" * 10**6 + b"\xff")
    code = "import glauber.runtime.progress as p; p.DELAY = 0.0; from glauber.cli import main; main()"
    process = started("-c", code, "prepare", tmp_path / "a.txt", "--out", tmp_path / "out", "--tokenizer", "bytes")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"prepare:" in said
    assert screen(said.decode()) == [
        f"glauber: {tmp_path / 'a.txt'} is not UTF-8 at byte 25000000; convert it, for example with iconv -t UTF-8"
    ]


def test_a_reader_that_leaves_is_no_error_and_a_full_device_is_one_sentence(tokens):
    with started("-m", "glauber", "sample", tokens, "-n", 3000) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert screen(said) == []
    assert process.returncode in (1, 141)  # of the library that reads the options, or of ours
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "glauber", "sample", str(tokens)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (2, "glauber: the disk is full; free some space and repeat the command\n")


def test_a_terminal_that_knows_no_accent_loses_no_text(tmp_path):
    folder = small(CharCodec("äö你"), 4, 8).save(tmp_path / "model")
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = started("-m", "glauber", "sample", folder, "-n", 1, "--seed", 0, env=env)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    assert out.decode("unicode_escape").strip("\n") == glauber.load(folder).sample(1, seed=0)[0]


def test_a_file_that_the_system_refuses_is_named_in_a_sentence(monkeypatch, capsys):
    def refuse(*words: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "/root/a")

    monkeypatch.setattr(glauber.cli.run, "app", refuse)
    monkeypatch.setattr(glauber.cli.run, "_limit_numbers", lambda commands: None)
    with pytest.raises(SystemExit) as left:
        glauber.cli.run.run()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = capsys.readouterr().err
    assert (left.value.code, said) == (
        2,
        "glauber: /root/a cannot be used (permission denied); check its name and who may use it\n",
    )


def test_a_file_name_cannot_disturb_the_terminal_or_fill_it():
    assert hostile("sample", "a\x1b[2J\nb").startswith("glauber: no model 'a\\x1b[2J\\nb'")
    assert "\x1b" not in hostile("prepare", "a\x1b[2J\nb.txt", "--out", "out")
    assert len(hostile("sample", "a" * 10**5)) < 1000
