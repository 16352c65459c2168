"""VQ codecs: diffusers' VQModel as tokens, with weights that are made here, on real images; and training one."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from diffusers import VQModel
from PIL import Image
from refusals import refused
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_sample_images

import glauber
from glauber.codec import VQCodec, codec_from_dict
from glauber.codec import vq as vq_module
from glauber.codec.perceptual import CONVOLUTIONS, Perceptual
from glauber.codec.vq import CONFIG, WEIGHTS
from glauber.data import job as job_module
from glauber.data import open_shards, prepare
from glauber.train.codec import sheet, train_codec
from glauber.train.vq import VQSettings, VQTrainer

TINY = {
    "block_out_channels": (8, 16, 16),
    "down_block_types": ("DownEncoderBlock2D",) * 3,
    "up_block_types": ("UpDecoderBlock2D",) * 3,
    "latent_channels": 4,
    "num_vq_embeddings": 32,
    "norm_num_groups": 4,
}
SMALL = VQSettings(codes=16, factor=4, width=8, steps=6, batch=4)


def photos(count: int = 12, side: int = 16) -> np.ndarray:
    """Squares of scikit-learn's two photographs: uint8 (count, side, side, 3)."""
    draws, pictures = np.random.default_rng(0), load_sample_images().images
    corners = [(draws.integers(0, 427 - 2 * side), draws.integers(0, 640 - 2 * side)) for _ in range(count)]
    cut = [pictures[k % 2][r : r + 2 * side : 2, c : c + 2 * side : 2] for k, (r, c) in enumerate(corners)]
    return np.stack(cut)


def folder_of(images: np.ndarray, folder: Path) -> Path:
    folder.mkdir()
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k:04d}.png")
    return folder


