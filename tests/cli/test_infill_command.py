"""The command `infill`, run as a user runs it."""

import json
import subprocess

import commands
import numpy as np
import pytest
import torch
from PIL import Image
from program import assert_refused, run

import glauber
from glauber.codec import CharCodec


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


@pytest.fixture(scope="module")
def causal_texts(tmp_path_factory):
    """A folder with a model that writes from left to right by itself."""
    torch.manual_seed(0)
    codec = CharCodec("abc .")
    network = glauber.Transformer(glauber.TransformerConfig(codec.vocab, 16, width=8, layers=1, heads=2, causal=True))
    torch.nn.init.normal_(network.head.weight, std=0.3)
    schedule = glauber.Schedule.round_robin(16, 16, 0.0, "left-to-right")
    folder = tmp_path_factory.mktemp("causal") / "model"
    glauber.Model(network, glauber.Process(schedule, glauber.NoiseLaw.uniform(codec.vocab)), codec).save(folder)
    return folder


def test_a_gap_of_unknown_length_is_filled_as_in_python_and_tells_how_it_was_chosen(causal_texts):
    text, options = "a [[1-4]] b", {"draws": 6, "best_of": 4}
    expected = glauber.load(causal_texts).infill(text, 2, seed=1, **options)
    arguments = ("infill", causal_texts, "--text", text, "-n", 2, "--seed", 1, "--draws", 6, "--best-of", 4)
    shown = run(*arguments)
    assert shown.stdout == "\n----\n".join(expected) + "\n"
    assert "likeliest of 4 fills, in nats per character of the whole text: " in shown.stderr
    assert shown.stderr.count("chosen among 6 draws; effective sample size ") == 2
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["texts"] == expected
    scores = [fill["nats_per_character"] for fill in found["fills"]]
    assert scores == sorted(scores)
    for fill, (gap,), made in zip(expected, found["gaps"], found["fills"], strict=True):
        assert made["nats"] == pytest.approx(made["nats_per_character"] * len(fill))
        assert 0 < sum(token["nats"] for token in gap["tokens"]) < made["nats"]
        assert 1 <= made["effective_sample_size"] <= 6
        assert made["calls"] > 6


def test_constraints_hold_for_many_texts_too(causal_texts, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a [[1-4]] b"}\n{"text": "a [[3]]"}\n')
    arguments = ("--sentence", "--ban-word", "c", "--seed", 0, "-n", 3)
    lines = run("infill", causal_texts, "--texts", tmp_path / "in.jsonl", *arguments).stdout.splitlines()
    for fill in (text for line in lines for text in json.loads(line)["texts"]):
        assert fill.removesuffix(" b").endswith(".")
        assert fill.count(".") == 1
        assert "c" not in fill.replace(".", " ").split()
    (tmp_path / "in.jsonl").write_text('{"text": "a [[1-4]] b"}\n{"text": "a [[9-3]]"}\n')
    assert_refused(run("infill", causal_texts, "--texts", tmp_path / "in.jsonl"), "line 2 of")


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


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ([], "say what to fill in"),
        (["--text", "it [[1]]", "--image", "x.png", "--mask", "m.png"], "say what to fill in"),
        (["--text", "it [[1]]", "--mask", "m.png"], "need a --mask"),
        (["--tokens", "x.npy"], "need a --mask"),
        (["--text", ""], "the text is empty"),
        (["--text", "it [[17]]"], "longer than this model's 16"),
        (["--text", "it [[5-3]]"], "upside down"),
        (["--text", "it [[1-3]]"], "give the length, as in [[12]]"),
        (["--text", "it [[1]]", "--best-of", "4"], "leave best-of out"),
        (["--text", "it [[1]]", "--seams", "neat"], "seams is word or raw"),
        (["--text", "it [[1]]", "--ban-word", " "], "none of them empty"),
        (["--text", "it [[1]]", "--draws", "0"], "at least one draw"),
        (["--tokens", "x.npy", "--mask", "m.npy", "--out", "y.npy", "--best-of", "4"], "are for texts"),
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
