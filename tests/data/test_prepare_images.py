"""Folders of images → token shards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
from PIL import Image
from refusals import refused

import glauber
from glauber.codec import ImageSpec, PatchCodec, PixelCodec
from glauber.data import job as job_module
from glauber.data import load_digits, open_shards, prepare
from glauber.data import plan as plan_module


def noise(count: int, shape: tuple[int, ...] = (8, 8), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def save(images: np.ndarray, folder: Path, suffix: str = ".png") -> Path:
    folder.mkdir(parents=True)
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k:04d}{suffix}")
    return folder


def make(source, out, **options):
    return prepare([source], out, **{"tokenizer": "pixels", "valid": 0, "progress": False, **options})


def images_of(shards, split: str = "train") -> np.ndarray:
    import torch

    return shards.codec.decode(torch.from_numpy(shards.rows(split)[:]))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_row_is_an_image_in_the_order_of_the_names_with_sub_folders(tmp_path):
    images = noise(5)
    (tmp_path / "in" / "b").mkdir(parents=True)
    for name, image in zip(("a.png", "b/c.bmp", "b/d.png", "c.PNG", "z.tif"), images, strict=True):
        Image.fromarray(image).save(tmp_path / "in" / name)
    (tmp_path / "in" / "notes.txt").write_text("no image")
    (tmp_path / "in" / ".hidden.png").write_bytes(b"no image")
    shards = make(tmp_path / "in", tmp_path / "out")
    assert (shards.length, shards.vocab) == (64, 256)
    assert np.array_equal(images_of(shards), images)
    assert shards.header["totals"]["documents"] == 5
    assert shards.counts.tolist() == np.bincount(images.reshape(-1), minlength=256).tolist()
    shards.verify()
    one = make(tmp_path / "in" / "c.PNG", tmp_path / "one")
    assert np.array_equal(images_of(one), images[3:4])


def test_patches_are_those_of_the_codec_that_the_header_keeps(tmp_path):
    images = noise(30, (8, 12, 3)) // 128 * 200
    shards = make(save(images, tmp_path / "in"), tmp_path / "out", tokenizer="patches:20:4")
    assert (shards.length, shards.vocab, shards.codec.grid, shards.codec.shape) == (6, 20, (2, 3), (8, 12, 3))
    wanted = PatchCodec.fit(images, 4, 20)
    assert np.array_equal(shards.rows("train")[:], wanted.encode(images).numpy())
    assert np.array_equal(open_shards(tmp_path / "out").codec.centres, wanted.centres)


def test_codes_are_found_on_a_bounded_sample_of_images_evenly_spaced(tmp_path, monkeypatch):
    images = np.repeat(np.arange(40, dtype=np.uint8)[:, None, None], 64, 1).reshape(40, 8, 8)
    monkeypatch.setattr(plan_module, "TRAINING_PIXELS", 10 * 64)
    shards = make(save(images, tmp_path / "in"), tmp_path / "out", tokenizer="patches:10", grey=True)
    assert sorted(shards.codec.centres[:, 0].tolist()) == list(range(0, 40, 4))


def test_most_squares_are_enough_to_find_codes():
    images = noise(50) // 128 * 255
    centres = PatchCodec.fit(images, 2, 16, most=400).centres.round().tolist()  # there are 16 different squares
    assert sorted(centres) == sorted((np.indices([2] * 4).reshape(4, -1).T * 255.0).tolist())


def test_a_size_takes_the_middle_square(tmp_path):
    flag = np.zeros((10, 30, 3), dtype=np.uint8)
    for k in range(3):
        flag[:, 10 * k : 10 * k + 10, k] = 200
    folder = save(np.stack([flag]), tmp_path / "in")
    Image.fromarray(flag.transpose(1, 0, 2)).save(folder / "upright.png")
    shards = make(folder, tmp_path / "out", tokenizer="patches:1:5", size=5)
    assert np.abs(images_of(shards).astype(int) - (0, 200, 0)).max() < 20  # at the edge the neighbours shine in


def test_an_image_is_smoothed_as_it_shrinks(tmp_path):
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    shards = make(save(board[None], tmp_path / "in"), tmp_path / "out", size=8)
    inside = images_of(shards)[0, 1:-1, 1:-1]
    assert np.abs(inside.astype(int) - 127).max() <= 2


def test_colours_that_are_stored_otherwise_are_read_as_they_look(tmp_path):
    (tmp_path / "in").mkdir()
    clear = np.zeros((2, 4, 4), dtype=np.uint8)
    clear[1, :, :2] = 255
    Image.merge("LA", [Image.fromarray(layer) for layer in clear]).save(tmp_path / "in" / "a-clear.png")
    Image.fromarray(np.full((4, 4), 128 * 257, dtype=np.uint16)).save(tmp_path / "in" / "b-deep.png")
    Image.fromarray(np.full((4, 4, 3), (90, 90, 90), dtype=np.uint8)).quantize(4).save(tmp_path / "in" / "c-palette.png")
    lying = Image.fromarray(np.array([[0] * 4] * 2 + [[255] * 4] * 2, dtype=np.uint8))
    turned = lying.getexif()
    turned[0x0112] = 8  # the top is at the right
    lying.save(tmp_path / "in" / "d-turned.png", exif=turned)
    clear, deep, palette, upright = images_of(make(tmp_path / "in", tmp_path / "out"))
    assert clear.tolist() == [[0, 0, 255, 255]] * 4
    assert deep.tolist() == [[128] * 4] * 4
    assert palette.tolist() == [[90] * 4] * 4
    assert upright.tolist() == [[0, 0, 255, 255]] * 4


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_usual_formats_are_read(tmp_path, suffix):
    images = np.repeat(np.linspace(20, 230, 6, dtype=np.uint8)[:, None, None, None], 3, 3) * np.ones((1, 16, 16, 1), np.uint8)
    shards = make(save(images, tmp_path / "in", suffix), tmp_path / "out", tokenizer="patches:6:8")
    assert np.abs(images_of(shards).astype(int) - images).max() <= 4


def test_validation_is_by_image(tmp_path):
    images = noise(100)
    shards = make(save(images, tmp_path / "in"), tmp_path / "out", valid=0.1)
    train, valid = (images_of(shards, split) for split in ("train", "valid"))
    assert (len(train), len(valid)) == (90, 10)
    assert {image.tobytes() for image in [*train, *valid]} == {image.tobytes() for image in images}


def test_work_cut_off_after_any_batch_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    source = save(noise(60, (8, 8, 3)), tmp_path / "in")
    options = {"tokenizer": "patches:16:4", "valid": 0.2, "shard_tokens": 40}
    make(source, tmp_path / "straight", **options)
    monkeypatch.setattr(job_module, "SAVE_EVERY", -1.0)
    monkeypatch.setattr(job_module, "BATCH", 1000)
    make(source, tmp_path / "batches", **options)
    take, cuts = job_module.Job.take, 0

    def cut_off(job, *batch):
        raise KeyboardInterrupt

    def one_more(job, *batch):
        take(job, *batch)
        monkeypatch.setattr(job_module.Job, "take", cut_off)

    while not (tmp_path / "out").exists():
        monkeypatch.setattr(job_module.Job, "take", one_more)
        try:
            make(source, tmp_path / "out", **options)
        except KeyboardInterrupt:
            cuts += 1
    assert cuts > 5
    assert files_of(tmp_path / "out") == files_of(tmp_path / "straight") == files_of(tmp_path / "batches")


def test_an_image_that_changed_meanwhile_is_noticed(tmp_path, monkeypatch):
    source = save(noise(4), tmp_path / "in")
    with monkeypatch.context() as patch:
        patch.setattr(job_module.Job, "finish", lambda job: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            make(source, tmp_path / "out")
    Image.fromarray(noise(1, seed=5)[0]).save(source / "0002.png")
    with refused("another choice of sources"):
        make(source, tmp_path / "out")
    with refused("another choice of size|another choice of sources, .*size"):
        make(source, tmp_path / "out", size=8)


def test_the_same_images_give_the_same_bytes_wherever_they_lie(tmp_path):
    for place in ("here", "there"):
        save(noise(20), tmp_path / place / "in")
        make(tmp_path / place / "in", tmp_path / place / "out", tokenizer="patches:8", grey=True)
    assert files_of(tmp_path / "here" / "out") == files_of(tmp_path / "there" / "out")


def test_a_codec_that_was_changed_is_named(tmp_path):
    make(save(noise(20), tmp_path / "in"), tmp_path / "out", tokenizer="patches:8")
    codec = tmp_path / "out" / "codec.safetensors"
    content = codec.read_bytes()
    codec.write_bytes(content[:-1] + b"x")
    with refused("codec.safetensors are not what was prepared"):
        open_shards(tmp_path / "out")
    codec.unlink()
    with refused("codec.safetensors is missing"):
        open_shards(tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"no image at all", "half"])
def test_a_broken_image_is_named_and_leaves_nothing(tmp_path, content):
    source = save(noise(6), tmp_path / "in")
    broken = source / "0003.png"
    broken.write_bytes(broken.read_bytes()[:70] if content == "half" else content)
    for tokenizer in ("pixels", "patches:4"):
        with refused(f"{broken} is damaged, cut short, or not an image"):
            make(source, tmp_path / "out", tokenizer=tokenizer)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_mistakes_with_images_are_one_sentence_and_leave_nothing(tmp_path):
    source = save(noise(6), tmp_path / "in")
    mixed = save(noise(2), tmp_path / "mixed")
    Image.fromarray(noise(1, (4, 8))[0]).save(mixed / "0001.png")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("words")
    for about, folder, options in [
        ("in holds images; name a tokenizer of images", source, {"tokenizer": "char"}),
        ("0000.png is an image; name a tokenizer of images", source / "0000.png", {"tokenizer": "bytes"}),
        ("texts holds no images", tmp_path / "texts", {}),
        ("a.txt is no image", tmp_path / "texts" / "a.txt", {}),
        ("there is no file or folder", tmp_path / "none", {}),
        ("0001.png has 8×4 pixels, the first image 8×8; give a size", mixed, {}),
        ("patches of side 3 do not tile images of 8×8", source, {"tokenizer": "patches:4:3"}),
        ("rows of 64 tokens, not 32", source, {"length": 32}),
        ("only for .npy", source, {"vocab": 9}),
        ("size of an image must be at least 1", source, {"size": 0}),
        ("only 1 different patches", save(np.zeros((3, 8, 8), np.uint8), tmp_path / "black"), {"tokenizer": "patches:4"}),
        ("between 2 and 256 levels, not 300", source, {"tokenizer": "pixels:300"}),
        ("a size and grey are for images", tmp_path / "texts", {"tokenizer": "char", "size": 8}),
        ("pixels:LEVELS or patches:CODES:SIDE", source, {"tokenizer": "patches"}),
        ("pixels:LEVELS or patches:CODES:SIDE", source, {"tokenizer": "patches:many"}),
        ("pixels:LEVELS or patches:CODES:SIDE", source, {"tokenizer": "pixels:4:2"}),
    ]:
        with refused(about):
            make(folder, tmp_path / "out", **options)
    assert not list(tmp_path.glob("out*"))


def test_the_words_for_image_codecs():
    assert ImageSpec.read("pixels") == ImageSpec(PixelCodec.kind, 256)
    assert ImageSpec.read("pixels:16") == ImageSpec(PixelCodec.kind, 16)
    assert ImageSpec.read("patches:512") == ImageSpec(PatchCodec.kind, 512, 2)
    assert ImageSpec.read("patches:512:8") == ImageSpec(PatchCodec.kind, 512, 8)
    assert ImageSpec.read("bpe:512") is None


MEMORY = """
import re, sys
from pathlib import Path
from glauber.data import prepare

