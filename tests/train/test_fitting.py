"""`glauber.fit`, and `glauber train` without a recipe: from things as people have them to a model."""

import json

import commands
import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import glauber
from glauber.codec import text_codec
from glauber.data import open_shards, prepare
from glauber.train.own import own_data, require_tokens_of, suited

SHORT = 0.02
"""Minutes: as short as a run can be."""
TEXTS = ["the cat sat on the mat and the dog sat on the log. " * 20] * 4


def fit(data, **options):
    said: list[str] = []
    return glauber.fit(data, minutes=SHORT, say=said.append, **options), said


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "run"
    return out, *fit(TEXTS, out=out)


def test_strings_become_a_model_of_their_letters_and_the_run_is_kept_where_it_should_be(of_texts):
    out, model, said = of_texts
    assert model.codec.alphabet == "".join(sorted(set(TEXTS[0])))
    kept = glauber.load(out).network
    assert all(map(torch.equal, kept.parameters(), model.network.parameters()))
    assert any("a token for each letter" in words for words in said)
    assert (out / "chosen.toml").is_file()


def test_it_goes_on_from_a_model_whose_tokenizer_is_kept(of_texts):
    out, start, _ = of_texts
    model, said = fit(["the log sat on the cat. " * 60], init=str(out))
    assert model.codec.alphabet == start.codec.alphabet  # which has letters that the new text does not
    assert model.network.config == start.network.config
    assert any("that of the model it starts from" in words for words in said)
    with pytest.raises(ValueError, match="is not among the"):
        fit(["Ω" * 600], init=str(out))


def test_images_with_classes_become_a_model_that_is_told_them(tmp_path):
    draw = np.random.default_rng(0)
    images = [Image.fromarray(draw.integers(256, size=(4, 4), dtype=np.uint8)) for _ in range(40)]
    model, _ = fit(images, classes=["dark", "light"] * 20)
    assert model.classes == ["dark", "light"]
    assert model.sample(1, class_="light", seed=0)[0].size == (4, 4)


@pytest.mark.parametrize("kind", ["array", "tensor", "lists"])
def test_rows_of_tokens_are_trained_on_as_they_are(kind):
    rows = np.random.default_rng(0).integers(5, size=(40, 6))
    model, _ = fit({"array": rows, "tensor": torch.from_numpy(rows), "lists": rows.tolist()}[kind])
    assert (model.process.vocab, model.process.length, model.codec) == (5, 6, None)


def test_one_long_array_is_cut_into_rows_and_classes_of_rows_are_named():
    from glauber.train import fitting

    data = fitting._tokens(torch.arange(2000) % 7, None, None)
    assert (data.length, len(data.train) + len(data.valid), data.vocab) == (64, 31, 7)
    told = fitting._tokens(torch.arange(40).view(20, 2) % 5, list("ab") * 10, None)
    assert told.classes == ("a", "b")
    rows = np.concatenate([told.train[np.arange(19)], told.valid[np.arange(1)]])
    classes = np.concatenate([told.train.classes(np.arange(19)), told.valid.classes(np.arange(1))])
    assert sorted(zip(rows[:, 0].tolist(), classes.tolist(), strict=True)) == sorted((2 * k % 5, k % 2) for k in range(20))


