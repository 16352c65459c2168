"""The command line, run as a user runs it: in a process of its own."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from PIL import Image

import glauber
from glauber import Model, NoiseLaw, PixelCodec, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import TokenizerCodec
from glauber.data import Shards, open_shards, prepare
from glauber.storage import BUNDLED
from glauber.train import RECIPES

STORY = "it was the best of times, it was the worst of times\n" * 8


def run(*arguments: object, columns: int = 100, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*arguments, cwd=cwd, env={"COLUMNS": str(columns), "PATH": "", "NO_COLOR": "1"})


def model(codec: bool) -> Model:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab=4, length=16, width=16, layers=1, heads=2, grid=(4, 4)))
    process = Process(Schedule.round_robin(16, 32, keep="linear"), NoiseLaw.uniform(4))
    return Model(network, process, PixelCodec((4, 4), 4) if codec else None, about={"data": "none"})


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(codec=True).save(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(codec=False).save(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    codec = TokenizerCodec.train([STORY], 280)
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(codec.vocab, 16, width=16, layers=1, heads=2))
    torch.nn.init.normal_(network.head.weight)
    process = Process(Schedule.round_robin(16, 32, keep="linear"), NoiseLaw.uniform(codec.vocab))
    return Model(network, process, codec).save(tmp_path_factory.mktemp("texts"))


def assert_refused(result: subprocess.CompletedProcess[str], about: str) -> None:
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert about in result.stderr
    assert result.stderr.startswith("glauber: ")
    assert result.stderr.count("\n") == 1, "one sentence on one line"


COMMANDS = ["", "demo", "prepare", "train", "sample", "infill", "vary", "score", "evaluate", "info", "codec", "codec train"]
COMMANDS += ["bench", "bench train", "bench sample", "bench prepare", "bench table1"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [50, 80])
def test_every_command_explains_itself_in_a_narrow_terminal(command, columns):
    result = run(*command.split(), "--help", columns=columns)
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= columns
    if command in ("", "bench", "codec"):
        assert "..." not in result.stdout.split("Commands:")[1], "what a command does is not cut short"


def test_every_command_is_explained_here():
    for group in ("", "bench", "codec"):
        listed = re.findall(r"^  (\w+)  ", run(*group.split(), "--help").stdout.split("Commands:")[1], re.MULTILINE)
        assert sorted(listed) == sorted(name.split()[-1] for name in COMMANDS if name and name.rpartition(" ")[0] == group)


@pytest.mark.parametrize(("command", "option"), [("train", "--recipe"), ("info", "--recipe")])
def test_help_names_every_recipe(command, option):
    told = " ".join(run(command, "--help", columns=80).stdout.split()).replace("- ", "-")  # a name may be folded
    assert set(RECIPES) <= set(
        re.findall(r"[\w-]+", told.split(option)[1].split("--out" if command == "train" else "--json")[0])
    )


@pytest.mark.parametrize("command", ["sample", "infill", "vary", "score", "info", "train"])
def test_help_names_the_models_in_the_box_and_what_else_may_be_given(command):
    told = " ".join(run(command, "--help", columns=80).stdout.split())
    for name in (path.parent.name for path in BUNDLED.glob("*/config.json")):
        assert name in told
    assert "which are in the box; the folder of a run or a model; or a hub id owner/name" in told


def test_samples_are_the_same_for_the_same_seed_and_are_those_of_python(tokens):
    one, two = (run("sample", tokens, "-n", 3, "--seed", 5, "--json") for _ in range(2))
    assert json.loads(one.stdout)["tokens"] == json.loads(two.stdout)["tokens"]
    assert json.loads(one.stdout)["tokens"] == glauber.load(tokens).sample(3, seed=5)
    printed = run("sample", tokens, "-n", 3, "--seed", 5).stdout.splitlines()
    assert [[int(token) for token in line.split()] for line in printed] == json.loads(one.stdout)["tokens"]


def test_an_image_model_writes_one_file_per_sample(images, tmp_path):
    out = tmp_path / "new" / "folder"
    result = run("sample", images, "-n", 3, "--seed", 1, "--out", out, "--sweeps", 3, "--block", 4, "--order", "strided")
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in out.iterdir()) == ["0000.png", "0001.png", "0002.png", "sheet.png"]
    expected = glauber.load(images).sample(3, seed=1, sweeps=3, block=4, order="strided")
    for k, image in enumerate(expected):
        assert np.array_equal(np.asarray(Image.open(out / f"000{k}.png")), np.asarray(image))


def test_infill_leaves_the_given_pixels_alone(images, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (4, 4), dtype=np.uint8)
    hole = np.zeros((4, 4), dtype=np.uint8)
    hole[:2] = 255
    Image.fromarray(picture).save(tmp_path / "x.png")
    Image.fromarray(hole).save(tmp_path / "m.png")
    out = tmp_path / "filled"
    result = run("infill", images, "--image", tmp_path / "x.png", "--mask", tmp_path / "m.png", "-n", 2, "--out", out)
    assert result.returncode == 0, result.stderr
    for k in range(2):
        assert np.array_equal(np.asarray(Image.open(out / f"000{k}.png"))[2:], picture[2:])


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["--top-p", "0"], "top-p must lie in (0, 1]"),
        (["--top-p", "1.5"], "top-p must lie in (0, 1]"),
        (["--temperature", "0"], "temperature must be above 0"),
        (["--temperature", "warm"], "temperature is a number"),
        (["--block", "5"], "block must divide"),
        (["--sweeps", "0"], "sweeps must be at least 1"),
        (["--order", "zigzag"], "unknown order"),
        (["--kernel", "cold"], "kernel is"),
        (["-n", "0"], "at least one sample"),
        (["-n", "2000000000"], "of memory, and there are"),
        (["-n", "10000000000000"], "is beyond 2,147,483,647"),
        (["--top-p", "abc"], "--top-p"),
        (["--seed", "-1"], "a seed is a whole number from 0 to 2^63 - 1, not -1"),
        (["--no-such-option"], "--help tells more"),
    ],
)
def test_a_mistake_in_sampling_is_one_sentence_and_exit_code_2(tokens, arguments, about):
    assert_refused(run("sample", tokens, *arguments), about)


def test_a_missing_or_unknown_command_is_one_sentence_and_none_at_all_is_help():
    assert_refused(run("sample"), "Missing argument 'MODEL'")
    assert_refused(run("paint"), "No such command 'paint'")
    assert run().returncode == 0
    assert "Usage" in run().stdout


def test_what_is_set_wins_over_the_models_own_options_and_what_is_not_set_does_not(tmp_path):
    own = model(codec=False)
    own.sampling = {"top_k": 1}
    folder = own.save(tmp_path / "own")
    greedy, free = (json.loads(run("sample", folder, "--seed", 0, "--json", *more).stdout) for more in ([], ["--top-k", 4]))
    assert greedy["tokens"] == own.sample(4, seed=0, top_k=1)
    assert free["tokens"] == own.sample(4, seed=0, top_k=4) != greedy["tokens"]


def test_nothing_is_overwritten_without_being_told_to(images, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    assert_refused(run("sample", images, "--out", tmp_path), "is not empty")
    assert_refused(run("demo", "--out", tmp_path), "is not empty")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert run("sample", images, "-n", 1, "--out", tmp_path, "--force").returncode == 0
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert_refused(run("sample", images, "--out", tmp_path / "mine.txt"), "is a file")


@pytest.mark.parametrize(
    "words",
    [
        ("infill", "no-model", "--texts", "absent.jsonl"),
        ("infill", "no-model", "--tokens", "absent.npy", "--mask", "absent.npy"),
        ("evaluate", "absent.txt", "--reference", "absent.txt"),
        ("bench", "train", "--quick"),
    ],
    ids=lambda words: words[0],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_else(words, tmp_path):
    assert_refused(run(*words, "--out", "no/such/file", cwd=tmp_path), "there is no folder no/such to write file into")
    assert_refused(run(*words, "--out", ".", "--force", cwd=tmp_path), "is a folder; name a file")
    assert not any(tmp_path.iterdir())


def test_a_damaged_or_missing_model_is_one_sentence(tokens, images, tmp_path):
    assert_refused(run("sample", tmp_path / "nothing"), "no model")
    assert_refused(run("info", tmp_path), "no config.json")
    assert_refused(run("sample", images), "say where to put them")
    (tmp_path / "config.json").write_bytes((tokens / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes((tokens / "model.safetensors").read_bytes()[:-100])
    assert_refused(run("info", tmp_path), "cut short")


def test_bad_images_and_masks_are_one_sentence(images, tmp_path):
    Image.new("L", (4, 4)).save(tmp_path / "black.png")
    Image.new("L", (5, 4), 255).save(tmp_path / "wide.png")
    (tmp_path / "text.png").write_text("no image")

    def fill(image: str, mask: str) -> subprocess.CompletedProcess[str]:
        return run("infill", images, "--image", tmp_path / image, "--mask", tmp_path / mask, "--out", tmp_path / "out")

    assert_refused(fill("black.png", "black.png"), "no white pixel")
    assert_refused(fill("black.png", "wide.png"), "white all over")
    assert_refused(fill("wide.png", "wide.png"), "this model takes images")
    assert_refused(fill("text.png", "black.png"), "not an image")
    assert_refused(fill("absent.png", "black.png"), "there is no file")
    assert not (tmp_path / "out").exists()


def test_texts_are_filled_as_in_python_with_each_tokens_probability(texts, tmp_path):
    text = "it was the [[2]] of \\[[times]] [[1]]"
    expected = glauber.load(texts).infill(text, 2, seed=4, sweeps=1)
    arguments = ("infill", texts, "--text", text, "-n", 2, "--seed", 4, "--sweeps", 1)
    assert run(*arguments).stdout == "\n----\n".join(expected) + "\n"
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["texts"] == expected
    for fill, gaps in zip(expected, found["gaps"], strict=True):
        assert fill == f"it was the {gaps[0]['text']} of [[times]] {gaps[1]['text']}"
        assert [len(gap["tokens"]) for gap in gaps] == [2, 1]
        assert all(0 < token["probability"] < 1 for gap in gaps for token in gap["tokens"])


def test_many_texts_are_filled_line_by_line(texts, tmp_path):
    lines = [{"text": "it [[2]]", "id": 7}, {"text": "[[1]] was é", "id": 8}]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    shown = run("infill", texts, "--texts", source, "--seed", 0, "-n", 2)
    assert run("infill", texts, "--texts", source, "--seed", 0, "-n", 2, "--out", out).returncode == 0
    assert out.read_text(encoding="utf-8") == shown.stdout
    for k, (line, record) in enumerate(zip(shown.stdout.splitlines(), lines, strict=True)):
        assert json.loads(line) == {**record, "texts": glauber.load(texts).infill(record["text"], 2, seed=k)}
    assert_refused(run("infill", texts, "--texts", source, "--out", out), "exists")
    source.write_text('{"text": "it [[2]]"}\n{"text": "it"}\n')
    assert_refused(run("infill", texts, "--texts", source), "line 2 of")


def test_filling_many_texts_goes_on_where_it_was_killed(texts, tmp_path):
    lines = [{"text": f"[[2]] was the {k} [[3]]"} for k in ("best", "worst", "age", "end")]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)))
    arguments = ("infill", texts, "--texts", source, "--seed", 0, "--out", out)
    assert run(*arguments).returncode == 0
    expected = out.read_bytes()
    out.unlink()
    stopped = commands.glauber(*arguments, limit=len(expected) // 2)  # within a line, as a full disk does
    assert stopped.returncode != 0
    (part,) = tmp_path.glob("out.jsonl.*.part")
    assert 0 < part.stat().st_size < len(expected)
    assert not out.exists()
    done = json.dumps({**lines[0], "texts": ["kept"]}).encode() + b"\n"
    part.write_bytes(done + expected.splitlines()[1][:5])  # a whole line, which is not made again, and half of one, which is
    assert run("infill", texts, "--texts", source, "--seed", 1, "--out", tmp_path / "other.jsonl").returncode == 0
    assert part.read_bytes().startswith(done)  # another question does not touch it
    assert run(*arguments).returncode == 0
    assert out.read_bytes().splitlines() == [done.strip(), *expected.splitlines()[1:]]
    assert not part.exists()
    out.unlink()
    part.write_bytes(expected[:5])  # of the first line only a half
    assert run(*arguments).returncode == 0
    assert out.read_bytes() == expected


def test_tokens_are_filled_from_arrays_into_an_array(tokens, tmp_path):
    x, mask = np.arange(16).reshape(1, 16) % 4, np.arange(16) < 3
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "m.npy", mask)
    arguments = ("infill", tokens, "--tokens", tmp_path / "x.npy", "--mask", tmp_path / "m.npy", "--seed", 2)
    assert run(*arguments, "--out", tmp_path / "y.npy", "-n", 3).returncode == 0
    filled = np.load(tmp_path / "y.npy")
    wanted = glauber.load(tokens).infill_tokens(torch.from_numpy(x), torch.from_numpy(mask), 3, seed=2)
    assert np.array_equal(filled, wanted.numpy())
    assert (filled[:, 0, 3:] == x[0, 3:]).all()
    assert_refused(run(*arguments), "--out filled.npy, or print them with --json")
    assert_refused(run(*arguments, "--out", tmp_path / "y.npy"), "exists")


def test_filled_tokens_are_printed_as_json_where_there_is_no_file_for_them(tokens, tmp_path):
    """In the tokens' own shape, here that of the grid."""
    x, mask = (np.arange(16) % 4).reshape(1, 4, 4), (np.arange(16) < 3).reshape(4, 4)
    np.save(tmp_path / "x.npy", x.astype(np.uint8))
    np.save(tmp_path / "m.npy", mask)
    arguments = ("infill", tokens, "--tokens", tmp_path / "x.npy", "--mask", tmp_path / "m.npy", "--seed", 2, "--json")
    for more, num in (((), None), (("-n", 2), 2)):
        wanted = glauber.load(tokens).infill_tokens(x, mask, num, seed=2)
        assert json.loads(run(*arguments, *more).stdout)["tokens"] == wanted.tolist()
        assert wanted.shape == (*([] if num is None else [num]), 1, 4, 4)