def peak():  # in KiB; what getrusage says includes that of the process which started this one
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

folder = Path(sys.argv[1])
shards = prepare([folder / "in"], folder / "out", "patches:16:16", progress=False)
print(peak(), len(shards.rows("train")))
"""


def test_memory_stays_below_a_gibibyte_whatever_the_number_of_images(tmp_path):
    first = save(noise(1, (512, 512, 3)), tmp_path / "in", ".bmp") / "0000.bmp"
    for k in range(1, 400):  # 300 MB of pixels under 400 names
        os.link(first, tmp_path / "in" / f"{k:04d}.bmp")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    most, rows = map(int, done.stdout.split())
    assert rows == 396
    assert most < 800 * 1024  # in KiB


def test_a_folder_of_images_becomes_a_model_that_makes_images(tmp_path):
    save(load_digits().train[:200], tmp_path / "digits")

    def call(*words: object) -> str:
        done = commands.glauber(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    data, run, out = (tmp_path / name for name in ("data", "run", "out"))
    assert "of 16 tokens" in call("prepare", tmp_path / "digits", "--out", data, "--tokenizer", "patches:32", "--grey")
    call("train", "--recipe", "tiny", "--data", data, "--out", run, "--set", "train.steps=5", "--set", "train.batch=4")
    call("sample", run, "-n", 3, "--seed", 0, "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["0000.png", "0001.png", "0002.png", "sheet.png"]
    with Image.open(out / "0001.png") as image:
        assert (image.mode, image.size) == ("L", (8, 8))
    model = glauber.load(run)
    assert np.array_equal(model.codec.centres, open_shards(data).codec.centres)
    assert json.loads((run / "config.json").read_text())["data"] == open_shards(data).hash
