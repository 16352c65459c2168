"""The models in the box: one of language, one of images."""

import random
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image

import glauber
from glauber.card import default_sampling, front_matter
from glauber.cli.info_facts import is_run
from glauber.conditional import CausalConditional, Denoiser
from glauber.storage import BUNDLED, compacted, expanded
from glauber.tasks.inpaint import RULES

PASSAGE = (
    "She had been to the window several times, and had looked out upon the road with an anxious face; but there was "
    "nothing to be seen there, and at last she sat down by the fire and took up her work again."
)


@pytest.fixture(scope="module")
def novels():
    return glauber.load("novels")


@pytest.fixture(scope="module")
def fashion():
    return glauber.load("fashion")


@pytest.fixture(scope="module")
def clothes() -> np.ndarray:
    """Ten real images that the model was not trained on, one of each kind: the first ones of Fashion-MNIST's test set."""
    return np.asarray(Image.open(Path(__file__).parent / "fashion.png")).reshape(28, 10, 28).transpose(1, 0, 2)


def upper_half() -> np.ndarray:
    return np.repeat(np.arange(28) < 14, 28).reshape(28, 28)


@pytest.mark.parametrize(("name", "room"), [("novels", 20e6), ("fashion", 8e6)])
def test_it_fits_in_the_box(name, room):
    assert sum(file.stat().st_size for file in (BUNDLED / name).iterdir()) < room
    card = (BUNDLED / name / "README.md").read_text()
    assert all(word in card for word in ("data", "recipe", "compute", "Samples", "What it cannot do"))


@pytest.mark.parametrize("name", ["novels", "fashion"])
def test_its_card_has_the_hubs_front_matter_and_says_what_default_sampling_does(name):
    text, model = (BUNDLED / name / "README.md").read_text(), glauber.load(name)
    assert text.startswith(f"{front_matter(model, name)}\n\n# {name}\n")
    assert default_sampling(model) in text
    assert "By default it samples autoregressively: one sweep" in text
    assert isinstance(model.conditional, CausalConditional)
    assert (model.process.schedule.sweeps, model.trained.sweeps) == (1, 4)
    said = ModelCard(text).data
    assert (said.license, said.library_name) == ("apache-2.0", "glauber")


def test_the_same_seed_gives_the_same_text_and_another_seed_another(novels):
    first, again, other = (novels.sample(1, seed=seed, top_p=0.9)[0] for seed in (0, 0, 1))
    assert first == again != other
    words = [word.strip(".,;:!?\"'-—“”‘’()_").lower() for word in first.split()]
    common = {"the", "and", "of", "to", "a", "in", "was", "he", "she", "it", "i", "that", "her", "his", "you", "with", "had"}
    assert sum(word in common for word in words) > 0.15 * len(words), "English is about a quarter such words"


def test_it_finds_english_likely_and_shuffled_words_less_so(novels):
    words = PASSAGE.split()
    random.Random(0).shuffle(words)
    own, shuffled = (novels.score([text])["bits_per_character"] for text in (PASSAGE, " ".join(words)))
    assert own < 1.9
    assert shuffled > 1.5 * own


def test_it_fills_gaps_by_what_stands_on_both_sides(novels):
    before, after = "“I am very glad to see you,” said Mr. ", ", and he shook her by the hand."
    filled = novels.infill(f"{before}[[2]]{after}", num=8, seed=0)
    assert all(text.startswith(before) and text.endswith(after) for text in filled)
    names = [text[len(before) : -len(after)] for text in filled]
    assert sum(name[:1].isupper() for name in names) >= 6, names


def test_a_bare_word_is_the_model_in_the_box_and_a_path_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "novels").mkdir()
    monkeypatch.chdir(tmp_path)
    assert glauber.load("novels").process.length == 256
    with pytest.raises(ValueError, match="is not a model"):
        glauber.load("./novels")