def test_samples_begin_with_the_prompt_and_are_those_of_python(texts, images):
    arguments = ("sample", texts, "--prompt", "it was ", "-n", 2, "--seed", 3)
    expected = glauber.load(texts).sample(2, seed=3, prompt="it was ")
    assert run(*arguments).stdout == "\n----\n".join(expected) + "\n"
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["texts"] == expected
    assert [len(row) for row in found["tokens"]] == [16, 16]
    assert_refused(run("sample", texts, "--prompt", "it was " * 20), "the prompt has")
    assert_refused(run("sample", texts, "--prompt", ""), "the prompt is empty")
    assert_refused(run("sample", images, "--prompt", "it", "--out", "x"), "no text codec")


def test_a_text_is_varied_as_in_python(texts):
    found = json.loads(run("vary", texts, "--text", "it was", "--strength", 0.5, "-n", 2, "--seed", 1, "--json").stdout)
    assert (found["step"], found["steps"]) == (16, 32)
    assert found["texts"] == glauber.load(texts).vary("it was", 16, 2, seed=1)
    assert run("vary", texts, "--text", "it was", "--strength", 0).stdout == "it was\n"
    assert_refused(run("vary", texts, "--text", "it", "--strength", 2), "from 0 to 1")
    assert_refused(run("vary", texts, "--text", ""), "the text is empty")


