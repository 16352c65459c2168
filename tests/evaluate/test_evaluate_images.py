"""Images evaluated by features: each figure against an independent computation, killed in the middle, fed wrong things."""

import json
import pickle
import subprocess
import warnings
import zipfile
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from safetensors.torch import save_file
from scipy.linalg import sqrtm
from seeded import EVERY, images, inception_weights
from torch import nn
from torch.nn import functional as F

from glauber.cli.evaluate_images import holds_images
from glauber.codec import PixelCodec
from glauber.evaluate import fid, neighbours
from glauber.evaluate.features import CHUNK, FeatureNetwork, Images, Store, prepared, read_images, reconstructed
from glauber.evaluate.fid import Moments, Statistics, discrepancy, factor, frechet, kid, packed, unpacked
from glauber.evaluate.images import evaluate_images, lpips, statistics
from glauber.evaluate.inception import Convolution, InceptionV3, folded, read_inception

RNG = np.random.default_rng(0)


def pictures(number: int, seed: int, side: int = 6, colour: bool = False) -> np.ndarray:
    """Bright in one corner, more or less, with noise."""
    rng = np.random.default_rng(seed)
    ramp = np.add.outer(np.arange(side), np.arange(side)) * rng.uniform(0, 12, (number, 1, 1)) + rng.normal(
        100, 20, (number, side, side)
    )
    grey = ramp.clip(0, 255).astype(np.uint8)
    return np.stack([grey, grey[:, ::-1], grey[:, :, ::-1]], -1) if colour else grey


def as_images(array: np.ndarray, source: str = "some") -> Images:
    return Images(source, len(array), array.shape[1:], lambda ks: array[list(ks)])


class Tiny(nn.Module):
    """Sixteen features of a picture; it can be told to fail, as a killed process does."""

    def __init__(self, calls: int = 10**9):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.left = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 16)), calls

    def forward(self, x):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return self.layers(x)


def tiny(calls: int = 10**9) -> FeatureNetwork:
    return FeatureNetwork(Tiny(calls).requires_grad_(False), "tiny", "0")


def of(mean, covariance) -> Statistics:
    return Statistics(np.array(mean, float), factor(np.array(covariance, float)), 2, "", "", ())


def test_moments_added_in_pieces_are_those_of_the_whole():
    values = (RNG.normal(size=(301, 7)) @ RNG.normal(size=(7, 7)) + 1e4).astype(np.float32)
    moments = Moments(7)
    for piece in np.split(values, [1, 2, 50, 299]):
        moments.add(piece)
    assert moments.number == 301
    np.testing.assert_allclose(moments.mean, values.astype(np.float64).mean(0), rtol=1e-13)
    np.testing.assert_allclose(moments.covariance, np.cov(values.astype(np.float64), rowvar=False), rtol=1e-10)


def test_the_frechet_distance_is_that_of_a_matrix_square_root():
    x, y = RNG.normal(size=(60, 9)) @ RNG.normal(size=(9, 9)), RNG.normal(size=(50, 9)) + RNG.normal(size=9)
    first, second = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = sqrtm(first @ second)
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(first + second - 2 * root.real)
    assert frechet(Statistics.of(x), Statistics.of(y)) == pytest.approx(expected, rel=1e-9)
    assert frechet(Statistics.of(y), Statistics.of(x)) == pytest.approx(expected, rel=1e-9)


def test_the_frechet_distance_of_independent_coordinates_is_the_sum_of_theirs():
    a, b = np.array([4.0, 1.0, 0.0, 9.0, 0.0]), np.array([1.0, 1.0, 2.0, 0.0, 0.0])  # zeros: some coordinates never vary
    means = np.array([1.0, 0, 0, 2, 3]), np.array([0.0, 0, 5, 2, 3])
    expected = ((means[0] - means[1]) ** 2).sum() + ((np.sqrt(a) - np.sqrt(b)) ** 2).sum()
    turn = np.linalg.qr(RNG.normal(size=(5, 5)))[0]  # a rotation changes no distance
    sides = [of(turn @ mean, turn @ np.diag(spread) @ turn.T) for mean, spread in zip(means, (a, b), strict=True)]
    assert frechet(*sides) == pytest.approx(expected, rel=1e-12)
    assert frechet(of([1, 2], np.zeros((2, 2))), of([1, 4], np.diag([1, 0]))) == pytest.approx(5)