def theirs(seed: int = 0, **changes) -> VQModel:
    """A VQModel of diffusers with random weights and codes that are spread like its features."""
    torch.manual_seed(seed)
    network = VQModel(**{**TINY, **changes}).eval()
    with torch.no_grad():
        channels = network.config.in_channels
        features = network.encode(torch.rand(8, channels, 16, 16) * 2 - 1).latents.permute(0, 2, 3, 1).flatten(0, 2)
        network.quantize.embedding.weight.copy_(features[torch.randperm(len(features))[: network.config.num_vq_embeddings]])
    return network


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A folder that diffusers wrote; its config does not ask for ids to be looked up."""
    folder = tmp_path_factory.mktemp("vq") / "codec"
    theirs().save_pretrained(folder)
    return folder


def signal_of(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def pixels_of(signal: torch.Tensor) -> np.ndarray:
    return ((signal + 1) * 127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()


@torch.no_grad()
def test_tokens_are_the_indices_of_diffusers_own_encoder_and_quantiser(saved):
    images, network = photos(), VQModel.from_pretrained(saved)
    latents = network.encode(signal_of(images)).latents
    indices = network.quantize(latents)[2][2].view(len(images), -1)
    codec = VQCodec.load(saved, 16)
    assert (codec.vocab, codec.grid, codec.shape) == (32, (4, 4), (16, 16, 3))
    tokens = codec.encode(images)
    assert torch.equal(tokens, indices)
    assert len(tokens.unique()) > 5
    # The nearest code in double precision, one by one; random weights may leave ties of rounding, so distances are compared.
    book = network.quantize.embedding.weight.double()
    features = latents.permute(0, 2, 3, 1).flatten(0, 2).double()
    distance = (features[:, None] - book).square().sum(-1)
    assert torch.allclose(distance.gather(1, tokens.view(-1, 1))[:, 0], distance.min(1).values, rtol=1e-3, atol=1e-6)


@torch.no_grad()
def test_decoding_ids_equals_decoding_the_quantised_latents(saved):
    network, codec = VQModel.from_pretrained(saved), VQCodec.load(saved, 16)
    tokens = torch.randint(32, (5, 16), generator=torch.Generator().manual_seed(0))
    quantised = network.quantize.embedding.weight[tokens].view(5, 4, 4, 4).permute(0, 3, 1, 2).contiguous()
    made = codec.decode(tokens)
    assert made.dtype == np.uint8
    assert np.array_equal(made, pixels_of(network.decode(quantised, force_not_quantize=True).sample))
    # What diffusers makes of an image in one go; it writes a code as z + (code - z), which is rounded.
    images = photos()
    whole = pixels_of(network(signal_of(images)).sample)
    assert np.abs(codec.decode(codec.encode(images)).astype(int) - whole).max() <= 1


def test_the_number_of_images_at_once_changes_nothing(saved, monkeypatch):
    images, whole = photos(), VQCodec.load(saved, 16)
    tokens = whole.encode(images)
    monkeypatch.setattr(vq_module, "PIXELS", 5 * 256)
    parts = VQCodec.load(saved, 16)
    assert torch.equal(parts.encode(images), tokens)
    assert np.abs(parts.decode(tokens).astype(int) - whole.decode(tokens)).max() <= 1
    assert parts.encode(images[:0]).shape == (0, 16)
    assert parts.decode(tokens[:0]).shape == (0, 16, 16, 3)


def test_images_need_not_be_square_and_may_be_grey(tmp_path):
    network = theirs(in_channels=1, out_channels=1)
    codec = VQCodec({**TINY, "in_channels": 1, "out_channels": 1}, network.state_dict(), (8, 24))
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 24), dtype=np.uint8)
    assert codec.grid == (2, 6)
    assert codec.decode(codec.encode(images)).shape == images.shape


def test_weights_in_half_precision_and_with_older_names_are_read(saved, tmp_path):
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    shutil.copytree(saved, tmp_path / "old")
    weights = load_file(saved / WEIGHTS)
    for new, name in old.items():
        weights = {key.replace(f".{new}.", f".{name}."): tensor.half() for key, tensor in weights.items()}
    assert any(".proj_attn." in name for name in weights)
    save_file(weights, tmp_path / "old" / WEIGHTS)
    halves = VQCodec.load(tmp_path / "old", 16)
    assert all(tensor.dtype == torch.float16 for tensor in halves.tensors().values())
    agree = halves.encode(photos()) == VQCodec.load(saved, 16).encode(photos())
    assert agree.float().mean() > 0.9


def test_a_codec_is_saved_with_the_model_and_needs_nothing_else(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "codec")
    codec = VQCodec.load(tmp_path / "codec", 16)
    shutil.rmtree(tmp_path / "codec")
    again = codec_from_dict(json.loads(json.dumps(codec.to_dict())), codec.tensors())
    assert torch.equal(again.encode(photos()), codec.encode(photos()))
    process = glauber.Process(glauber.Schedule.round_robin(16, 32, "linear"), glauber.NoiseLaw.uniform(32))
    network = glauber.Transformer(glauber.TransformerConfig(32, 16, width=8, layers=1, heads=2))
    model = glauber.Model(network, process, codec)
    pictures = model.sample(2, seed=0)
    model.save(tmp_path / "model")
    loaded = glauber.load(tmp_path / "model")
    assert torch.equal(loaded.codec.encode(photos()), codec.encode(photos()))
    for name, tensor in codec.tensors().items():
        assert torch.equal(loaded.codec.tensors()[name], tensor)
    for one, other in zip(pictures, loaded.sample(2, seed=0), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))


def test_prepare_encodes_a_folder_of_images_and_keeps_the_codec(saved, tmp_path):
    images, codec = photos(), VQCodec.load(saved, 16)
    folder = folder_of(images, tmp_path / "photos")
    shards = prepare([folder], tmp_path / "data", f"vq:{saved}", valid=0, progress=False)
    assert (shards.length, shards.vocab, shards.codec.grid) == (16, 32, (4, 4))
    assert np.array_equal(shards.rows("train")[:], codec.encode(images).numpy())
    kept = open_shards(tmp_path / "data")
    kept.verify()
    assert np.array_equal(kept.codec.decode(torch.from_numpy(kept.rows("train")[:])), codec.decode(codec.encode(images)))
    moved = shutil.copytree(saved, tmp_path / "moved")
    assert prepare([folder], tmp_path / "same", f"vq:{moved}", valid=0, progress=False).hash == shards.hash
    theirs(seed=1).save_pretrained(tmp_path / "other")
    assert prepare([folder], tmp_path / "else", f"vq:{tmp_path / 'other'}", valid=0, progress=False).hash != shards.hash


def test_unfinished_data_is_not_continued_with_another_codec(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(job_module, "BATCH", 1)
    folder = folder_of(photos(30), tmp_path / "photos")
    (folder / "zz.png").write_bytes(b"no image")
    options = {"valid": 0, "shard_tokens": 16, "progress": False}
    with refused("zz.png"):
        prepare([folder], tmp_path / "data", f"vq:{saved}", **options)
    assert (tmp_path / "data.unfinished").exists()
    theirs(seed=1).save_pretrained(tmp_path / "other")
    with refused("another choice of tokenizer"):
        prepare([folder], tmp_path / "data", f"vq:{tmp_path / 'other'}", **options)
    with refused("zz.png"):  # and the same one, wherever it lies, goes on
        prepare([folder], tmp_path / "data", f"vq:{shutil.copytree(saved, tmp_path / 'moved')}", **options)


def broken(saved: Path, folder: Path, how: str) -> Path:
    shutil.copytree(saved, folder)
    config = json.loads((folder / CONFIG).read_text())
    if how == "no-weights":
        (folder / WEIGHTS).unlink()
    elif how == "pickled":
        (folder / WEIGHTS).unlink()
        torch.save(theirs().state_dict(), folder / "diffusion_pytorch_model.bin")
    elif how == "cut":
        (folder / WEIGHTS).write_bytes((saved / WEIGHTS).read_bytes()[:-100])
    elif how == "not-json":
        (folder / CONFIG).write_text("{")
    elif how == "a-list":
        (folder / CONFIG).write_text("[1]")
    elif how == "another-kind":
        (folder / CONFIG).write_text(json.dumps(config | {"_class_name": "AutoencoderKL"}))
    elif how == "other-size":
        (folder / CONFIG).write_text(json.dumps(config | {"layers_per_block": 2}))
    elif how == "unknown-setting":
        (folder / CONFIG).write_text(json.dumps(config | {"colour": "blue"}))
    elif how == "no-blocks":
        (folder / CONFIG).write_text(json.dumps(config | {"block_out_channels": 8}))
    elif how == "codes-in-words":
        (folder / CONFIG).write_text(json.dumps(config | {"num_vq_embeddings": "many"}))
    elif how == "four-channels":
        (folder / CONFIG).write_text(json.dumps(config | {"in_channels": 4}))
    elif how == "not-finite":
        weights = load_file(saved / WEIGHTS)
        weights["quant_conv.bias"][0] = torch.nan
        save_file(weights, folder / WEIGHTS)
    return folder


@pytest.mark.parametrize(
    ("how", "about"),
    [
        ("no-weights", WEIGHTS),
        ("pickled", WEIGHTS),
        ("cut", "cut short"),
        ("not-json", "damaged"),
        ("a-list", "damaged"),
        ("another-kind", "AutoencoderKL"),
        ("other-size", "do not fit"),
        ("unknown-setting", "do not fit"),
        ("no-blocks", "list of numbers"),
        ("codes-in-words", "whole number"),
        ("four-channels", "1 or 3 channels"),
        ("not-finite", "finite"),
    ],
)
def test_a_folder_that_is_no_codec_is_refused(saved, tmp_path, how, about):
    folder = broken(saved, tmp_path / "codec", how)
    with refused(about):
        VQCodec.load(folder, 16).encode(photos(1))


def test_names_that_lead_nowhere_and_images_that_do_not_fit_are_refused(saved, tmp_path):
    for name in ("nothing", "./nothing/here", "", "a/b/c/d"):
        with refused("config.json"):
            VQCodec.load(tmp_path / name if name == "nothing" else name or "vq", 16)
    with refused("multiple of 4"):
        VQCodec.load(saved, 18)
    codec = VQCodec.load(saved, 16)
    with refused("colour images"):
        VQCodec(codec.network, codec.weights, (16, 16))
    with refused("expected uint8 images"):
        codec.encode(photos(2, side=8))
    with refused("expected tokens"):
        codec.decode(torch.zeros(1, 15, dtype=torch.int64))
    with refused("0..31"):
        codec.decode(torch.full((1, 16), 32))
    folder = folder_of(photos(3, side=9), tmp_path / "photos")
    with refused("multiple of 4"):
        prepare([folder], tmp_path / "data", f"vq:{saved}", progress=False)
    with refused("colour images"):
        prepare([folder], tmp_path / "data", f"vq:{saved}", size=8, grey=True, progress=False)
    with refused("vq:CODEC"):
        prepare([folder], tmp_path / "data", "vq", progress=False)
    assert not list(tmp_path.glob("data*"))


def test_without_diffusers_the_extra_is_named_and_data_can_still_be_opened(saved, monkeypatch):
    codec = VQCodec.load(saved, 16)
    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert codec_from_dict(codec.to_dict(), codec.tensors()).vocab == 32
    with pytest.raises(ImportError, match=r"glauber\[image\]"):
        codec.encode(photos(1))


# Training.


def files_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def quietly(source: Path, out: Path, settings: VQSettings = SMALL, **options):
    return train_codec([source], out, settings, **{"size": 16, "every": 3, "progress": False, **options})


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return folder_of(photos(60), tmp_path_factory.mktemp("photos") / "in")


def test_training_brings_real_images_back_better_and_diffusers_reads_the_result(tmp_path, source):
    start = quietly(source, tmp_path / "start", VQSettings(codes=16, factor=2, width=16, steps=1, batch=8))
    end = quietly(source, tmp_path / "end", VQSettings(codes=16, factor=2, width=16, steps=80, batch=8), every=40)
    assert (end.done, end.report["step"], end.report["images"], end.report["held_out"]) == (True, 80, 60, 3)
    assert end.report["psnr"] > start.report["psnr"] + 2  # of held-out images: their squared error falls by a third and more
    assert end.report["codes"] > 8
    images, codec = photos(8), VQCodec.load(tmp_path / "end", 16)
    network = VQModel.from_pretrained(tmp_path / "end").eval()
    with torch.no_grad():
        wanted = network.quantize(network.encode(signal_of(images)).latents)[2][2].view(8, -1)
    assert torch.equal(codec.encode(images), wanted)
    log = [json.loads(line) for line in (tmp_path / "end" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [40, 80]
    with Image.open(tmp_path / "end" / "reconstructions-000080.png") as picture:
        assert picture.size == (3 * 16, 2 * 16)
    assert not (tmp_path / "end" / "images.tmp").exists()


@pytest.mark.parametrize("adversarial", [False, True])
def test_training_that_was_cut_off_ends_in_the_same_codec(adversarial):
    settings = VQSettings(codes=16, factor=4, width=8, steps=4, batch=2, adversarial=adversarial)
    trainers = [VQTrainer(settings, (16, 16, 3)) for _ in range(3)]
    images = photos(20)
    for _ in range(4):
        trainers[0].train_step(images)
    for _ in range(2):
        trainers[1].train_step(images)
    trainers[2].load_state(trainers[1].state(), trainers[1].step)
    for _ in range(2):
        trainers[2].train_step(images)
    wanted, found = trainers[0].state(), trainers[2].state()
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


def test_ctrl_c_keeps_what_there_is_and_resume_goes_on(tmp_path, source):
    out, log = tmp_path / "codec", tmp_path / "codec" / "log.jsonl"
    words = ["codec", "train", source, "--out", out, "--size", 16, "--codes", 16, "--factor", 4, "--width", 8, "--batch", 4]
    command = [sys.executable, "-m", "glauber", *map(str, [*words, "--every", 5, "--steps", 100_000])]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        deadline = time.monotonic() + 200
        while not log.exists() and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=100)
    finally:
        running.kill()
    step = json.loads(log.read_text().splitlines()[-1])["step"]
    assert running.returncode == 0
    assert f"stopped at step {step}" in said
    assert VQCodec.load(out, 16).encode(photos(2)).shape == (2, 16)
    assert not (out / "images.tmp").exists()
    settings = VQSettings(codes=16, factor=4, width=8, batch=4, steps=step + 2)
    assert quietly(source, out, settings, resume=True).report["step"] == step + 2
    steps = [json.loads(line)["step"] for line in log.read_text().splitlines()]
    assert steps[-1] == step + 2
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("what", ["loss", "weights"])
def test_a_loss_or_a_weight_that_is_not_finite_ends_training_and_a_lower_rate_goes_on_from_before(
    what, tmp_path, source, monkeypatch
):
    step = VQTrainer.train_step

    def broken(trainer: VQTrainer, images: np.ndarray) -> dict[str, torch.Tensor]:
        parts = step(trainer, images)
        if trainer.step < 5:
            return parts
        if what == "weights":
            with torch.no_grad():
                trainer.network.decoder.conv_out.bias.fill_(torch.inf)
        return parts if what == "weights" else parts | {"l1": torch.tensor(torch.nan)}

    out = tmp_path / "codec"
    with monkeypatch.context() as patch:
        patch.setattr(VQTrainer, "train_step", broken)
        with refused(
            r"is not finite after step [56] of the codec; go on from step 3 with --resume and a lower rate, .*--lr 0.0001"
        ):
            quietly(source, out)
    assert all(bool(tensor.isfinite().all()) for tensor in load_file(out / "training.safetensors").values())
    slower = VQSettings(codes=16, factor=4, width=8, steps=6, batch=4, lr=1e-4)
    assert quietly(source, out, slower, resume=True).done
    assert [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()] == [3, 6]


def test_going_on_needs_the_same_settings_and_images(tmp_path, source):
    out = tmp_path / "codec"
    with refused("no training.safetensors"):
        quietly(source, out, resume=True)
    assert not out.exists()
    quietly(source, out)
    before = files_of(out)
    with refused("another choice of codes"):
        quietly(source, out, VQSettings(codes=8, factor=4, width=8, steps=6, batch=4), resume=True)
    with refused("another choice of size"):
        quietly(source, out, resume=True, size=32)
    with refused("another choice of images"):
        quietly(folder_of(photos(30), tmp_path / "fewer"), out, resume=True)
    (out / "training.safetensors").write_bytes(b"cut")
    with refused("damaged"):
        quietly(source, out, resume=True)
    del before["training.safetensors"]
    assert {name: digest for name, digest in files_of(out).items() if name != "training.safetensors"} == before


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"codes": 1}, "at least 2 codes"),
        ({"factor": 6}, "power of two"),
        ({"factor": 0}, "power of two"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"lr": 0.0}, "learning rate"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, about):
    with refused(about):
        VQSettings(**options)


def test_images_that_cannot_be_trained_on_are_refused_and_leave_nothing(tmp_path, source):
    (tmp_path / "empty").mkdir()
    with refused("holds no images"):
        quietly(tmp_path / "empty", tmp_path / "out")
    with refused("multiple of 4"):
        quietly(source, tmp_path / "out", size=18)
    assert not (tmp_path / "out").exists()
    bad = folder_of(photos(2), tmp_path / "bad")
    (bad / "zz.png").write_bytes(b"no image")
    with refused("zz.png"):
        quietly(bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_a_folder_that_holds_something(tmp_path, source):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    done = commands.glauber("codec", "train", source, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_codes_move_to_the_mean_of_what_they_stand_for_and_start_anew_where_that_is_nothing():
    trainer = VQTrainer(VQSettings(codes=3, factor=4, width=8, dim=2, steps=2000, batch=4), (16, 16, 3))
    g = torch.Generator().manual_seed(0)
    for centres in (
        torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]),
        torch.tensor([[0.0, 0.0], [0.0, 10.0], [90.0, 90.0]]),
    ):
        for _ in range(300):
            nearest = trainer._learn_codes(centres.repeat(50, 1) + 0.1 * torch.randn(150, 2, generator=g), g)
            trainer.step += 1
        assert torch.cdist(centres, trainer.codes).min(1).values.max() < 0.1
        assert nearest.bincount().tolist() == [50, 50, 50]
    trainer.uses.zero_()  # all are dead
    trainer.codes.fill_(1000.0)
    trainer._learn_codes(centres.repeat(50, 1), g)
    assert torch.cdist(trainer.codes, centres).min(1).values.max() < 0.1


def test_the_loss_of_a_step_is_the_reconstruction_and_a_quarter_of_the_commitment(monkeypatch):
    trainer = VQTrainer(VQSettings(codes=3, factor=4, width=8, dim=2, steps=20, batch=4), (16, 16, 3))
    seen, descend = [], trainer._descend
    monkeypatch.setattr(trainer, "_descend", lambda kind, loss: (seen.append((kind, loss.item())), descend(kind, loss)))
    parts = trainer.train_step(np.random.default_rng(0).integers(256, size=(8, 16, 16, 3), dtype=np.uint8))
    assert seen == [("network", pytest.approx((parts["l1"] + 0.25 * parts["commitment"]).item(), rel=1e-6))]
    assert parts["commitment"] > 1e-3 * parts["l1"]


def test_a_sheet_shows_each_row_above_what_came_back():
    images = np.arange(16 * 2 * 3 * 3, dtype=np.uint8).reshape(16, 2, 3, 3)
    made = sheet(images, 255 - images)
    assert made.shape == (4 * 2, 8 * 3, 3)
    for k in range(16):
        top, left = k // 8 * 4, k % 8 * 3
        assert np.array_equal(made[top : top + 2, left : left + 3], images[k])
        assert np.array_equal(made[top + 2 : top + 4, left : left + 3], 255 - images[k])


def vgg_weights() -> dict[str, torch.Tensor]:
    """Random ones, under the names and in the shapes that the package's file has."""
    g, found, channels = torch.Generator().manual_seed(0), {}, 3
    found["scaling_layer.shift"], found["scaling_layer.scale"] = torch.zeros(1, 3, 1, 1), torch.full((1, 3, 1, 1), 0.5)
    for stage, (places, wide) in enumerate(zip(CONVOLUTIONS, (4, 8, 8, 8, 8), strict=True)):
        if stage:
            blur = torch.tensor([1.0, 2.0, 1.0]) / 4
            found[f"net.slice{stage + 1}.{places[0] - 1}.filt"] = torch.outer(blur, blur).expand(channels, 1, 3, 3).clone()
        for place in places:
            found[f"net.slice{stage + 1}.{place}.weight"] = torch.randn(wide, channels, 3, 3, generator=g) / 4
            found[f"net.slice{stage + 1}.{place}.bias"], channels = torch.zeros(wide), wide
        found[f"lin{stage}.model.1.weight"] = torch.rand(1, wide, 1, 1, generator=g)
    return found