def test_a_score_is_the_same_for_a_text_and_for_what_prepare_makes_of_it(texts, tmp_path):
    """The file's last window is shorter than L, and prepare drops it; so it is left out of the comparison."""
    (tmp_path / "story.txt").write_text(STORY)
    loaded = glauber.load(texts)
    loaded.codec.tokenizer.save(str(tmp_path / "tokenizer.json"))
    data = tmp_path / "data"
    made = run("prepare", tmp_path / "story.txt", "--out", data, "--tokenizer", tmp_path / "tokenizer.json", "--length", 16)
    assert made.returncode == 0, made.stderr
    rows = len(loaded.codec.encode(STORY)) // 16
    train = rows - json.loads((data / "header.json").read_text())["splits"]["valid"][0]["rows"]
    one, other = (
        json.loads(run("score", texts, *what, "--rows", train, "--sweeps", 1, "--order", "left-to-right", "--json").stdout)
        for what in ((data, "--split", "train"), ("--text", tmp_path / "story.txt"))
    )
    assert one.pop("seconds") > 0
    assert other.pop("seconds") > 0
    assert one == other
    assert one["bounds"]["reversal"]["bits_per_token"] == pytest.approx(one["bounds"]["heat-bath"]["bits_per_token"])
    assert (one["rows"], one["tokens"], one["calls"]) == (train, train * 16, train * 8)
    whole = run("score", texts, "--text", tmp_path / "story.txt", columns=50)
    assert f"{len(loaded.codec.encode(STORY)) + 1:,} tokens" in whole.stdout  # and the end of the text
    assert_refused(run("score", texts, data, "--split", "test"), "there is no split")
    assert_refused(run("score", texts, tmp_path), "no prepared data")
    assert_refused(run("score", texts), "say what to score")
    assert_refused(run("score", texts, "--text", tmp_path / "absent.txt"), "absent.txt")


