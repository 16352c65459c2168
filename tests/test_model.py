"""What a user holds: saving, loading, sampling, inpainting, and refusing what is damaged."""

import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

import glauber
from glauber import Model, NoiseLaw, PatchCodec, PixelCodec, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import codec_from_dict

V, L = 16, 16


def network(vocab: int = V, length: int = L, conditioning: str = "survival", grid=(4, 4), seed: int = 0) -> Transformer:
    net = Transformer(
        TransformerConfig(vocab, length, width=16, layers=1, heads=2, conditioning=conditioning, grid=grid, cond_dim=8)
    )
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=g)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.3 * noise)
    return net


def restless_law(vocab: int = V) -> NoiseLaw:
    """A law whose sum is not quite 1 in float64, so that normalising it once more would change it."""
    for seed in range(1000):
        law = NoiseLaw.unigram(torch.rand(vocab, generator=torch.Generator().manual_seed(seed)), smoothing=0.1)
        if not torch.equal(law.probs / law.probs.sum(), law.probs):
            return law
    raise AssertionError("no such law found")


def patches(seed: int = 0) -> PatchCodec:
    return PatchCodec(torch.rand(V, 4, generator=torch.Generator().manual_seed(seed)) * 255, 2, (8, 8))


def model(seed: int = 0, **changes: Any) -> Model:
    """Patches of 8×8 images, two sweeps in a scrambled order."""
    order = torch.randperm(L, generator=torch.Generator().manual_seed(100 + seed))
    schedule = Schedule.round_robin(L, 2 * L, [0.7, 1 / 3], order=order)
    settings = {"sampling": {"top_p": 0.9}, "about": {"data": "none", "steps": 3}} | changes
    return Model(network(seed=seed), Process(schedule, restless_law()), patches(seed), **settings)


def classifier() -> Model:
    process = Process(Schedule.round_robin(L, 2 * L, 0.5), restless_law())
    return Model(network(conditioning="time"), process, patches(), method="ggm-binary")


