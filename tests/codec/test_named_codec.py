"""A user's own codec: found by its name and by nothing else, checked, and followed from a file to samples."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from commands import glauber

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig, load
from glauber.codec import NamedCodec, codec_from_dict, named, use_codec
from glauber.data import open_shards, prepare_named
from glauber.storage import read_model

HERE = __file__.rpartition("/")[0]
ROWS = ["123412", "654321", "111111", "663553", "462251"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No codec is known yet, and `dice` can be imported."""
    monkeypatch.setattr(named, "_chosen", {})
    monkeypatch.syspath_prepend(HERE)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "throws.txt"
    path.write_text("\n".join(row[:2] + "1" + row[3:5] + "2" for row in ROWS))
    return path


def door(folder, name, value):
    """A package that registers a codec."""
    package = folder / f"{name}-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[glauber.codecs]\n{name} = {value}\n")
    return folder


def test_rows_come_back_as_they_were(file):
    codec = use_codec("dice:Dice")
    (rows,) = codec.encode(file).values()
    assert rows.shape == (5, 6)
    assert codec.decode(rows) == file.read_text().split()
    assert codec.grid == (2, 3)


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("Flat", r"makes tokens of shape \(5, 6\), and says \(rows, 2, 3\)"),
        ("Restless", "makes other tokens of .* the second time; it must be deterministic"),
        ("High", r"tokens must lie in 0..5; these span 6..11"),
        ("Real", "tokens must be whole numbers, not float64"),
        ("Forbidden", r"puts 6 at site \(0, 2\), and does not allow it there"),
        ("Ragged", "makes rows of different shapes"),
        ("Nameless", "names 2 tokens and has 6"),
        ("Shapeless", r"has the shape \(2, 0\)"),
        ("Silent", r"allows no token at site \(0, 0\)"),
        ("Wide", r"allowed of shape \(3, 2, 6\); it is booleans of shape \(2, 3, 6\)"),
        ("Armed", "it is a class without arguments"),
        ("Empty", "has no vocab; a codec has shape, vocab, names, encode, decode"),
        ("Missing", "there is no codec dice:Missing"),
    ],
)
def test_a_bad_codec_is_refused_in_one_sentence(name, about, file):
    with pytest.raises(ValueError, match=about) as refused:
        use_codec(f"dice:{name}").encode(file)
    assert "\n" not in str(refused.value)


def test_code_is_never_imported_because_a_folder_names_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "dice", raising=False)
    with pytest.raises(ValueError, match="the codec dice:Dice is not here; name it with --codec dice:Dice"):
        codec_from_dict({"kind": "named", "name": "dice:Dice"}, {})
    assert "dice" not in sys.modules


def test_an_entry_point_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(door(tmp_path / "one", "thrown", "dice:Dice")))
    assert use_codec("thrown").vocab == 6
    with pytest.raises(ValueError, match="the codec unthrown is not here; install the package that registers it"):
        use_codec("unthrown")


def test_two_packages_with_one_name_are_refused(tmp_path, monkeypatch):
    door(tmp_path / "one", "thrown", "dice:Dice")
    other = door(tmp_path / "two", "thrown", "dice:Split")
    (other / "thrown-1.dist-info").rename(other / "again-1.dist-info")
    (other / "again-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: again\nVersion: 1\n")
    for folder in ("one", "two"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    with pytest.raises(ValueError, match="several packages register a codec thrown"):
        use_codec("thrown")


def model(name="dice:Dice"):
    torch.manual_seed(0)
    codec = use_codec(name)
    process = Process(Schedule.round_robin(6, 12, "linear"), NoiseLaw(torch.full((6,), 1 / 6), codec.allowed))
    return Model(Transformer(TransformerConfig(6, 6, width=16, layers=1, heads=2, grid=(2, 3))), process, codec)


def test_a_model_keeps_the_name_alone_and_has_its_vocabularies_again(tmp_path, monkeypatch):
    model().save(tmp_path / "model")
    config, _ = read_model(tmp_path / "model")
    assert config["codec"] == {"kind": "named", "name": "dice:Dice"}
    loaded = load(tmp_path / "model")
    assert torch.equal(loaded.process.noise.allowed, loaded.codec.allowed)
    assert bool((loaded.double().sample_tokens(200, seed=0)[:, [2, 5]] < 4).all())
    monkeypatch.setattr(named, "_chosen", {})
    with pytest.raises(ValueError, match="the codec dice:Dice is not here"):
        load(tmp_path / "model")


def test_a_codec_of_another_size_does_not_fit_a_network():
    codec = use_codec("dice:Dice")
    network = Transformer(TransformerConfig(6, 7, width=16, layers=1, heads=2))
    with pytest.raises(ValueError, match="the codec has 6 codes for 6 sites, the network 6 for 7"):
        Model(network, Process(Schedule.round_robin(7, 7), NoiseLaw.uniform(6)), codec)


def test_a_codec_that_splits_its_files_is_followed(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"train": [[0] * 6] * 3, "valid": [[1] * 6], "test": [[2] * 6] * 9}))
    shards = prepare_named(use_codec("dice:Split"), [path], tmp_path / "data", progress=False)
    assert shards.rows("train")[:].tolist() == [[0] * 6] * 3
    assert shards.rows("valid")[:].tolist() == [[1] * 6]
    assert shards.counts.tolist() == [18, 0, 0, 0, 0, 0]
    assert isinstance(open_shards(tmp_path / "data").codec, NamedCodec)
    with pytest.raises(ValueError, match="splits its files itself"):
        prepare_named(use_codec("dice:Split"), [path], tmp_path / "other", [path], progress=False)
    assert not list(tmp_path.glob("other*"))