def test_a_score_of_other_data_than_the_models_is_refused(texts, tmp_path):
    (tmp_path / "story.txt").write_text(STORY)
    made = run("prepare", tmp_path / "story.txt", "--out", tmp_path / "data", "--length", 16)
    assert made.returncode == 0, made.stderr
    assert_refused(run("score", texts, tmp_path / "data"), "prepare the text as the model's data was")


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ([], "say what to fill in"),
        (["--text", "it [[1]]", "--image", "x.png", "--mask", "m.png"], "say what to fill in"),
        (["--text", "it [[1]]", "--mask", "m.png"], "need a --mask"),
        (["--tokens", "x.npy"], "need a --mask"),
        (["--text", ""], "the text is empty"),
        (["--text", "it [[17]]"], "longer than this model's 16"),
        (["--text", "it [[1]]", "-n", "0"], "at least one fill"),
        (["--text", "it [[1]]", "--out", "x"], "goes to the screen"),
        (["--texts", "absent.jsonl"], "there is no file"),
        (["--texts", "absent.jsonl", "--watch"], "goes with --text"),
        (["--tokens", "absent.npy", "--mask", "absent.npy", "--out", "y.npy"], "there is no file"),
    ],
)
def test_a_mistake_in_infilling_is_one_sentence_and_exit_code_2(texts, arguments, about, tmp_path):
    assert_refused(run("infill", texts, *arguments, cwd=tmp_path), about)
    assert not any(tmp_path.iterdir())