def image(seed: int = 0, shape: tuple[int, ...] = (8, 8)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same(one: Model, other: Model) -> None:
    """The same tensors, config and seeded samples."""
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name
    assert json.dumps(one.config()) == json.dumps(other.config())
    assert torch.equal(one.process.noise.probs, other.process.noise.probs)
    assert torch.equal(one.process.schedule.keep, other.process.schedule.keep)
    assert torch.equal(one.process.schedule.order, other.process.schedule.order)
    assert torch.equal(one.sample_tokens(3, seed=7), other.sample_tokens(3, seed=7))
    assert one.sample(2, seed=8) == other.sample(2, seed=8)


def without_codec() -> Model:
    process = Process(Schedule.round_robin(6, 12, "linear", order="left-to-right", block=3), NoiseLaw.uniform(5))
    return Model(network(5, 6, grid=None), process)


def with_pixels() -> Model:
    process = Process(Schedule.round_robin(12, 24, torch.linspace(0.9, 0, 24), order="strided", block=2), NoiseLaw.uniform(4))
    return Model(network(4, 12, grid=(3, 4)), process, PixelCodec((3, 4), 4), sampling={"kernel": "reversal"})


MODELS = [model, without_codec, with_pixels, classifier]


# Saving and loading


@pytest.mark.parametrize("make", MODELS)
def test_a_model_comes_back_from_its_folder_with_the_same_tensors_config_and_samples(make, tmp_path):
    before = make()
    assert before.save(tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    after = glauber.load(tmp_path / "new" / "folder")
    assert_same(before, after)
    assert not after.training
    assert_same(before, glauber.load(str(tmp_path / "new" / "folder")))
    assert sorted(files(tmp_path / "new" / "folder")) == ["config.json", "model.safetensors"]


def test_what_is_saved_says_which_schedule_it_was_trained_on_and_which_it_samples_by(tmp_path):
    trained = Schedule.round_robin(L, 4 * L, "linear", order="left-to-right")
    before = model(trained=trained)
    said = json.loads((before.save(tmp_path / "model") / "config.json").read_text())
    assert said["trained_schedule"] == trained.to_dict() != said["schedule"]
    after = glauber.load(tmp_path / "model")
    assert_same(before, after)
    assert after.trained.to_dict() == trained.to_dict()
    assert glauber.load(model().save(tmp_path / "other")).trained is None


def test_weights_that_lie_otherwise_in_memory_are_saved_as_they_are(tmp_path):
    before = model()
    weight = before.network.head.weight
    weight.data = weight.data.T.contiguous().T
    assert not weight.is_contiguous()
    assert_same(before, glauber.load(before.save(tmp_path / "model")))


def test_loading_and_saving_again_gives_the_same_bytes(tmp_path):
    model().save(tmp_path / "one")
    glauber.load(tmp_path / "one").save(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_the_noise_law_survives_the_round_trip_to_the_bit(tmp_path):
    before = model()
    probs = before.process.noise.probs.clone()
    assert not torch.equal(probs / probs.sum(), probs)  # one more normalisation would show
    before.save(tmp_path / "one")
    glauber.load(tmp_path / "one").save(tmp_path / "two")
    for folder in ("one", "two"):
        after = glauber.load(tmp_path / folder)
        assert after.noise.dtype == torch.float64
        assert torch.equal(after.noise, probs)
        assert torch.equal(after.process.noise.probs, probs)
        assert torch.equal(after.process.noise.cdf, probs.cumsum(0))


class OnHub(huggingface_hub.PyTorchModelHubMixin, Model):
    """What a user of the hub would write: a class made from the keys of config.json."""

    def __init__(self, format, method, network, schedule, trained_schedule, codec, sampling, about):
        net = Transformer(TransformerConfig(**network))
        process = Process(Schedule.round_robin(**schedule), NoiseLaw.uniform(network["vocab"]))
        blank = {"centres": torch.zeros(network["vocab"], 4)}
        super().__init__(net, process, None if codec is None else codec_from_dict(codec, blank), method, sampling, about)


@pytest.mark.parametrize("make", MODELS)
def test_the_folder_is_that_of_the_hubs_mixin(make, tmp_path):
    before = make()
    before.save(tmp_path / "ours")
    after = OnHub.from_pretrained(tmp_path / "ours", strict=True, local_files_only=True)
    assert_same(before, after)
    # And back: what the mixin writes is a folder of ours.
    after.save_pretrained(tmp_path / "theirs")
    assert_same(before, glauber.load(tmp_path / "theirs"))


def test_saving_over_a_model_is_refused_and_leaves_it_as_it_was(tmp_path):
    model(seed=0).save(tmp_path)
    before = files(tmp_path)
    with refused("holds a model already"):
        model(seed=1).save(tmp_path)
    assert files(tmp_path) == before
    (tmp_path / "config.json").unlink()
    with refused("holds a model already"):
        model(seed=1).save(tmp_path)
    assert files(tmp_path) == {"model.safetensors": before["model.safetensors"]}


def test_saving_over_a_model_replaces_it_when_asked(tmp_path):
    model(seed=0).save(tmp_path)
    model(seed=1).save(tmp_path, overwrite=True)
    assert_same(model(seed=1), glauber.load(tmp_path))


@pytest.mark.parametrize(
    "call",
    [
        0,
        1,
    ],
)
def test_an_interrupted_save_leaves_the_old_model_intact(call, tmp_path, monkeypatch):
    old = model(seed=0)
    old.save(tmp_path)
    before = files(tmp_path)
    calls = iter(range(10))

    def interrupted(descriptor):
        if next(calls) == call:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model(seed=1).save(tmp_path, overwrite=True)
    monkeypatch.undo()
    assert {name: files(tmp_path)[name] for name in before} == before
    assert_same(old, glauber.load(tmp_path))
    model(seed=1).save(tmp_path, overwrite=True)  # what the interruption left behind is no obstacle
    assert_same(model(seed=1), glauber.load(tmp_path))


def test_a_save_that_fails_leaves_the_old_model_intact(tmp_path):
    model(seed=0).save(tmp_path)
    before = files(tmp_path)
    with pytest.raises((ValueError, TypeError)):
        model(seed=1, about={"when": object()}).save(tmp_path, overwrite=True)
    assert files(tmp_path) == before


def test_a_model_in_bfloat16_comes_back_from_its_folder(tmp_path):
    before = model().bfloat16()
    before.save(tmp_path)
    after = glauber.load(tmp_path)
    assert torch.equal(after.process.noise.probs, model().process.noise.probs)


# Damaged folders


@pytest.fixture
def folder(tmp_path) -> Path:
    model().save(tmp_path)
    return tmp_path


def edit_config(folder: Path, *path: str, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    part = config
    for key in path:
        part = part[key]
    part.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def edit_tensors(folder: Path, drop: str | None = None, **put: Tensor) -> None:
    tensors = parse_tensors((folder / "model.safetensors").read_bytes())
    if drop is not None:
        del tensors[drop]
    (folder / "model.safetensors").write_bytes(pack_tensors(tensors | put))


NAMES = sorted(model().state_dict())


def test_a_folder_without_config_is_refused(folder):
    (folder / "config.json").unlink()
    with refused("no config.json"):
        glauber.load(folder)


def test_a_folder_without_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    with refused("model.safetensors is missing"):
        glauber.load(folder)


@pytest.mark.parametrize("name", ["nowhere", "/nowhere/at/all", "a/b/c"])
def test_a_name_that_is_nothing_is_refused(name):
    with refused("no model"):
        glauber.load(name)


def test_a_file_in_place_of_a_folder_is_refused(folder):
    with refused("no model"):
        glauber.load(folder / "config.json")


def test_a_weights_file_cut_short_anywhere_is_refused(folder):
    whole = (folder / "model.safetensors").read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        (folder / "model.safetensors").write_bytes(whole[:length])
        with refused("cut short"):
            glauber.load(folder)
    (folder / "model.safetensors").write_bytes(whole + b"\0")
    with refused("not a safetensors file"):
        glauber.load(folder)


class Bomb:
    """Unpickling this would leave a mark."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("kind", ["text", "zeros", "pickle", "torch", "folder"])
def test_a_weights_file_of_another_kind_is_refused_and_never_run(folder, kind):
    path, mark = folder / "model.safetensors", folder / "mark"
    path.unlink()
    if kind == "text":
        path.write_text("these are not the weights that you are looking for")
    elif kind == "zeros":
        path.write_bytes(bytes(1000))
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Bomb(mark)))
    elif kind == "torch":
        torch.save({"bomb": Bomb(mark), **model().state_dict()}, path)
    else:
        path.mkdir()
    with refused("is a folder; name a file" if kind == "folder" else "not a safetensors file"):
        glauber.load(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_lack_any_one_tensor_are_refused(folder, name):
    edit_tensors(folder, drop=name)
    with refused(name.removeprefix("codec_")):
        glauber.load(folder)


@pytest.mark.parametrize("name", ["network.blocks.1.out.weight", "extra", "codec_extra", "network.cos"])
def test_weights_with_an_unknown_tensor_are_refused(folder, name):
    edit_tensors(folder, **{name: torch.zeros(3)})
    with refused(f"unknown {name}"):
        glauber.load(folder)


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_another_shape_are_refused(folder, name):
    edit_tensors(folder, **{name: torch.full((3,), 1 / 3)})
    with refused():
        glauber.load(folder)


def test_weights_of_the_right_size_but_another_shape_are_refused(folder):
    shape = model().network.head.weight.shape
    edit_tensors(folder, **{"network.head.weight": torch.zeros(shape[1] * shape[0] // 8, 8)})
    with refused("network.head.weight has shape"):
        glauber.load(folder)


def test_a_noise_law_that_is_none_is_refused(folder):
    edit_tensors(folder, noise=torch.full((V,), 0.5))
    with refused("sum to 1"):
        glauber.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"model"', "\x00", '{"format": 1,}', "{} {}"])
def test_a_config_that_is_no_json_object_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with refused("config"):
        glauber.load(folder)


def test_a_config_that_is_no_text_is_refused(folder):
    (folder / "config.json").write_bytes(b"\xff\xfe\x80")
    with refused("cannot be read as JSON"):
        glauber.load(folder)


@pytest.mark.parametrize("number", [0, 1, "2", None])
def test_another_format_number_is_refused(folder, number):
    edit_config(folder, format=number)
    with refused("format"):
        glauber.load(folder)


@pytest.mark.parametrize("key", ["format", "method", "network", "schedule", "trained_schedule", "codec", "sampling", "about"])
def test_a_config_that_lacks_any_one_key_is_refused(folder, key):
    config = json.loads((folder / "config.json").read_text())
    assert key in config
    del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    with refused(key):
        glauber.load(folder)


def test_the_keys_above_are_all_there_are(folder):
    keys = set(json.loads((folder / "config.json").read_text()))
    assert keys == {"format", "method", "network", "schedule", "trained_schedule", "codec", "sampling", "about"}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        (["network"], {"surprise": 1}),
        (["schedule"], {"surprise": 1}),
        ([], {"surprise": 1}),
        (["codec"], {"surprise": 1}),
        (["sampling"], {"surprise": 1}),
    ],
)
def test_a_config_with_an_unknown_key_is_refused(folder, path, changes):
    edit_config(folder, *path, **changes)
    with refused("surprise"):
        glauber.load(folder)


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        (["network"], {"vocab": V + 1}),
        (["network"], {"vocab": V - 1}),
        (["network"], {"vocab": 0}),
        (["network"], {"vocab": "16"}),
        (["network"], {"length": L + 1, "grid": None}),
        (["network"], {"width": 32}),
        (["network"], {"layers": 2}),
        (["network"], {"layers": 0}),
        (["network"], {"heads": 3}),
        (["network"], {"cond_dim": 16}),
        (["network"], {"conditioning": "time"}),
        (["network"], {"conditioning": "nothing"}),
        (["network"], {"grid": [4, 5]}),
        (["schedule"], {"length": 8}),
        (["schedule"], {"keep": 2.0}),
        (["schedule"], {"keep": "cosine"}),
        (["schedule"], {"block": 3}),
        (["schedule"], {"order": "zigzag"}),
        (["schedule"], {"order": [0] * L}),
        (["codec"], {"kind": "vq"}),
        (["codec"], {"patch": 4}),
        (["codec"], {"shape": [8, 10]}),
        ([], {"codec": None}),
        ([], {"network": None}),
        ([], {"network": []}),
        ([], {"schedule": 3}),
        ([], {"method": "ggn"}),
        ([], {"codec": ["patches"]}),
        (["codec"], {"shape": [8]}),
        (["network"], {"grid": [16]}),
    ],
)
def test_a_config_that_does_not_fit_is_refused(folder, path, changes):
    edit_config(folder, *path, **changes)
    with refused():
        glauber.load(folder)


def test_parts_that_do_not_fit_each_other_are_refused():
    process = Process(Schedule.round_robin(L, 2 * L), NoiseLaw.uniform(V))
    with refused("they must agree"):
        Model(network(vocab=V + 1), process)
    with refused("they must agree"):
        Model(network(length=9, grid=None), process)
    with refused("codes for"):
        Model(network(), process, PixelCodec((4, 4), 17))
    with refused("codes for"):
        Model(network(), process, PixelCodec((4, 5), V))


# Sampling


@pytest.mark.parametrize("make", MODELS)
def test_samples_are_the_same_for_the_same_seed_and_not_for_another(make):
    it = make()
    once = it.sample_tokens(4, seed=3)
    torch.rand(5)  # the global generator has no say
    assert torch.equal(it.sample_tokens(4, seed=3), once)
    assert not torch.equal(it.sample_tokens(4, seed=4), once)
    assert not torch.equal(it.sample_tokens(4), it.sample_tokens(4))
    assert once.shape == (4, it.process.length)
    assert once.dtype == torch.int64
    assert 0 <= int(once.min()) <= int(once.max()) < it.process.vocab


def test_samples_are_decoded_to_images_or_to_lists_of_tokens():
    it = model()
    pictures = it.sample(3, seed=0)
    assert [picture.size for picture in pictures] == [(8, 8)] * 3
    assert np.array_equal(np.stack([np.asarray(p) for p in pictures]), it.codec.decode(it.sample_tokens(3, seed=0)))
    plain = without_codec()
    assert plain.sample(3, seed=0) == plain.sample_tokens(3, seed=0).tolist()
    assert model().sample(0) == []


def test_samples_as_images_without_pillow_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"glauber\[image\]"):
        model().sample()


def test_sampling_leaves_the_network_in_the_mode_it_was_in():
    it = model()
    for training in (True, False):
        it.network.train(training)
        it.sample_tokens(1, seed=0)
        assert it.network.training is training


def test_the_models_own_options_are_used_unless_told_otherwise():
    it = model(sampling={"top_k": 1})
    plain = model(sampling={})
    assert torch.equal(it.sample_tokens(4, seed=0), plain.sample_tokens(4, seed=0, top_k=1))
    assert torch.equal(it.sample_tokens(4, seed=0, top_k=None), plain.sample_tokens(4, seed=0))
    assert not torch.equal(it.sample_tokens(4, seed=0), plain.sample_tokens(4, seed=0))


@pytest.mark.parametrize(("make", "default"), [(model, torch.bfloat16), (classifier, torch.float32)])
def test_where_bfloat16_pays_all_is_sampled_in_it_but_the_papers_classifier_unless_told_otherwise(make, default, monkeypatch):
    monkeypatch.setattr("glauber.sampler.pays_in_bfloat16", lambda device: True)
    made, seen = make(), []
    made.network.blocks[0].register_forward_hook(lambda block, *_: seen.append(block.qkv.weight.dtype))
    for precision, wanted in ((None, default), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        made.precision = precision
        seen.clear()
        made.sample_tokens(1, seed=0)
        assert set(seen) == {wanted}


def test_the_models_own_schedule_is_used_unless_told_otherwise():
    it = model()
    assert it.sampler().schedule is it.process.schedule
    chain = glauber.run_chain(it.conditional, it.process, 3, generator=torch.Generator().manual_seed(5), top_p=0.9)
    assert torch.equal(it.sample_tokens(3, seed=5), chain)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"sweeps": 3, "order": "right-to-left"}, {"steps": 3 * L, "keep": [2 / 3, 1 / 2, 0.0]}),
        ({"sweeps": 1, "order": "left-to-right"}, {"steps": L, "keep": 0.0, "order": "left-to-right"}),
        ({"sweeps": 2, "order": "right-to-left"}, {"steps": 2 * L, "keep": [0.7, 1 / 3]}),
        ({"block": 4, "order": "strided"}, {"steps": 2 * L, "keep": [0.7, 1 / 3], "order": "strided", "block": 4}),
        ({"sweeps": 4, "block": 8, "order": "right-to-left"}, {"steps": 4 * L, "keep": [3 / 4, 2 / 3, 1 / 2, 0.0], "block": 8}),
    ],
)
def test_sweeps_block_and_order_build_another_schedule(options, wanted):
    it = model()
    schedule = it.sampler(**options).schedule
    expected = Schedule.round_robin(L, **wanted)
    assert torch.equal(schedule.order, expected.order)
    torch.testing.assert_close(schedule.keep, expected.keep, atol=1e-15, rtol=0)
    assert schedule.block == expected.block
    states = []
    tokens = it.sample_tokens(2, seed=1, on_step=lambda t, x: states.append(t), **options)
    assert states == list(range(expected.steps, -1, -expected.block))
    process = Process(expected, it.process.noise)
    chain = glauber.run_chain(it.conditional, process, 2, generator=torch.Generator().manual_seed(1), top_p=0.9)
    assert torch.equal(tokens, chain)


def test_what_is_not_named_is_kept_of_the_models_own_schedule():
    it = model()
    own, other = it.process.schedule, it.sampler(sweeps=5).schedule
    assert torch.equal(other.order, own.order)
    other = it.sampler(block=2).schedule
    assert torch.equal(other.order, own.order)
    assert torch.equal(other.keep, own.keep)
    other = it.sampler(order="random").schedule
    assert torch.equal(other.keep, own.keep)
    assert sorted(other.order.tolist()) == list(range(L))
    assert not torch.equal(other.order, own.order)
    assert torch.equal(it.sampler(order="random").schedule.order, other.order)  # the same one each time


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"sweeps": 0}, "sweeps must be at least 1"),
        ({"sweeps": -1}, "sweeps must be at least 1"),
        ({"block": 3}, "block must divide"),
        ({"block": 0}, "block must divide"),
        ({"order": "zigzag"}, "unknown order"),
        ({"num": -1}, "cannot draw -1 samples"),
        ({"top_p": 0}, "top-p"),
        ({"kernel": "metropolis"}, "kernel"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, about):
    with refused(about):
        model().sample(**options)


def test_a_classifier_samples_on_its_own_schedule_only():
    it = classifier()
    assert isinstance(it.conditional, glauber.StepLaw)
    assert len(it.sample(2, seed=0)) == 2
    for options in ({"sweeps": 3}, {"block": 2}, {"order": "left-to-right"}):
        with refused("its own schedule"):
            it.sample(1, **options)


def test_a_denoiser_told_only_the_time_samples_on_its_own_schedule_only():
    it = Model(network(conditioning="time"), Process(Schedule.round_robin(L, 2 * L), NoiseLaw.uniform(V)))
    assert len(it.sample(2, seed=0)) == 2
    with refused("its own schedule"):
        it.sample(1, sweeps=3)


def test_an_unknown_method_is_refused():
    with refused("method is one of ggm, ggm-marginal, .*, plaid, not 'ggn'"):
        model(method="ggn")


# Inpainting


def square_hole() -> np.ndarray:
    """White on rows 1..4 and columns 3..6: it cuts through patches."""
    hole = np.zeros((8, 8), dtype=bool)
    hole[1:5, 3:7] = True
    return hole


@pytest.mark.parametrize("seed", range(3))
def test_inpainting_leaves_every_pixel_outside_the_hole_as_it_was(seed):
    it, picture, hole = model(), image(seed), square_hole()
    before = picture.copy()
    assert not np.array_equal(it.codec.decode(it.codec.encode(picture[None]))[0], picture)  # the codec alone would show
    filled = np.asarray(it.inpaint(picture, hole, seed=seed))
    assert filled.dtype == np.uint8
    assert np.array_equal(filled[~hole], picture[~hole])
    assert not np.array_equal(filled[hole], picture[hole])
    assert np.array_equal(picture, before)


def test_inpainting_holds_the_tokens_that_the_hole_does_not_touch_and_frees_the_others():
    it, picture, hole = model(), image(), square_hole()
    tokens, states = it.codec.encode(picture[None])[0], []
    it.inpaint(picture, hole, num=8, seed=0, on_step=lambda t, x: states.append(x))
    touched = torch.tensor([[hole[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].any() for c in range(4)] for r in range(4)]).flatten()
    for x in states:
        assert (x[:, ~touched] == tokens[~touched]).all()
    assert (states[-1][:, touched] != tokens[touched]).any(0).all()


def test_the_hole_is_filled_with_the_models_samples_given_the_rest():
    it, picture, hole = model(), image(), square_hole()
    touched = hole.reshape(4, 2, 4, 2).any((1, 3)).flatten()
    clamp = (torch.from_numpy(~touched), it.codec.encode(picture[None])[0])
    wanted = it.codec.decode(it.sample_tokens(3, seed=2, clamp=clamp))
    filled = np.stack([np.asarray(p) for p in it.inpaint(picture, hole, num=3, seed=2)])
    assert np.array_equal(filled[:, hole], wanted[:, hole])


def test_inpainting_gives_one_image_or_a_list_of_as_many_as_asked():
    it, picture, hole = model(), image(), square_hole()
    one = it.inpaint(picture, hole, seed=0)
    assert isinstance(one, Image.Image)
    assert it.inpaint(picture, hole, num=1, seed=0) == [one]
    three = it.inpaint(picture, hole, num=3, seed=0)
    assert len({p.tobytes() for p in three}) == 3
    assert it.inpaint(picture, hole, num=3, seed=0) == three
    with refused("cannot draw -2"):
        it.inpaint(picture, hole, num=-2)


def test_inpainting_zero_times_gives_no_image():
    assert model().inpaint(image(), square_hole(), num=0) == []


def test_a_mask_may_be_an_image_or_an_array_and_white_means_fill_in():
    it = with_pixels()
    picture, hole = image(shape=(3, 4)), np.zeros((3, 4), dtype=bool)
    hole[1:, 2:] = True
    grey = np.where(hole, 255, 0).astype(np.uint8)
    wanted = it.inpaint(picture, hole, seed=0)
    assert np.array_equal(np.asarray(wanted)[~hole], picture[~hole])
    masks = [
        grey,
        np.where(hole, 128, 127).astype(np.uint8),
        np.repeat(grey[..., None], 3, axis=2),
        Image.fromarray(grey),
        Image.fromarray(grey).convert("1"),
        Image.fromarray(grey).convert("RGB"),
    ]
    for mask in masks:
        assert it.inpaint(Image.fromarray(picture), mask, seed=0) == wanted


def test_colour_images_are_inpainted():
    codec = PatchCodec(torch.rand(V, 12, generator=torch.Generator().manual_seed(0)) * 255, 2, (8, 8, 3))
    it = Model(network(), Process(Schedule.round_robin(L, 2 * L), NoiseLaw.uniform(V)), codec)
    picture, hole = image(shape=(8, 8, 3)), square_hole()
    filled = np.asarray(it.inpaint(picture, hole, seed=0))
    assert np.array_equal(filled[~hole], picture[~hole])
    assert (filled[hole] != picture[hole]).any()


@pytest.mark.parametrize(
    ("picture", "mask", "about"),
    [
        pytest.param(image(), np.zeros((8, 8), bool), "no white pixel", id="nothing-to-fill"),
        pytest.param(image(), np.full((8, 8), 100, np.uint8), "no white pixel", id="dark-grey"),
        pytest.param(image(shape=(8, 9)), square_hole(), "takes images of", id="image-size"),
        pytest.param(image(shape=(8, 8, 3)), square_hole(), "takes images of", id="image-colour"),
        pytest.param(image(), np.ones((9, 8), bool), "white all over", id="nothing-to-keep"),
        pytest.param(image(), np.ones((0, 8), bool), "rows and columns", id="empty-mask"),
        pytest.param(image().astype(np.float32), square_hole(), "uint8", id="image-type"),
    ],
)
def test_images_and_masks_that_do_not_fit_are_refused(picture, mask, about):
    with refused(about):
        model().inpaint(picture, mask)


def test_inpainting_without_a_codec_is_refused():
    with refused("no image codec"):
        without_codec().inpaint(image(), square_hole())


@pytest.fixture
def _every_warning():
    """Torch warns of a read-only array once in a process; here, each time."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("_every_warning")
def test_a_pillow_image_is_inpainted_without_a_warning():
    filled = model().inpaint(Image.fromarray(image()), Image.fromarray(square_hole()), seed=0)
    assert np.array_equal(np.asarray(filled)[~square_hole()], image()[~square_hole()])


# Scoring


def test_images_score_as_their_tokens_do():
    it, pictures = model(), np.stack([image(seed) for seed in range(6)])
    result = it.score(pictures, draws=2)
    assert result == it.score(it.codec.encode(pictures), draws=2)
    assert result["bits_per_token"] > 0
    assert result["calls"] == 12
    with refused("no image codec"):
        without_codec().score(pictures)


def test_models_made_from_one_law_do_not_share_it():
    law = restless_law()
    one, two = (Model(network(), Process(Schedule.round_robin(L, L), law)) for _ in range(2))
    before = law.probs.clone()
    one.load_state_dict(one.state_dict() | {"noise": NoiseLaw.uniform(V).probs})
    assert torch.equal(one.process.noise.probs, NoiseLaw.uniform(V).probs)
    assert torch.equal(law.probs, before)
    assert torch.equal(two.process.noise.probs, before)


def test_casting_a_model_leaves_its_law_and_codec_exact():
    cast = model().bfloat16()
    assert cast.network.embed.weight.dtype == torch.bfloat16
    assert torch.equal(cast.noise, model().process.noise.probs)
    assert torch.equal(cast.codec_centres, model().codec.centres)


def test_loading_leaves_the_callers_random_numbers_alone(folder):
    state = torch.get_rng_state()
    glauber.load(folder)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "options", [{"top_p": "x"}, {"top_p": 7}, {"temperature": {"a": 1}}, {"ban": 3}, {"ban": [99]}, {"kernel": "k"}]
)
def test_sampling_options_that_make_no_sense_are_refused_when_the_model_is_made(options):
    with refused():
        model(sampling=options)


@pytest.mark.parametrize("bad", [torch.zeros(V, 16, dtype=torch.int64), torch.full((V, 16), float("nan"))])
def test_weights_that_are_no_finite_floats_are_refused(folder, bad):
    edit_tensors(folder, **{"network.head.weight": bad})
    with refused("finite"):
        glauber.load(folder)


def test_a_block_alone_changes_nothing_but_the_block():
    net = model()
    own = Model(net.network, Process(Schedule.round_robin(L, L, order="left-to-right"), restless_law()))
    schedule = own.sampler(block=4).schedule
    assert schedule.to_dict() == own.process.schedule.to_dict() | {"block": 4}
    assert schedule.sites(torch.tensor([0, 12])).tolist() == [[15, 14, 13, 12], [3, 2, 1, 0]]


def test_the_score_is_of_the_chain_that_it_names():
    x = torch.randint(V, (64, L), generator=torch.Generator().manual_seed(0))
    reversal, heat_bath = (model().score(x, kernel=kernel, draws=32) for kernel in ("reversal", "heat-bath"))
    assert reversal["bits_per_token"] < heat_bath["bits_per_token"]
    assert isinstance(reversal["bits_per_token"], float)
    with refused("at least one row"):
        model().score(x[:0])
