"""The language model in the box."""

import random

import pytest
import torch

import glauber
from glauber.conditional import Denoiser, Reader
from glauber.info import is_run
from glauber.storage import BUNDLED, compacted, expanded

PASSAGE = (
    "She had been to the window several times, and had looked out upon the road with an anxious face; but there was "
    "nothing to be seen there, and at last she sat down by the fire and took up her work again."
)


@pytest.fixture(scope="module")
def novels():
    return glauber.load("novels")


def test_it_fits_in_the_box():
    assert sum(file.stat().st_size for file in (BUNDLED / "novels").iterdir()) < 20e6
    card = (BUNDLED / "novels" / "README.md").read_text()
    assert all(word in card for word in ("data", "recipe", "compute", "Samples", "What it cannot do"))


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
    t = novels.schedule(sweeps=4).steps // 2
    texts = novels.vary("It was a dark and stormy night.", t, num=1, seed=0)
    assert len(texts) == 1
    assert texts != ["It was a dark and stormy night."]


def test_reading_on_from_a_beginning_needs_one_pass_and_a_gap_with_an_end_looks_both_ways(novels):
    def used(text):
        kinds = []
        find = novels.conditional_for
        novels.conditional_for = lambda *arguments, **options: kinds.append(find(*arguments, **options)) or kinds[-1]
        try:
            novels.infill(text, seed=0)
        finally:
            del novels.conditional_for
        return {type(kind) for kind in kinds}

    assert used("It was the best of[[3]]") == {Reader}
    assert used("It was the [[2]] of times") == {Denoiser}
    assert used("[[2]] of times") == {Denoiser}


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