def test_a_name_that_is_both_in_the_box_and_a_model_here_is_refused(tmp_path, monkeypatch):
    (tmp_path / "novels").mkdir()
    (tmp_path / "novels" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for ask in (glauber.load, is_run):
        with pytest.raises(ValueError, match=r"write \./novels for the folder"):
            ask("novels")


def test_varying_changes_the_text_itself_though_the_models_own_chain_reads(novels):
    t = novels.varying().schedule.steps // 2
    texts = novels.vary("It was a dark and stormy night.", t, num=1, seed=0)
    assert len(texts) == 1
    assert texts != ["It was a dark and stormy night."]


def test_going_on_from_a_beginning_needs_one_pass_and_a_gap_with_an_end_looks_both_ways(novels, monkeypatch):
    def used(text):
        kinds = []
        find = type(novels.method).conditional

        def watching(*arguments):
            kinds.append(find(*arguments))
            return kinds[-1]

        monkeypatch.setattr(type(novels.method), "conditional", watching)
        novels.infill(text, seed=0, seams="raw")
        monkeypatch.undo()
        return {type(kind) for kind in kinds}

    assert used("It was the best of[[3]]") == {CausalConditional}
    assert used("It was the [[2]] of times") == {Denoiser}
    assert used("[[2]] of times") == {Denoiser}


def test_its_codec_brings_real_images_back(fashion, clothes):
    tokens = fashion.codec.encode(clothes)
    assert tokens.shape == (10, 196)
    errors = (fashion.codec.decode(tokens).astype(float) - clothes) ** 2
    assert (10 * np.log10(255**2 / errors.mean((1, 2))) > 22).all()
    assert 10 * np.log10(255**2 / errors.mean()) > 25


def test_images_are_the_same_for_the_same_seed_and_lie_on_black(fashion):
    first, again, other = (fashion.sample(2, seed=seed, calls=8) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    for image in map(np.asarray, first + other):
        assert image.shape == (28, 28)
        assert image[:, (0, -1)].mean() < image.mean() / 2, "clothes are in the middle"


def test_it_finds_clothes_likely_and_clothes_upside_down_less_so(fashion, clothes):
    own, turned = (fashion.score(images)["bits_per_token"] for images in (clothes, clothes[:, ::-1]))
    assert own < 4
    assert turned > 1.2 * own


@pytest.mark.parametrize("rule", RULES)
def test_holes_in_real_images_are_filled_and_every_pixel_outside_is_as_it_was(fashion, clothes, rule):
    boot, hole = clothes[9], upper_half()
    fills = [np.asarray(fill) for fill in fashion.inpaint(boot, hole, num=2, seed=0, mask_rule=rule, sweeps=1, block=14)]
    assert not np.array_equal(*fills)
    for fill in fills:
        assert np.array_equal(fill[~hole], boot[~hole])
        assert fill[hole].any()


def test_the_upper_half_of_trousers_is_found_from_the_tokens_of_their_legs(fashion, clothes):
    tokens, hole = fashion.codec.encode(clothes), torch.arange(196) < 98
    fills = fashion.codec.decode(fashion.infill_tokens(tokens[1], hole, num=2, seed=0, sweeps=1, block=7, order="random"))
    others = clothes[[0, 2, 8, 9]]
    errors = [((guess.astype(float) - clothes[1])[:14] ** 2).mean() for guess in (*fills, *others)]
    assert max(errors[:2]) < min(errors[2:]) / 2, "nearer than a shirt, a pullover, a bag and a boot are"


def test_a_mask_of_any_size_fills_from_the_command_line_and_bad_ones_are_one_sentence(tmp_path, clothes):
    Image.fromarray(clothes[9]).save(tmp_path / "x.png")
    Image.fromarray(np.kron([[255, 0], [0, 0]], np.ones((41, 7))).astype(np.uint8)).save(tmp_path / "quarter.png")
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    Image.new("L", (30, 2), 255).save(tmp_path / "white.png")
    Image.new("1", (10_000, 10_000), 1).save(tmp_path / "huge.png")
    (tmp_path / "text.png").write_text("no image")

    def fill(mask: str) -> tuple[int, str]:
        words = ["infill", "fashion", "--image", "x.png", "--mask", mask, "--sweeps", 1, "--block", 14, "--json"]
        done = commands.glauber(*words, cwd=tmp_path)
        return done.returncode, done.stderr

    for mask, about in {
        "black": "no white pixel",
        "white": "white all over",
        "huge": "million pixels",
        "text": "not an image",
    }.items():
        code, said = fill(f"{mask}.png")
        assert (code, said.count("\n")) == (2, 1), said
        assert about in said
    assert not (tmp_path / "filled").exists()
    assert fill("quarter.png")[0] == 0
    filled, kept = np.asarray(Image.open(tmp_path / "filled" / "0000.png")), np.ones((28, 28), bool)
    kept[:14, :14] = False
    assert np.array_equal(filled[kept], clothes[9][kept])


def test_compact_weights_are_off_by_at_most_half_a_step_and_the_rest_is_as_it_was():
    torch.manual_seed(0)
    whole = {
        "network.a": torch.randn(5, 7),
        "network.b": torch.randn(7),
        "noise": torch.rand(3, 3),
        "network.z": torch.zeros(2, 2),
    }
    small = compacted(whole)
    assert small["network.a"].dtype == torch.int8
    back = expanded(small)
    assert back.keys() == whole.keys()
    step = whole["network.a"].abs().amax(1, keepdim=True) / 127
    assert ((back["network.a"] - whole["network.a"]).abs() <= step / 2 + 1e-7).all()
    for name in ("network.b", "noise", "network.z"):
        assert torch.equal(back[name], whole[name])


def test_a_compact_model_is_a_model(tmp_path):
    network = glauber.Transformer(glauber.TransformerConfig(vocab=5, length=4, width=8, layers=1, heads=2))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    process = glauber.Process(glauber.Schedule.round_robin(4, 8, "linear"), glauber.NoiseLaw.uniform(5))
    model = glauber.Model(network, process)
    whole, small = model.save(tmp_path / "whole"), model.save(tmp_path / "small", compact=True)
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (whole, small)]
    assert sizes[1] < sizes[0]
    x = torch.randint(5, (3, 4))
    close = [glauber.load(folder).network(x, x[:, 0], torch.full((3, 4), 0.5)) for folder in (whole, small)]
    assert torch.allclose(close[0], close[1], atol=0.05)
    assert not torch.equal(close[0], close[1])
