"""Inpainting: which tokens a hole frees, by each rule; what is outside the hole comes back; bad masks are one sentence."""

import subprocess
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

from glauber import Model, NoiseLaw, PatchCodec, Process, Schedule, load
from glauber.cli import main
from glauber.codec import VQCodec
from glauber.codec.vq import build_vq
from glauber.conditional import Transformer, TransformerConfig
from glauber.tasks.inpaint import REFINEMENTS, RULES, closed, covered, fast_pass, given_tokens, own_rule, placed, read_mask
from glauber.train.vq import VQSettings

EVERY_RULE = pytest.mark.parametrize("rule", RULES)


class WideCodec:
    """A token is the mean grey of its 2×2 square and one pixel beyond it on each side, so finely that each pixel counts."""

    kind, vocab, grid, shape = "wide", 256, (4, 4), (8, 8)

    def encode(self, images: np.ndarray) -> torch.Tensor:
        near = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="reflect").astype(np.float64)
        means = [near[:, 2 * r : 2 * r + 4, 2 * c : 2 * c + 4].mean((1, 2)) for r in range(4) for c in range(4)]
        return torch.from_numpy(np.stack(means, 1).round().astype(np.int64))

    def decode(self, tokens: torch.Tensor) -> np.ndarray:
        return np.kron(tokens.view(-1, 4, 4).numpy().astype(np.uint8), np.ones((1, 2, 2), np.uint8))

    def to_dict(self):
        return {"kind": self.kind}

    def tensors(self):
        return {}


def reach(hole: np.ndarray) -> np.ndarray:
    """(16,) the tokens of `WideCodec` that see some of the hole, from its definition alone."""
    near = np.pad(hole, 1, mode="reflect")
    return np.array([near[2 * r : 2 * r + 4, 2 * c : 2 * c + 4].any() for r in range(4) for c in range(4)])


def photo(size: int, grey: bool = False) -> np.ndarray:
    """A piece of a real photograph."""
    from sklearn.datasets import load_sample_image

    piece = Image.fromarray(load_sample_image("china.jpg")).crop((150, 100, 350, 300)).resize((size, size))
    return np.asarray(piece.convert("L" if grey else "RGB"))


def vq_codec(size: int = 32) -> VQCodec:
    torch.manual_seed(0)
    settings = VQSettings(codes=16, factor=4, width=8)
    made = build_vq(settings.network(3))
    return VQCodec(settings.network(3), made.state_dict(), (size, size, 3))


def model_of(codec, method: str = "ggm") -> Model:
    L = codec.grid[0] * codec.grid[1]
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(codec.vocab, L, width=16, layers=1, heads=1, grid=codec.grid))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.2)
    schedule = Schedule.round_robin(L, 2 * L, keep="linear" if method == "ggm" else 0.5)
    return Model(network, Process(schedule, NoiseLaw.uniform(codec.vocab)), codec, method)


def square(size: int = 8) -> np.ndarray:
    hole = np.zeros((size, size), dtype=bool)
    hole[size // 8 : size // 2, size // 4 : 3 * size // 4] = True
    return hole


CODECS = {
    "wide": WideCodec,
    "patches": lambda: PatchCodec(torch.rand(9, 16, generator=torch.Generator().manual_seed(0)) * 255, 4, (16, 16)),
    "vq": vq_codec,
}
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


# Which tokens are given


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_rule_frees_the_tokens_that_see_some_of_the_hole_and_no_others(seed):
    random = np.random.default_rng(seed)
    image, hole = random.integers(0, 256, (8, 8), dtype=np.uint8), random.random((8, 8)) < 0.08
    hole[1, 1] = True
    codec = WideCodec()
    given, tokens = given_tokens(codec, image, hole, "paper")
    assert np.array_equal(~given.numpy(), reach(hole))
    assert torch.equal(tokens[given], codec.encode(image[None])[0][given])  # what is given is true of the image


@pytest.mark.parametrize("extreme", [0, 255])
def test_the_papers_rule_asks_black_and_white_and_not_a_grey_between(extreme):
    """Of a codec whose tokens tell alone whether they see a pixel that is all black, or all white."""

    class Keen(WideCodec):
        def encode(self, images):
            near = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="reflect") == extreme
            seen = [near[:, 2 * r : 2 * r + 4, 2 * c : 2 * c + 4].any((1, 2)) for r in range(4) for c in range(4)]
            return torch.from_numpy(np.stack(seen, 1).astype(np.int64))

    image, hole = np.full((8, 8), 128, np.uint8), square()
    given, _ = given_tokens(Keen(), image, hole, "paper")
    assert np.array_equal(~given.numpy(), reach(hole))
    assert reach(hole).any()
    assert not reach(hole).all()