@pytest.mark.parametrize("valid", [0.4, "file"])
def test_the_rows_of_a_file_are_shared_out_and_none_is_in_both(tmp_path, file, valid):
    other = tmp_path / "other.txt"
    other.write_text("222222\n333333")
    given = [other] if valid == "file" else valid
    shards = prepare_named(use_codec("dice:Dice"), [file], tmp_path / "data", given, progress=False)
    train, held = (shards.rows(split)[:].tolist() for split in ("train", "valid"))
    assert (len(train), len(held)) == ((5, 2) if valid == "file" else (3, 2))
    assert not [row for row in held if row in train]


def test_unfinished_work_of_another_kind_is_not_thrown_away(tmp_path, file):
    (tmp_path / "data.unfinished").mkdir()
    (tmp_path / "data.unfinished" / "journal.npz").write_bytes(b"of days of work")
    with pytest.raises(ValueError, match="holds unfinished work of another kind"):
        prepare_named(use_codec("dice:Dice"), [file], tmp_path / "data", progress=False)
    assert (tmp_path / "data.unfinished" / "journal.npz").read_bytes() == b"of days of work"


def test_prepared_data_and_other_files_stay(tmp_path, file):
    codec = use_codec("dice:Dice")
    prepare_named(codec, [file], tmp_path / "data", progress=False)
    with pytest.raises(ValueError, match="holds prepared data already"):
        prepare_named(codec, [file], tmp_path / "data", progress=False)
    assert len(prepare_named(codec, [file], tmp_path / "data", 0, progress=False, force=True).rows("train")) == 5
    with pytest.raises(ValueError, match=r"there is no .*missing"):
        prepare_named(codec, [tmp_path / "missing"], tmp_path / "other", progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "throws.txt"]


def test_whole_files_go_to_validation_where_there_are_several(tmp_path):
    for k in range(1, 6):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{k}.txt").write_text("\n".join([f"{min(k, 4)}" * 6] * k))
    shards = prepare_named(use_codec("dice:Dice"), [tmp_path / "in"], tmp_path / "data", 0.2, progress=False)
    assert np.unique(shards.rows("valid")[:]).tolist() == [2]
    assert len(shards.rows("train")) == 12


def test_from_a_file_to_samples_on_the_command_line(tmp_path, file):
    shutil.copy(f"{HERE}/dice.py", tmp_path)
    (tmp_path / "given.txt").write_text("12?4?1")

    def run(*words):
        done = glauber(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    run("prepare", file, "--codec", "dice:Dice", "--out", "data", "--valid", "0.2")
    settings = ("--set=train.steps=3", "--set=train.evaluate_every=3", "--set=process.noise=uniform")
    run("train", "--recipe", "tiny", "--data", "data", "--codec", "dice:Dice", "--out", "run", *settings)
    assert json.loads((tmp_path / "run/config.json").read_text())["recipe"]["network"]["grid"] == [2, 3]
    run("sample", "run", "--codec", "dice:Dice", "-n", "40", "--seed", "0", "--out", "out")
    texts = [path.read_text() for path in sorted((tmp_path / "out").glob("*.txt"))]
    assert len(texts) == 40
    assert {text[2] for text in texts} | {text[5] for text in texts} <= set("1234")
    run("infill", "run", "--codec", "dice:Dice", "--midi", "given.txt", "--out", "filled")
    filled = (tmp_path / "filled/0000.txt").read_text()
    assert (filled[:2], filled[3], filled[5]) == ("12", "4", "1")
    scored = run("score", "run", "data", "--codec", "dice:Dice", "--json")
    assert json.loads(scored.stdout)["rows"] == 1
    run("prepare", file, "--codec", "dice:Quiet", "--out", "quiet")
    run("train", "--recipe", "tiny", "--data", "quiet", "--codec", "dice:Quiet", "--out", "run2", *settings)
    said = run("sample", "run2", "--codec", "dice:Quiet", "-n", "3", "--json").stdout
    assert all(len(text) == 6 and set(text) <= set("123456") for text in json.loads(said)["texts"])
    refused = glauber("prepare", file, "--codec", "dice:Dice", "--length", "6", "--out", "more", cwd=tmp_path)
    assert refused.returncode == 2
    assert "with --codec the codec alone says how rows are made" in refused.stderr
    refused = glauber("sample", "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "the codec dice:Dice is not here; name it with --codec dice:Dice" in refused.stderr
