"""The command line, run as a user runs it: in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import glauber
from glauber import Model, NoiseLaw, PixelCodec, Process, Schedule, Transformer, TransformerConfig


def run(*arguments: object, columns: int = 100, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glauber", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"COLUMNS": str(columns), "PATH": "", "NO_COLOR": "1"},
    )


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


def assert_refused(result: subprocess.CompletedProcess[str], about: str) -> None:
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert about in result.stderr
    assert result.stderr.startswith("glauber: ")
    assert result.stderr.count("\n") == 1, "one sentence on one line"


def test_every_command_explains_itself_in_a_narrow_terminal():
    assert run("--help").returncode == 0
    for command in ("demo", "sample", "infill", "info"):
        result = run(command, "--help", columns=50)
        assert result.returncode == 0
        assert max(map(len, result.stdout.splitlines())) <= 50


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
        (["-n", "10000000000000"], "more memory than there is"),
        (["--top-p", "abc"], "--top-p"),
        (["--seed", "-1"], "--seed"),
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
    assert_refused(fill("black.png", "wide.png"), "this model takes images")
    assert_refused(fill("text.png", "black.png"), "not an image")
    assert_refused(fill("absent.png", "black.png"), "missing")
    assert not (tmp_path / "out").exists()


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
    "objective": "binary",
    "told": "the time t",
}
OWT = {
    "parameters": "387,272,292",
    "tokens": "32100",
    "noise law": "unigram",
    "learning rate": "warm-up 8000 steps, peak 1e-4, cosine to 1e-6 over 2000000 steps",
    "train steps": "2000000",
    "batch": "64×32",
    "sampling": "top-p 0.8, banned: token 1 (end-of-text)",
}
FACES = {"tokens": "8192", "noise law": "uniform", "batch": "2048", "length L": "1024 (32×32)"}
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


def test_an_unknown_recipe_suggests_the_nearest():
    assert_refused(run("info", "--recipe", "paper-ow"), "did you mean 'paper-owt'?")


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path):
    blocked = "import sys; sys.modules['sklearn'] = None; sys.argv = ['glauber', 'demo', '--out', 'x']; "
    result = subprocess.run(
        [sys.executable, "-c", blocked + "from glauber.cli import main; main()"], capture_output=True, text=True, cwd=tmp_path
    )
    assert_refused(result, "pip install 'glauber[demo]'")
    assert not any(tmp_path.iterdir())