def test_cover_frees_the_tokens_whose_own_square_touches_the_hole():
    hole = square()
    touched = np.array([hole[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].any() for r in range(4) for c in range(4)])
    given, _ = given_tokens(WideCodec(), np.zeros((8, 8), np.uint8), hole, "cover")
    assert np.array_equal(~given.numpy(), touched)
    assert np.array_equal(covered(WideCodec(), hole), touched)
    assert (reach(hole) & ~touched).any()


def test_turns_fill_in_once_more_given_the_tokens_of_each_filled_image():
    """Chains of the same random numbers, the rows of each clamped to what their own fills before say outside."""
    codec, image, hole = WideCodec(), photo(8, grey=True), square()
    it, draws = model_of(codec), torch.Generator().manual_seed(3)
    given, tokens = given_tokens(codec, image, hole, "cover")
    for _ in range(REFINEMENTS):
        fast = it.sampler(sweeps=1, order="random", block=2)  # 16 sites in at most 14 calls
        hasty = fast.run(4, generator=draws, clamp=(given, tokens))
        before, tokens = tokens, codec.encode(np.where(hole, codec.decode(hasty), image))
        assert (tokens != before)[:, given].any()  # the fill is seen by tokens around it
    last = np.where(hole, codec.decode(it.sampler().run(4, generator=draws, clamp=(given, tokens))), image)
    found = it.inpaint(image, hole, num=4, seed=3, mask_rule="iterative")
    assert np.array_equal(np.stack([np.asarray(fill) for fill in found]), last)
    assert it.inpaint(image, hole, num=0, mask_rule="iterative") == []


def test_a_fast_pass_differs_from_the_last_one_in_its_schedule_alone():
    network = Transformer(TransformerConfig(256, 16, width=16, layers=1, heads=1, classes=2))
    it = Model(network, Process(Schedule.round_robin(16, 32), NoiseLaw.uniform(256)), WideCodec())
    careful = it.sampler(class_=1, guidance=0.5, precision="bf16", top_p=0.9, mark_noise=True, gaps=True)
    fast = fast_pass(careful)
    assert (fast.schedule.sweeps, fast.calls, careful.calls) == (1, 8, 32)
    assert (fast.plan.class_, fast.plan.guidance, fast.precision) == (1, 0.5, "bf16")
    assert fast.plan.options == careful.plan.options == {"top_p": 0.9, "mark_noise": True}


def test_a_watcher_sees_the_last_fill_and_no_fast_pass():
    seen = []
    it = model_of(WideCodec())
    it.inpaint(photo(8, grey=True), square(), seed=0, mask_rule="iterative", on_step=lambda t, x: seen.append(t))
    assert seen == list(range(32, -1, -1))


def test_a_model_that_has_one_chain_alone_takes_turns_by_it():
    codec, image, hole = WideCodec(), photo(8, grey=True), square()
    it, draws = model_of(codec, "ggm-marginal"), torch.Generator().manual_seed(3)
    given, tokens = given_tokens(codec, image, hole, "cover")
    for _ in range(REFINEMENTS + 1):
        filled = np.where(hole, codec.decode(it.sampler().run(1, generator=draws, clamp=(given, tokens))), image)
        tokens = codec.encode(filled)
    assert np.array_equal(np.asarray(it.inpaint(image, hole, seed=3, mask_rule="iterative")), filled[0])


def test_turns_are_taken_unless_told_where_tokens_look_beyond_their_squares():
    assert own_rule(CODECS["patches"]()) == own_rule(WideCodec()) == "cover"
    assert own_rule(load("fashion").codec) == "iterative"


def test_where_a_token_sees_its_own_square_alone_turns_give_the_tokens_that_cover_gave():
    codec = CODECS["patches"]()
    image, hole = photo(16, grey=True), square(16)
    given, tokens = given_tokens(codec, image, hole, "iterative")
    filled = np.asarray(model_of(codec).inpaint(image, hole, seed=0))
    assert torch.equal(codec.encode(filled[None])[0][given], tokens[given])


@EVERY_RULE
@EVERY_CODEC
def test_what_lies_in_the_hole_does_not_matter(rule, codec):
    codec = codec()
    size = codec.shape[0]
    image, hole = photo(size, grey=len(codec.shape) == 2), square(size)
    other = image.copy()
    other[hole] = np.random.default_rng(0).integers(0, 256, other[hole].shape)
    for a, b in zip(given_tokens(codec, image, hole, rule), given_tokens(codec, other, hole, rule), strict=True):
        assert torch.equal(a, b)


