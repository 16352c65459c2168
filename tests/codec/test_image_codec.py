"""Images ⇄ tokens, on scikit-learn's digits and on images made up here."""

import sys

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_digits

from glauber import PatchCodec, PixelCodec
from glauber.codec import codec_from_dict


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    """(300, 8, 8) uint8; the dataset's greys are 0..16."""
    return np.round(load_digits().images[:300] * (255 / 16)).astype(np.uint8)


@pytest.fixture(scope="module")
def fitted(digits) -> dict[int, PatchCodec]:
    return {vocab: PatchCodec.fit(digits, patch=2, vocab=vocab) for vocab in (4, 16, 64)}


def colours(seed: int = 0, shape: tuple[int, ...] = (6, 4, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (5, *shape), dtype=np.uint8)


def squares_one_by_one(image: np.ndarray, patch: int) -> list[np.ndarray]:
    """The squares of one image, row by row, each flattened in the order of its pixels."""
    height, width = image.shape[:2]
    corners = [(r, c) for r in range(0, height, patch) for c in range(0, width, patch)]
    return [image[r : r + patch, c : c + patch].reshape(-1).astype(np.float64) for r, c in corners]


def nearest_one_by_one(images: np.ndarray, codec: PatchCodec) -> list[list[int]]:
    centres = codec.centres.double().numpy()
    return [
        [int(((centres - square) ** 2).sum(1).argmin()) for square in squares_one_by_one(image, codec.patch)]
        for image in images
    ]


def test_pixels_of_256_levels_come_back_identical(digits):
    codec = PixelCodec((8, 8))
    assert np.array_equal(codec.decode(codec.encode(digits)), digits)
    every_grey = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    codec = PixelCodec((16, 16))
    assert np.array_equal(codec.decode(codec.encode(every_grey)), every_grey)
    assert codec.encode(every_grey).tolist() == [list(range(256))]


def test_digits_of_17_greys_come_back_identical_from_17_levels(digits):
    codec = PixelCodec((8, 8), levels=17)
    assert np.array_equal(codec.encode(digits).view(-1, 8, 8).numpy(), load_digits().images[:300].astype(np.int64))
    assert np.abs(codec.decode(codec.encode(digits)).astype(int) - digits.astype(int)).max() <= 1  # 255/16 is no whole number


@pytest.mark.parametrize("levels", [2, 3, 17, 100, 255, 256])
def test_pixels_are_off_by_at_most_half_a_level(levels):
    every_grey = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    codec = PixelCodec((16, 16), levels)
    tokens = codec.encode(every_grey)
    assert int(tokens.min()) == 0
    assert int(tokens.max()) == levels - 1
    error = np.abs(codec.decode(tokens).astype(float) - every_grey)
    assert error.max() <= 255 / (levels - 1) / 2 + 0.5


def test_pixel_tokens_come_back_identical_for_any_number_of_levels():
    for levels in range(2, 257):
        codec, tokens = PixelCodec((1, levels), levels), torch.arange(levels)[None]
        assert torch.equal(codec.encode(codec.decode(tokens)), tokens)


def test_pixel_tokens_run_row_by_row():
    image = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    codec = PixelCodec((2, 3))
    assert codec.grid == (2, 3)
    assert codec.encode(image).tolist() == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("patch", [1, 2, 4])
def test_each_square_gets_its_nearest_centre_in_reading_order(digits, patch):
    centres = torch.from_numpy(np.random.default_rng(patch).uniform(0, 255, (40, patch * patch))).float()
    codec = PatchCodec(centres, patch, (8, 8))
    tokens = codec.encode(digits[:50])
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == nearest_one_by_one(digits[:50], codec)


def test_fitted_codes_are_nearest_centres_too(digits, fitted):
    for codec in fitted.values():
        assert codec.encode(digits[:50]).tolist() == nearest_one_by_one(digits[:50], codec)


@pytest.mark.parametrize("shape", [(6, 4, 3), (4, 6, 3), (6, 4)])
def test_squares_of_images_that_are_not_square_are_put_back_in_place(shape):
    images = colours(shape=shape)
    all_squares = np.array([square for image in images for square in squares_one_by_one(image, 2)])
    codec = PatchCodec(torch.from_numpy(all_squares).float(), 2, shape)
    assert codec.grid == (shape[0] // 2, shape[1] // 2)
    assert codec.encode(images).tolist() == nearest_one_by_one(images, codec)
    assert np.array_equal(codec.decode(codec.encode(images)), images)


def test_colour_images_are_fitted_and_come_back_in_colour():
    images = np.zeros((4, 4, 4, 3), dtype=np.uint8)
    images[1, ..., 0], images[2, ..., 1], images[3, ..., 2] = 250, 240, 230
    codec = PatchCodec.fit(images, patch=2, vocab=4)
    assert (codec.vocab, codec.grid, codec.shape) == (4, (2, 2), (4, 4, 3))
    assert np.array_equal(codec.decode(codec.encode(images)), images)


def test_as_many_codes_as_different_squares_lose_nothing():
    images = np.random.default_rng(3).integers(0, 2, (40, 4, 4), dtype=np.uint8) * 200  # 16 different 2×2 squares
    codec = PatchCodec.fit(images, patch=2, vocab=16)
    assert np.array_equal(codec.decode(codec.encode(images)), images)


def test_tokens_come_back_identical_when_the_centres_lie_further_apart_than_rounding_moves_them(fitted):
    g = torch.Generator().manual_seed(0)
    for vocab, codec in fitted.items():
        distance = torch.cdist(codec.centres.double(), codec.centres.double()) + 1e9 * torch.eye(vocab)
        assert distance.min() > 2 * 0.5 * codec.centres.shape[1] ** 0.5  # each channel moves by a half at most
        assert codec.centres.min() > -0.5
        assert codec.centres.max() < 255.5
        tokens = torch.randint(vocab, (50, 16), generator=g)
        assert torch.equal(codec.encode(codec.decode(tokens)), tokens)


def test_tokens_of_different_whole_number_centres_come_back_identical():
    grey = torch.cartesian_prod(torch.arange(0, 256, 51), torch.tensor([0, 1, 254, 255])).float()
    codec = PatchCodec(grey.repeat(1, 2), 2, (8, 8))
    tokens = torch.randint(len(grey), (50, 16), generator=torch.Generator().manual_seed(1))
    assert torch.equal(codec.encode(codec.decode(tokens)), tokens)


def test_decoding_rounds_to_the_nearest_grey_and_never_wraps_around():
    codec = PatchCodec(torch.tensor([[-3.0], [0.4], [0.6], [254.6], [300.0]]), 1, (1, 5))
    assert codec.decode(torch.arange(5)[None]).tolist() == [[[0, 0, 1, 255, 255]]]


def test_the_reconstruction_error_falls_with_more_codes(digits, fitted):
    def error(codec):
        return ((codec.decode(codec.encode(digits)).astype(float) - digits) ** 2).mean()

    errors = [error(fitted[vocab]) for vocab in (4, 16, 64)]
    variance = digits.astype(float).var()
    assert variance > 2 * errors[0]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_a_fit_is_the_same_for_the_same_seed(digits, fitted):
    again = PatchCodec.fit(digits, patch=2, vocab=16, seed=0)
    assert torch.equal(again.centres, fitted[16].centres)
    assert not torch.equal(PatchCodec.fit(digits, patch=2, vocab=16, seed=1).centres, fitted[16].centres)


def test_encoding_leaves_the_images_alone(digits, fitted):
    before = digits.copy()
    fitted[16].encode(digits)
    PixelCodec((8, 8)).encode(digits)
    assert np.array_equal(digits, before)


def test_transposed_views_are_encoded_as_their_copies(digits, fitted):
    view = digits.transpose(0, 2, 1)
    for codec in (fitted[16], PixelCodec((8, 8), 17)):
        assert torch.equal(codec.encode(view), codec.encode(np.ascontiguousarray(view)))


def test_a_codec_comes_back_from_its_dictionary_and_tensors(digits, fitted):
    for codec in (fitted[16], PixelCodec((8, 8), 17), PatchCodec(torch.rand(7, 12) * 255, 2, (6, 4, 3))):
        again = codec_from_dict(codec.to_dict(), codec.tensors())
        assert type(again) is type(codec)
        assert (again.shape, again.grid, again.vocab) == (codec.shape, codec.grid, codec.vocab)
        images = digits if codec.shape == (8, 8) else colours()
        assert torch.equal(again.encode(images), codec.encode(images))
        assert np.array_equal(again.decode(codec.encode(images)), codec.decode(codec.encode(images)))


@pytest.mark.parametrize("kind", ["pixels", "patches"])
@pytest.mark.parametrize(
    "images",
    [
        pytest.param(np.zeros((2, 8, 9), np.uint8), id="width"),
        pytest.param(np.zeros((2, 64), np.uint8), id="flat"),
        pytest.param(np.zeros((8, 8), np.uint8), id="no-batch"),
        pytest.param(np.zeros((2, 8, 8, 3), np.uint8), id="colour"),
        pytest.param(np.zeros((2, 8, 8)), id="float"),
        pytest.param(np.zeros((2, 8, 8), np.int64), id="int64"),
        pytest.param(np.zeros((2, 8, 8), bool), id="bool"),
    ],
)
def test_images_of_another_shape_or_type_are_refused(fitted, kind, images):
    codec = PixelCodec((8, 8)) if kind == "pixels" else fitted[4]
    with refused(r"expected uint8 images of shape \(number, 8, 8\)"):
        codec.encode(images)


@pytest.mark.parametrize(
    ("make", "about"),
    [
        pytest.param(lambda: PixelCodec((8, 8), 1), "between 2 and 256", id="one-level"),
        pytest.param(lambda: PixelCodec((8, 8), 257), "between 2 and 256", id="257-levels"),
        pytest.param(lambda: PixelCodec((8, 8, 3)), "grey images", id="pixels-in-colour"),
        pytest.param(lambda: PatchCodec(torch.zeros(3, 9), 3, (8, 8)), "do not tile", id="no-tiling"),
        pytest.param(lambda: PatchCodec(torch.zeros(3, 4), 0, (8, 8)), "do not tile", id="patch-0"),
        pytest.param(lambda: PatchCodec(torch.zeros(3, 5), 2, (8, 8)), "does not fit", id="centres-too-wide"),
        pytest.param(lambda: PatchCodec(torch.zeros(3, 4), 2, (8, 8, 3)), "does not fit", id="grey-centres"),
        pytest.param(lambda: PatchCodec(torch.zeros(4), 2, (8, 8)), "does not fit", id="one-axis"),
        pytest.param(lambda: codec_from_dict({"kind": "waves", "shape": [8, 8]}, {}), "unknown codec 'waves'", id="kind"),
    ],
)
def test_a_codec_that_cannot_be_built_is_refused(make, about):
    with refused(about):
        make()


def test_more_codes_than_different_squares_are_refused():
    images = np.zeros((10, 4, 4), np.uint8)
    images[5:] = 255
    assert PatchCodec.fit(images, patch=2, vocab=2).vocab == 2
    with refused("only 2 different patches"):
        PatchCodec.fit(images, patch=2, vocab=3)


def test_fitting_refuses_images_of_another_type_and_squares_that_do_not_tile(digits):
    with refused("expected uint8"):
        PatchCodec.fit(digits.astype(np.float32), patch=2, vocab=4)
    with refused("do not tile"):
        PatchCodec.fit(digits, patch=3, vocab=4)


def test_fitting_without_scikit_learn_names_the_extra(digits, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ImportError, match=r"glauber\[demo\]"):
        PatchCodec.fit(digits, patch=2, vocab=4)


@pytest.fixture
def _every_warning():
    """Torch warns of a read-only array once in a process; here, each time."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("_every_warning")
@pytest.mark.parametrize(
    "kind",
    [
        "pixels",
        "patches",
    ],
)
def test_read_only_images_such_as_those_of_pillow_are_encoded_without_a_warning(digits, fitted, kind):
    codec = PixelCodec((8, 8)) if kind == "pixels" else fitted[4]
    frozen = digits.copy()
    frozen.setflags(write=False)
    assert torch.equal(codec.encode(frozen), codec.encode(digits))


@pytest.mark.parametrize(
    "kind",
    [
        "pixels",
        "patches",
    ],
)
def test_mirrored_views_are_encoded_as_their_copies(digits, fitted, kind):
    codec = PixelCodec((8, 8)) if kind == "pixels" else fitted[4]
    mirrored = digits[:, :, ::-1]
    assert torch.equal(codec.encode(mirrored), codec.encode(mirrored.copy()))


def test_fitting_refuses_images_without_rows_and_columns(digits):
    with refused():
        PatchCodec.fit(digits.reshape(len(digits), 64), patch=2, vocab=4)


@pytest.mark.parametrize(("kind", "shape"), [("pixels", (8, 8)), ("patches", (1, 15)), ("patches", (8, 2))])
def test_decoding_refuses_tokens_of_another_length(fitted, kind, shape):
    codec = PixelCodec((8, 8)) if kind == "pixels" else fitted[4]
    with refused():
        codec.decode(torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize("kind", ["pixels", "patches"])
@pytest.mark.parametrize("token", [-1, 4])
def test_decoding_refuses_tokens_outside_the_vocabulary(fitted, kind, token):
    codec = PixelCodec((4, 4), levels=4) if kind == "pixels" else fitted[4]
    with refused():
        codec.decode(torch.full((1, 16), token))


def test_no_images_give_no_tokens(digits, fitted):
    assert PixelCodec((8, 8)).encode(digits[:0]).shape == (0, 64)
    assert fitted[4].encode(digits[:0]).shape == (0, 16)