def test_the_perceptual_distance_is_zero_for_the_same_image_grows_with_the_change_and_has_a_gradient():
    distance, images = Perceptual(vgg_weights()), signal_of(photos(4, side=32))
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    assert distance(images, images).tolist() == [0.0] * 4
    little, much = distance(images, images + 0.05 * noise), distance(images, images + 0.5 * noise)
    assert (little > 0).all()
    assert (little < much).all()
    assert torch.allclose(distance(images + 0.5 * noise, images), much)
    changed = (images + 0.1 * noise).requires_grad_()
    distance(changed, images).sum().backward()
    assert changed.grad.isfinite().all()
    assert changed.grad.abs().max() > 0
    assert distance(images[:, :1], images[:, 1:2]).shape == (4,)


def test_the_perceptual_loss_reads_the_installed_weights_or_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stlpips_pytorch", None)
    with pytest.raises(ImportError, match="stlpips-pytorch"):
        VQTrainer(VQSettings(codes=4, factor=4, width=8, perceptual=True), (16, 16, 3))
    monkeypatch.delitem(sys.modules, "stlpips_pytorch")
    package = tmp_path / "stlpips_pytorch"
    (package / "weights" / "vST0.0").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('its code was run')")
    torch.save(vgg_weights(), package / "weights" / "vST0.0" / "vgg_shift_tolerant.pth")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = VQSettings(codes=16, factor=4, width=8, batch=4, perceptual=True, adversarial=True, steps=4)
    trainer, images = VQTrainer(settings, (32, 32, 3)), photos(4, side=32)
    parts = [trainer.train_step(images) for _ in range(2)]
    assert parts[0].keys() == {"l1", "commitment", "perceptual"}
    assert parts[1].keys() == {"l1", "commitment", "perceptual", "adversarial", "critic"}  # it joins after a quarter
    assert all(bool(part.isfinite()) for part in parts[1].values())