@pytest.mark.parametrize(
    ("data", "options", "about"),
    [
        ([], {}, "nothing to train on"),
        (np.zeros((0, 4), int), {}, "nothing to train on"),
        (np.zeros((3, 4)), {}, "whole numbers"),
        (np.zeros((3, 2, 2), int), {}, "of shape"),
        (-np.ones((3, 4), int), {}, "from 0"),
        (np.zeros((3, 4), int), {"classes": [1]}, "one class for each row"),
        (["a", "b"], {"classes": [1, 2]}, "not with texts"),
        (5, {}, "train on a path, texts, images or an array"),
        (torch.tensor(5), {}, "train on a path, texts, images or an array"),
        ("a text " * 200, {}, "a text goes into a list"),
        ("nowhere.txt", {}, "there is no file or folder"),
        ("nowhere.txt", {"classes": [1]}, "not with a path"),
        (["a text " * 200], {"minutes": 0}, "above 0"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_one_sentence(data, options, about, tmp_path):
    with refused(about):
        glauber.fit(data, **{"minutes": SHORT, "out": tmp_path / "run", "say": lambda words: None, **options})
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with refused("not empty"):
        fit(TEXTS, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_things_are_prepared_as_suits_them(tmp_path):
    (tmp_path / "short.txt").write_text("a")
    assert suited(tmp_path / "short.txt").options | {"tokenizer": "char", "length": 8} == suited(tmp_path / "short.txt").options
    (tmp_path / "long.txt").write_text("a" * 2**21)
    assert suited(tmp_path / "long.txt").options["tokenizer"] == "bpe:4096"
    np.save(tmp_path / "tokens.npy", np.array([[3, 8]]))
    assert suited(tmp_path / "tokens.npy").options["vocab"] == 9
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (50, 40)).save(tmp_path / "photos" / name / "1.png")
    options = suited(tmp_path / "photos").options
    assert (options["tokenizer"], options["size"], options["grey"], options["classes"]) == ("patches:16:4", 32, False, True)


def test_a_tokenizer_that_was_written_beside_the_data_makes_the_same_tokens(of_texts, tmp_path):
    _, model, _ = of_texts
    (tmp_path / "codec.json").write_text(json.dumps(model.codec.to_dict()))
    assert text_codec(tmp_path / "codec.json").encode(TEXTS[0]) == model.codec.encode(TEXTS[0])


def test_data_of_other_tokens_than_the_model_s_is_refused(of_texts, tmp_path):
    _, model, _ = of_texts
    (tmp_path / "a.txt").write_text(TEXTS[0].replace("c", "z"))  # as many letters
    prepare([tmp_path / "a.txt"], tmp_path / "data", "char", 16, progress=False)
    assert open_shards(tmp_path / "data").vocab == model.process.vocab
    with refused("give the texts themselves as --data"):
        own_data(tmp_path / "data", tmp_path / "beside", model, print)
    data = own_data(tmp_path / "a.txt", tmp_path / "beside", None, print)
    with refused("give the texts themselves as --data"):
        require_tokens_of(model, data)
    with refused("holds prepared data already"):
        own_data(tmp_path / "a.txt", tmp_path / "beside", None, print)


def test_the_bare_command_tells_its_choices_and_its_file_of_settings_begins_the_same_run_again(tmp_path):
    (tmp_path / "a.txt").write_text("".join(TEXTS))
    done = commands.glauber("train", "--data", "a.txt", "--out", "run", "--minutes", SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("data", "device", "size", "train.batch", "train.optimizer", "train.lr", "train.seconds", "train.patience"):
        assert any(line.startswith(name) for line in done.stdout.splitlines()), name
    assert "it will take" in done.stdout
    assert open_shards(tmp_path / "run-data").length == 128
    words = ["train", "--data", "run-data", "--out", "again", "--config", "run/chosen.toml", "--set=train.lr=0.004"]
    again = commands.glauber(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    plans = [json.loads((tmp_path / run / "config.json").read_text())["recipe"] for run in ("run", "again")]
    assert plans[1]["train"].pop("lr") == 0.004
    assert plans[0]["train"].pop("lr") != 0.004
    assert plans[0] == plans[1]


def test_minutes_are_for_a_choice_alone(tmp_path):
    words = ["train", "--recipe", "digits", "--out", tmp_path / "run", "--minutes", "1"]
    done = commands.glauber(*words)
    assert done.returncode == 2
    assert "say --set train.seconds=... instead" in done.stderr


def test_info_says_what_would_be_trained_on_data(of_texts):
    out, _, _ = of_texts
    told = commands.glauber("info", f"{out}-data").stdout
    for words in ("in 5 minutes", "for how long", "bits a token by their frequencies alone", "to validate on are among those"):
        assert words in told, words
    found = json.loads(commands.glauber("info", f"{out}-data", "--json").stdout)
    assert {"entropy_bits_per_token", "doubles", "advice"} <= found.keys()