@EVERY_RULE
@EVERY_CODEC
def test_pixels_outside_the_hole_come_back_byte_for_byte_in_every_fill(rule, codec):
    codec = codec()
    size = codec.shape[0]
    image, hole = photo(size, grey=len(codec.shape) == 2), square(size)
    fills = [np.asarray(fill) for fill in model_of(codec).inpaint(image, hole, num=3, seed=0, mask_rule=rule)]
    for fill in fills:
        assert fill.dtype == np.uint8
        assert np.array_equal(fill[~hole], image[~hole])
        assert (fill[hole] != image[hole]).any()
    assert len({fill.tobytes() for fill in fills}) == 3


def test_a_rule_that_there_is_not_is_refused():
    with refused("one of cover, paper, iterative"):
        model_of(WideCodec()).inpaint(np.zeros((8, 8), np.uint8), square(), mask_rule="best")


# A smooth hole


def test_a_hole_in_a_plain_image_is_closed_without_a_trace():
    plain = np.full((12, 10, 3), (10, 200, 90), np.uint8)
    hole = np.zeros((12, 10), bool)
    hole[3:11, :9] = True
    spoilt = plain.copy()
    spoilt[hole] = 7
    assert np.array_equal(closed(spoilt, hole), plain)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.98])
def test_a_closed_hole_lies_between_the_visible_greys_and_leaves_them_alone(share):
    image = photo(19, grey=True)
    hole = np.random.default_rng(1).random(image.shape) < share
    smooth = closed(image, hole)
    assert np.array_equal(smooth[~hole], image[~hole])
    assert image[~hole].min() <= smooth.min()
    assert smooth.max() <= image[~hole].max()


def test_a_closed_hole_is_nearer_to_a_photo_than_one_of_its_mean_colour():
    image, hole = photo(64), np.zeros((64, 64), bool)
    hole[20:44, 20:44] = True
    error = np.abs(closed(image, hole)[hole].astype(float) - image[hole]).mean()
    assert error < np.abs(image[~hole].mean(0) - image[hole]).mean()


# Masks


@pytest.mark.parametrize("times", [1, 3, 10])
def test_a_mask_of_so_many_times_the_size_is_the_same_mask(times):
    hole = square()
    large = np.kron(hole, np.ones((times, times), bool))
    for mask in (large, large * np.uint8(255), np.repeat((large * np.uint8(255))[..., None], 3, 2)):
        assert np.array_equal(read_mask(mask, (8, 8)), hole)


def test_a_mask_of_the_grids_size_is_a_mask_of_tokens():
    codec, mask = WideCodec(), np.zeros((4, 4), bool)
    mask[1, 2] = mask[3, 0] = True
    given, _ = given_tokens(codec, np.zeros((8, 8), np.uint8), read_mask(mask, (8, 8)), "cover")
    assert np.array_equal(~given.numpy(), mask.flatten())


def test_a_thin_stroke_of_a_large_mask_is_not_lost():
    mask = np.zeros((1000, 777), np.uint8)
    mask[:, 400] = 255
    hole = read_mask(mask, (28, 28))
    assert np.array_equal(hole.any(0), np.arange(28) == 400 * 28 // 777)
    assert hole.any(1).all()


# The command


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    codec = PatchCodec(torch.rand(9, 12, generator=torch.Generator().manual_seed(0)) * 255, 2, (8, 8, 3))
    return model_of(codec).save(tmp_path_factory.mktemp("model"))


def glauber(*arguments, cwd: Path) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*arguments, cwd=cwd)