def test_fewer_images_than_features_cost_no_accuracy():
    values = RNG.normal(size=(12, 64))
    assert frechet(Statistics.of(values), Statistics.of(values)) < 1e-12
    # both sets lie in the plane of the first: the other coordinates say nothing
    x, y = RNG.normal(size=(9, 5)), RNG.normal(size=(8, 5))
    wide = np.linalg.qr(RNG.normal(size=(64, 5)))[0].T
    assert frechet(Statistics.of(x @ wide), Statistics.of(y @ wide)) == pytest.approx(
        frechet(Statistics.of(x), Statistics.of(y)), rel=1e-9
    )


@pytest.mark.parametrize("number", [300, 10])
def test_kept_statistics_move_the_root_of_fid_by_no_more_than_was_rounded_off(number, tmp_path):
    values = RNG.normal(size=(number, 40)) @ RNG.normal(size=(40, 40)) * 1e6  # half precision alone would overflow
    whole = Statistics.of(values, "hash", "network", (28, 20))
    (tmp_path / "kept.safetensors").write_bytes(packed(whole))
    small = unpacked(tmp_path / "kept.safetensors")
    assert (small.number, small.hash, small.features, small.shape) == (number, "hash", "network", (28, 20))
    trace = (whole.factor**2).sum()
    rounded = np.sqrt(trace) * 2.0**-11 + 40 * np.abs(whole.factor).max() * 2.0**-25  # and what is below its smallest numbers
    assert np.sqrt(frechet(small, whole)) <= rounded
    other = Statistics.of(values[: number // 2] + 1e5)
    assert abs(np.sqrt(frechet(small, other)) - np.sqrt(frechet(whole, other))) <= rounded
    assert (tmp_path / "kept.safetensors").stat().st_size < 40 * 41 + 40 * 8 + 600


def test_kid_is_the_unbiased_discrepancy_of_its_kernel():
    x, y = RNG.normal(size=(7, 5)), RNG.normal(size=(7, 5)) + 1

    def kernel(a, b):
        return (sum(p * q for p, q in zip(a, b, strict=True)) / 5 + 1) ** 3

    same = sum(kernel(s[i], s[j]) for s in (x, y) for i in range(7) for j in range(7) if i != j) / 42
    across = sum(kernel(a, b) for a in x for b in y) / 49
    assert discrepancy(torch.from_numpy(x), torch.from_numpy(y)) == pytest.approx(same - 2 * across, rel=1e-12)
    whole = kid(torch.from_numpy(x), torch.from_numpy(y))  # subsets as large as the sets are the sets
    assert (whole.mean, whole.size) == (pytest.approx(same - 2 * across, rel=1e-12), 7)
    assert whole.std < 1e-12


def test_kid_of_larger_sets_is_the_mean_over_random_subsets_of_both(monkeypatch):
    """Unbiased, so within five standard errors of the whole sets' discrepancy; sorted rows show that subsets are random."""
    monkeypatch.setattr(fid, "SUBSET", 40)
    x, y = (torch.from_numpy(np.sort(RNG.normal(size=(200, 3)), 0)) + shift for shift in (0.0, 0.3))
    found = kid(x, y)
    assert (found.subsets, found.size) == (fid.SUBSETS, 40)
    assert abs(found.mean - discrepancy(x, y)) < 5 * found.std / found.subsets**0.5
    assert found == kid(x, y) != kid(x, y, seed=1)


def brute(x, y):
    return np.sqrt(((x[:, None].astype(np.float64) - y[None].astype(np.float64)) ** 2).sum(-1))


def test_precision_and_recall_are_those_of_a_double_loop(monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK", 7)
    random = np.random.default_rng(0)
    real, samples = (random.normal(size=(n, 3)).astype(np.float32) for n in (120, 90))
    samples = 0.5 * samples + 0.5

    def covered(x, centres, place=3):  # place 0 is the centre itself
        reach = np.sort(brute(centres, centres), 1)[:, place]
        return np.mean([any(row[k] <= reach[k] for k in range(len(centres))) for row in brute(x, centres)])

    found = neighbours.precision_recall(torch.from_numpy(samples), torch.from_numpy(real))
    assert found == (pytest.approx(covered(samples, real)), pytest.approx(covered(real, samples)))
    assert covered(real, samples, 2) < found[1] < covered(real, samples, 4)
    assert 0 < found[1] < found[0] <= 1, "samples of the middle are right but not all there is"
    assert neighbours.precision_recall(torch.from_numpy(real), torch.from_numpy(real)) == (1, 1)
    assert neighbours.precision_recall(torch.from_numpy(real + 100), torch.from_numpy(real)) == (0, 0)


def test_nearest_neighbours_are_those_of_a_sort(monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK", 4)
    x, known = RNG.normal(size=(10, 6)).astype(np.float32), RNG.normal(size=(25, 6)).astype(np.float32)
    found = neighbours.nearest(torch.from_numpy(x), torch.from_numpy(known), 5)
    order = np.argsort(brute(x, known), 1)[:, :5]
    np.testing.assert_array_equal(found.numbers, order)
    np.testing.assert_allclose(found.distances, np.take_along_axis(brute(x, known), order, 1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(28, 28), (64, 48), (400, 350), (299, 299)])
def test_resizing_is_pillows_bicubic_of_each_channel_without_rounding(shape):
    image = RNG.integers(0, 256, (*shape, 3), dtype=np.uint8)
    image[: shape[0] // 2] = 255 * (image[: shape[0] // 2] > 127)  # edges that overshoot
    expected = np.stack(
        [
            np.asarray(Image.fromarray(image[..., c].astype(np.float32)).resize((299, 299), Image.Resampling.BICUBIC))
            for c in range(3)
        ]
    ).clip(0, 255)
    found = prepared(torch.from_numpy(image)[None])[0].numpy() * 128 + 128
    assert np.abs(found - expected).max() < 0.02
    assert shape == (299, 299) or np.abs(found - found.round()).max() > 0.4, "not rounded to whole levels"


def published(folder):
    """A TorchScript archive in the layout of published ones, with weights of its own, and these."""

    class Layer(nn.Module):
        def __init__(self, convolution: nn.Conv2d):
            super().__init__()
            shape, generator = convolution.weight.shape, torch.Generator().manual_seed(convolution.weight.numel())
            self.weight = nn.Parameter(torch.randn(shape, generator=generator) * (2 / shape[1:].numel()) ** 0.5)
            self.beta, self.mean = (nn.Parameter(torch.randn(shape[0], generator=generator) / 10) for _ in range(2))
            self.var = nn.Parameter(torch.rand(shape[0], generator=generator) + 0.5)

        def forward(self, x):
            return x

    class Archive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(Layer(part) for part in InceptionV3().modules() if isinstance(part, Convolution)))
            self.output = nn.Linear(4, 2)  # some have the last layer too, which has no place in features

        def forward(self, x):
            return self.layers(x)

    archive = Archive()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(archive), folder / "inception.pt")
    return folder / "inception.pt", list(archive.layers)


@pytest.fixture(scope="module")
def inception(tmp_path_factory):
    """Both files, and the layers that they are made of."""
    folder = tmp_path_factory.mktemp("inception")
    archive, layers = published(folder)
    state = read_inception(archive).state_dict()
    save_file({name: tensor.half() for name, tensor in state.items()}, folder / "inception.safetensors")
    return archive, folder / "inception.safetensors", layers


def test_folded_convolutions_do_what_convolution_and_normalisation_do(inception):
    archive, _, layers = inception
    network = read_inception(archive)
    convolutions = [part for part in network.modules() if isinstance(part, Convolution)]
    seen = {}
    for part in convolutions:
        part.register_forward_hook(lambda part, given, found: seen.update({part: (given[0].clone(), found.clone())}))
    assert network(torch.randn(1, 3, 90, 90)).shape == (1, 2048)
    assert len(convolutions) == len(layers) == len(seen) == 94
    for part, layer in zip(convolutions, [layer.requires_grad_(False) for layer in layers], strict=True):
        given, found = seen[part]
        plain = F.conv2d(given, layer.weight, stride=part.stride, padding=part.padding)
        expected = F.batch_norm(plain, layer.mean, layer.var, None, layer.beta, eps=1e-3).relu()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_features_of_seeded_weights_are_those_of_a_published_archives_own_program():
    kept = json.loads((Path(__file__).parent / "inception.json").read_text())  # by experiments/parity/fid_helper.py
    network = InceptionV3().eval()
    weights = {name: torch.from_numpy(values) for name, values in inception_weights(kept["layers"]).items()}
    network.load_state_dict(folded(weights))
    with torch.no_grad():
        found = network(prepared(torch.from_numpy(images())))[:, ::EVERY]
    theirs = torch.tensor(kept["features"])
    assert theirs.shape == found.shape == (2, 128)
    assert (found - theirs).abs().max() < 1e-4


def test_half_precision_weights_give_nearly_the_same_features(inception):
    archive, tensors, _ = inception
    x = torch.randn(1, 3, 90, 90)
    whole, half = read_inception(archive)(x), read_inception(tensors)(x)
    assert half.dtype == torch.float32
    assert 0 < (whole - half).norm() < 0.01 * whole.norm()


class Evil:
    def __reduce__(self):
        return (print, ("a pickle ran code",))


def test_an_archive_that_would_run_code_is_refused_and_does_not_run_it(tmp_path, capsys):
    with zipfile.ZipFile(tmp_path / "evil.pt", "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps(Evil(), protocol=2))
    with refused("not an InceptionV3"):
        read_inception(tmp_path / "evil.pt")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x05\x06" + bytes(18), None])
def test_files_that_are_no_inception_are_refused(content, tmp_path):
    path = tmp_path / "some.pt"
    if content is not None:
        path.write_bytes(content)
    with refused("docs/evaluating.md"):
        FeatureNetwork.read(path)
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with refused("docs/evaluating.md"):
        FeatureNetwork.read(tmp_path / "other.safetensors")


def test_a_folder_npy_and_npz_of_the_same_images_give_the_same_features(tmp_path):
    grey = pictures(70, seed=1)
    folder = tmp_path / "folder"
    folder.mkdir()
    for k, image in enumerate(grey):
        Image.fromarray(image).save(folder / f"{k:04d}.png")
    Image.new("L", (50, 50)).save(folder / "sheet.png")  # as `glauber sample --out` leaves it
    np.save(tmp_path / "a.npy", grey)
    np.savez(tmp_path / "a.npz", images=grey)
    found = [tiny().features(read_images(tmp_path / name), Store(None)) for name in ("folder", "a.npy", "a.npz")]
    assert all(holds_images(tmp_path / name, None) for name in ("folder", "a.npy", "a.npz"))
    assert len(found[0].values) == 70 > CHUNK
    for other in found[1:]:
        np.testing.assert_array_equal(other.values, found[0].values)
        assert other.hash == found[0].hash
    grey[69, 5, 5] ^= 1
    assert tiny().features(as_images(grey), Store(None)).hash != found[0].hash


def test_the_report_says_of_how_many_images_each_figure_is():
    samples, real, train = (as_images(pictures(n, seed=n), f"set of {n}") for n in (80, 130, 150))
    report = evaluate_images(samples, real, tiny(), train)
    values = [tiny().features(images, Store(None)).values for images in (samples, real, train)]
    assert report["fid"] == pytest.approx(frechet(Statistics.of(values[0]), Statistics.of(values[1])), rel=1e-12)
    assert (report["samples"]["number"], report["reference"]["number"]) == (80, 130)
    assert report["kid"]["size"] == report["precision_recall_number"] == 80
    spread = np.linspace(0, 129, 80).round().astype(int)  # as many real ones as samples, from all parts of the set
    wanted, of_the_first = (
        neighbours.precision_recall(*map(torch.from_numpy, (values[0], values[1][rows]))) for rows in (spread, np.arange(80))
    )
    assert (report["precision"], report["recall"]) == wanted != of_the_first
    nearest = report["nearest"]
    assert (nearest["number"], nearest["source"]) == (150, "set of 150")
    apart = brute(values[0], values[2])
    assert nearest["median"] == pytest.approx(np.median(apart.min(1)), rel=1e-4)
    assert nearest["median_of_reference"] == pytest.approx(np.median(brute(values[1], values[2]).min(1)), rel=1e-4)
    assert nearest["shown"][0] == apart.min(1).argmin()
    assert nearest["shown"][-1] == apart.min(1).argmax()
    assert [row[0] for row in nearest["neighbours"]] == apart.argmin(1)[nearest["shown"]].tolist()


def test_an_evaluation_that_was_killed_goes_on_and_ends_in_the_same_figures(tmp_path):
    samples, real, partial = as_images(pictures(150, 1)), as_images(pictures(200, 2)), tmp_path / "partial"
    whole = evaluate_images(samples, real, tiny())
    with pytest.raises(KeyboardInterrupt):
        evaluate_images(samples, real, tiny(calls=5), partial=partial)
    with partial.open("ab") as file:
        file.write(partial.read_bytes()[:100])  # a chunk that was cut while it was written
    chunks = sum(-(-images.number // CHUNK) for images in (samples, real))
    assert evaluate_images(samples, real, tiny(calls=chunks - 5), partial=partial) == whole
    assert evaluate_images(samples, real, tiny(calls=0), partial=partial) == whole
    other = FeatureNetwork(Tiny(0).requires_grad_(False), "tiny", "other weights")
    with pytest.raises(KeyboardInterrupt):  # what another network saw is of no use
        evaluate_images(samples, real, other, partial=partial)


def test_fid_against_kept_statistics_is_that_against_the_images(tmp_path):
    samples, real = as_images(pictures(150, 1)), as_images(pictures(200, 2))
    (tmp_path / "real.safetensors").write_bytes(packed(statistics(real, tiny())))
    kept = unpacked(tmp_path / "real.safetensors")
    report, whole = evaluate_images(samples, kept, tiny()), evaluate_images(samples, real, tiny())
    assert report["fid"] == pytest.approx(whole["fid"], rel=1e-3)
    assert {name: report["reference"][name] for name in ("number", "hash")} == {
        name: whole["reference"][name] for name in ("number", "hash")
    }
    assert not {"kid", "precision", "nearest"} & report.keys()
    with refused("other weights"):
        evaluate_images(samples, kept, FeatureNetwork(Tiny().requires_grad_(False), "tiny", "1"))
    with refused("bring them to one size"):
        evaluate_images(as_images(pictures(9, 1, side=7)), kept, tiny())


def test_reconstruction_fid_is_none_for_a_codec_that_loses_nothing_and_grows_with_the_loss():
    real = as_images(pictures(100, 3))
    fids = [evaluate_images(reconstructed(real, PixelCodec((6, 6), n)), real, tiny())["fid"] for n in (256, 16, 2)]
    assert fids[0] < 1e-12
    assert fids[0] < fids[1] < fids[2]


def test_wrong_images_are_refused_in_one_sentence(tmp_path):
    for name, array in {
        "float": np.zeros((3, 4, 4)),
        "flat": np.zeros((3, 4), np.uint8),
        "none": np.zeros((0, 4, 4), np.uint8),
    }.items():
        np.save(tmp_path / f"{name}.npy", array)
        with refused("should be uint8"):
            read_images(tmp_path / f"{name}.npy")
    np.savez(tmp_path / "other.npz", pictures=np.zeros((3, 4, 4), np.uint8))
    for name in ("damaged.npy", "damaged.npz"):
        (tmp_path / name).write_bytes(b"no array")
    for name in ("other.npz", "damaged.npz", "damaged.npy", "missing.npy"):
        with refused('npz with "images"'):
            read_images(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with refused("holds no images"):
        read_images(tmp_path / "empty")
    with refused("name one of these"):
        read_images(tmp_path / "missing")
    (tmp_path / "empty" / "a.png").write_bytes(b"no image")
    with refused("not an image"):
        read_images(tmp_path / "empty")
    Image.new("L", (4, 4)).save(tmp_path / "empty" / "a.png")
    with refused("only one image"):
        statistics(read_images(tmp_path / "empty"), tiny())
    Image.new("L", (5, 4)).save(tmp_path / "empty" / "b.png")
    with refused("5×4 pixels, the first image 4×4"):
        statistics(read_images(tmp_path / "empty"), tiny())
    with refused("bring them to one size"):
        evaluate_images(as_images(pictures(9, 1)), as_images(pictures(9, 1, side=7)), tiny())
    with refused("no statistics"):
        unpacked(tmp_path / "damaged.npy")
    broken = tiny()
    nn.init.constant_(broken.network.layers[-1].bias, torch.nan)
    with refused("not numbers"):
        statistics(as_images(pictures(9, 1)), broken)
    (tmp_path / "partial").write_bytes(b"something else that a user keeps here, forty bytes and more")
    with refused("interrupted evaluation"):
        statistics(as_images(pictures(9, 1)), tiny(), tmp_path / "partial")
    with refused("the same shape"):
        lpips(pictures(2, 1), pictures(3, 1))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return commands.glauber("evaluate", *arguments, env={"PATH": "", "NO_COLOR": "1"})


def test_the_command_judges_images_and_keeps_statistics(inception, tmp_path):
    np.save(tmp_path / "samples.npy", pictures(6, 1, colour=True))
    np.save(tmp_path / "real.npy", pictures(7, 2, colour=True))
    samples, real, weights = tmp_path / "samples.npy", tmp_path / "real.npy", ("--features", inception[1])
    shown = run(samples, "--reference", real, *weights, "--out", tmp_path / "a.json")
    assert shown.returncode == 0, shown.stderr
    report = json.loads((tmp_path / "a.json").read_text())
    assert "6 against 7" in shown.stdout
    assert f"{report['fid']:.3f}" in shown.stdout
    assert str(real) in shown.stdout
    with Image.open(tmp_path / "a-nearest.png") as picture:
        assert picture.width > 5 * 60
    kept = run(real, *weights, "--out", tmp_path / "real.safetensors")
    assert "statistics of 7 images" in kept.stdout, kept.stderr
    again = json.loads(run(samples, "--reference", tmp_path / "real.safetensors", *weights, "--json").stdout)
    assert again["fid"] == pytest.approx(report["fid"], rel=1e-3)
    assert again["reference"]["hash"] == report["reference"]["hash"]
    lossy = json.loads(run(real, "--reconstruct", "patches:3:3", *weights, "--json").stdout)
    assert lossy["fid"] > 0
    assert lossy["samples"]["source"] == f"{real}, encoded and decoded"
    assert lossy["reference"]["hash"] == report["reference"]["hash"]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("a-nearest.png", "a.json", "real.npy", "real.safetensors", "samples.npy")
    ], "nothing else is left"


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ([], "--features"),
        (["--reference", "real.npy", "--judge", "some"], "for texts"),
        (["--features", "missing.pt"], "--reference"),
        (["--reference", "real.npy", "--features", "missing.pt"], "docs/evaluating.md"),
        (["--reference", "real.npy", "--features", "missing.pt", "--out", "real.safetensors"], "statistics of SAMPLES alone"),
    ],
)
def test_the_command_refuses_in_one_sentence(options, about, tmp_path):
    np.save(tmp_path / "real.npy", pictures(3, 1))
    places = [tmp_path / word if word.startswith("real") else word for word in options]
    done = run(tmp_path / "real.npy", *(["--reference", tmp_path / "real.npy"] if not options else places))
    assert done.returncode == 2, done
    assert about in done.stderr
    assert done.stderr.startswith("glauber: ")
    assert done.stderr.count("\n") == 1