def test_text_is_not_filled_or_watched_by_a_model_of_images(images, tokens):
    for other in (images, tokens):
        assert_refused(run("infill", other, "--text", "it [[1]]"), "no text codec")
    assert_refused(run("sample", tokens, "--watch"), "only text can be watched")


def read_terminal(terminal: int) -> str:
    """All that is written to it until its other end is closed, which is an error on Linux and an empty read elsewhere."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 12):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_a_chain_is_watched_in_a_terminal_and_without_one_a_sentence_says_so(texts):
    unseen = run("infill", texts, "--text", "it was [[4]]", "--seed", 0, "--watch")
    assert unseen.stderr == "glauber: --watch needs a terminal, and there is none; the chain runs unseen\n"
    for arguments in (["infill", texts, "--text", "it was [[4]]", "--seed", "0"], ["sample", texts, "-n", "1", "--seed", "0"]):
        ours, theirs = os.openpty()
        command = [sys.executable, "-m", "glauber", *map(str, arguments), "--watch"]
        environment = {"PATH": "", "TERM": "xterm", "COLUMNS": "40", "LINES": "10"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
        os.close(theirs)
        shown = read_terminal(ours)
        printed = process.communicate()[0].decode()
        title = [line for line in re.split(r"\x1b\[[0-9]*[AJ]|\r\n", shown) if line.startswith("step ")][-1].split()
        assert title[1] == title[3], "the last picture is of the last step"
        assert shown.endswith("A\x1b[J"), "the last picture is taken away"
        assert printed == run(*arguments).stdout


def test_what_is_validated_on_is_a_share_or_texts_of_their_own(tmp_path):
    (tmp_path / "train.txt").write_text(STORY)
    (tmp_path / "own.txt").write_text(STORY.upper())
    (tmp_path / "more.txt").write_text(STORY.title())

    def prepared(name: str, *words: object) -> Shards:
        done = run("prepare", "train.txt", "--out", name, "--length", 16, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return open_shards(tmp_path / name)

    assert (
        prepared("shared", "--valid", 0.25).hash
        == prepare([tmp_path / "train.txt"], tmp_path / "python", length=16, valid=0.25, progress=False).hash
    )
    own = prepared("own", "--valid", "own.txt")
    text = own.codec.decode(own.rows("valid")[:].reshape(-1))
    assert STORY.upper().startswith(text)
    assert len(text) > len(STORY) - 16
    both = prepared("both", "--valid", "own.txt", "--valid", "more.txt")
    assert len(both.rows("valid")) > len(own.rows("valid"))
    assert len(both.rows("train")) == len(own.rows("train")) == (len(STORY) + 1) // 16
    for words, about in (
        (["--valid", "absent.txt"], "there is no file or folder absent.txt"),
        (["--valid", "1"], "at least 0 and below 1, not 1"),
    ):
        assert_refused(run("prepare", "train.txt", "--out", "new", *words, cwd=tmp_path), about)
    assert not (tmp_path / "new").exists()


def test_info_tells_of_a_model(tokens):
    words = run("info", tokens).stdout
    assert "each site's survival" in words
    facts = json.loads(run("info", tokens, "--json").stdout)
    assert facts["parameters"] == sum(p.numel() for p in glauber.load(tokens).network.parameters())
    assert facts["schedule"]["steps"] == 32


def test_info_asks_for_one_thing(tokens):
    assert_refused(run("info"), "say what to tell about")
    assert_refused(run("info", tokens, "--recipe", "digits"), "say what to tell about")


PAPER = {
    "layers": "24",
    "heads": "16",
    "width": "1024",
    "length L": "1024",
    "chain steps T": "4096",
    "keep": "0.5",
    "optimizer": "AdamW 0.9/0.999, eps 1e-8",
    "weight decay": "none",
    "dropout": "none",
    "EMA": "0.9999",
    "precision": "fp32",
    "method": "ggm-binary",
    "told": "the time t",
}
OWT = {
    "parameters": "387,272,292",
    "tokens": "32100",
    "noise law": "unigram",
    "learning rate": "warm-up 8000 steps, peak 1e-4, cosine to 1e-6 over 2000000 steps",
    "train steps": "2000000",
    "batch": "64×32",
    "sampling": "top-p 0.8, banned: the codec's end of text, on the mixture, in fp32",
}
FACES = {
    "about": "rotary positions in two dimensions are ours",
    "tokens": "8192",
    "noise law": "uniform",
    "batch": "2048",
    "length L": "1024 (32×32)",
}
CELEBA = FACES | {
    "learning rate": "cosine to 1e-6 over 1000000 steps, then constant to 1450000",
    "sampling": "top-p 0.9, temperature 1.05 for the first half, then 1.0",
}
FFHQ = FACES | {"learning rate": "cosine to 1e-6 over 3000000 steps", "train steps": "3000000", "sampling": "top-p 0.9"}
LARGE = OWT | {"parameters": "807,360,100", "width": "1536", "heads": "24"}


@pytest.mark.parametrize(
    ("name", "own"), [("paper-owt", OWT), ("paper-celebahq", CELEBA), ("paper-ffhq", FFHQ), ("paper-800m", LARGE)]
)
def test_the_papers_recipes_have_the_papers_settings(name, own):
    lines = dict(line.split("  ", 1) for line in run("info", "--recipe", name).stdout.splitlines())
    facts = {key.strip(): value.strip() for key, value in lines.items()}
    for key, value in (PAPER | own).items():
        assert value in facts[key], (key, facts[key])
    assert "warmed up" not in facts["EMA"]


def test_an_unknown_recipe_suggests_the_nearest():
    assert_refused(run("info", "--recipe", "paper-ow"), "did you mean 'paper-owt'?")


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path):
    blocked = "import sys; sys.modules['sklearn'] = None; sys.argv = ['glauber', 'demo', '--out', 'x']; "
    result = subprocess.run(
        [sys.executable, "-c", blocked + "from glauber.cli import main; main()"], capture_output=True, text=True, cwd=tmp_path
    )
    assert_refused(result, "pip install 'glauber[demo]'")
    assert not any(tmp_path.iterdir())