def test_infill_takes_a_mask_of_any_size_and_gives_several_fills(saved, tmp_path):
    image = photo(8)
    Image.fromarray(image).convert("RGBA").save(tmp_path / "x.png")  # what cannot be seen through is as it is
    Image.fromarray(np.kron(square(), np.ones((5, 5), bool))).save(tmp_path / "m.png")
    done = glauber("infill", saved, "--image", "x.png", "--mask", "m.png", "-n", 3, "--mask-rule", "paper", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for k in range(3):
        fill = np.asarray(Image.open(tmp_path / "filled" / f"{k:04d}.png"))
        assert np.array_equal(fill[~square()], image[~square()])


@pytest.mark.parametrize(("word", "left", "top"), [("middle", 2, 1), ("0,3", 0, 3), ("4,0", 4, 0)])
def test_outpainting_keeps_the_image_where_it_was_put(saved, tmp_path, word, left, top):
    image = photo(8)[:5, :4]
    Image.fromarray(image).save(tmp_path / "x.png")
    done = glauber("infill", saved, "--image", "x.png", "--outpaint", word, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole = np.asarray(Image.open(tmp_path / "out/0000.png"))
    assert whole.shape == (8, 8, 3)
    assert np.array_equal(whole[top : top + 5, left : left + 4], image)
    assert len(np.unique(whole.reshape(-1, 3), axis=0)) > 20  # the rest is filled in


def test_bad_images_masks_and_places_are_one_sentence(saved, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(photo(8)).save(tmp_path / "x.png")
    Image.fromarray(photo(9)).save(tmp_path / "nine.png")
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    Image.new("L", (30, 2), 255).save(tmp_path / "white.png")
    Image.new("1", (10_000, 10_000), 1).save(tmp_path / "huge.png")
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "cut.png").write_bytes((tmp_path / "x.png").read_bytes()[:60])

    def refuse(about: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["glauber", "infill", str(saved), *arguments, "--out", "out"])
        with pytest.raises(SystemExit) as left:
            main()
        said = capfd.readouterr().err
        assert (left.value.code, said.count("\n")) == (2, 1), said
        assert about in said

    refuse("no white pixel", "--image", "x.png", "--mask", "black.png")
    refuse("white all over", "--image", "x.png", "--mask", "white.png")
    refuse("million pixels; make it smaller", "--image", "x.png", "--mask", "huge.png")
    refuse("million pixels; make it smaller", "--image", "huge.png", "--mask", "black.png")
    refuse("not an image", "--image", "x.png", "--mask", "text.png")
    refuse("cut short", "--image", "cut.png", "--mask", "black.png")
    refuse("takes images of 8×8 pixels", "--image", "nine.png", "--mask", "white.png")
    refuse("must be smaller than the model's 8×8", "--image", "x.png", "--outpaint", "middle")
    refuse("need a --mask", "--image", "x.png", "--mask", "white.png", "--outpaint", "middle")
    refuse("pixels from the left and the top", "--image", "x.png", "--outpaint", "left")
    refuse("are for images", "--text", "a [[1]]", "--mask-rule", "paper")
    assert not (tmp_path / "out").exists()


def test_an_image_is_placed_only_where_there_is_room():
    with refused("room for 2 pixels to the left and 3 above"):
        placed(np.zeros((5, 6), np.uint8), (8, 8), 3, 0)
    canvas, around = placed(np.full((5, 6), 9, np.uint8), (8, 8), None, None)
    assert np.array_equal(canvas == 9, ~around)
    assert (~around).sum() == 30


def test_a_mask_that_can_be_seen_through_is_white_only_where_it_is_painted(saved, tmp_path):
    Image.fromarray(photo(8)).save(tmp_path / "x.png")
    painted = np.zeros((8, 8, 4), np.uint8)
    painted[2:4, 2:4] = 255
    Image.fromarray(painted, "RGBA").save(tmp_path / "seen.png")
    np.save(tmp_path / "array.npy", painted[..., 3] > 0)
    fills = []
    for name in ("seen.png", "array.npy"):
        done = glauber("infill", saved, "--image", "x.png", "--mask", name, "--seed", 0, "--out", f"{name}-out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        fills.append(np.asarray(Image.open(next((tmp_path / f"{name}-out").glob("*.png")))))
    assert np.array_equal(fills[0], fills[1])
    outside = painted[..., 3] == 0
    assert np.array_equal(fills[0][outside], photo(8)[outside])


@pytest.mark.parametrize(("option", "file"), [("--strip", "a.jpg"), ("--gif", "a.png")])
def test_pictures_of_another_kind_than_their_name_are_refused(saved, tmp_path, option, file):
    done = glauber("sample", saved, "-n", 1, option, file, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{option} writes a ." in done.stderr
    assert not any(tmp_path.iterdir())


def test_guidance_without_a_class_and_a_codec_in_the_place_of_a_model_are_refused(tmp_path):
    done = glauber("sample", "novels", "-n", 1, "--guidance", 2, cwd=tmp_path)
    assert (done.returncode, "say which one" in done.stderr) == (2, True)
    (tmp_path / "codec").mkdir()
    for name in ("config.json", "diffusion_pytorch_model.safetensors", "log.jsonl"):
        (tmp_path / "codec" / name).write_text("{}")
    done = glauber("info", "codec", cwd=tmp_path)
    assert (done.returncode, "is a codec of images" in done.stderr) == (2, True)
