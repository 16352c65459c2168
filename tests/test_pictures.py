"""Pictures of the chain: the strips of the paper's figure, the film, and the commands that make them."""

import subprocess

import commands
import numpy as np
import pytest
import torch
from PIL import Image

from glauber import Model, NoiseLaw, PatchCodec, Process, Schedule
from glauber.conditional import Transformer, TransformerConfig
from glauber.pictures import FAINT, FRAMES, Film, decoded, film_times, noising, strip_times


def model(codec: bool = True, **sampling) -> Model:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(8, 16, width=16, layers=1, heads=1))
    process = Process(Schedule.round_robin(16, 64, keep="linear"), NoiseLaw.uniform(8))
    centres = torch.rand(8, 4, generator=torch.Generator().manual_seed(0)) * 255
    return Model(network, process, PatchCodec(centres, 2, (8, 8)) if codec else None, sampling=sampling)


def test_the_papers_schedule_is_looked_at_where_the_paper_looks():
    """Its figure has t = 0, 256, 512, 768, 1024, 2048, 3072, 4095 of 4096."""
    schedule = Schedule.round_robin(1024, 4096, keep=0.5)
    assert strip_times(schedule) == [0, 256, 512, 768, 1024, 2048, 3072, 4096]


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("sweeps", [1, 3, 40])
def test_the_times_of_strips_and_films_are_times_of_the_chain_from_the_noise_to_the_end(sweeps, block):
    schedule = Schedule.round_robin(16, 16 * sweeps, keep="linear", block=block)
    states = [*schedule.times, schedule.steps]
    for times in (strip_times(schedule), film_times(schedule)):
        assert times[0] == 0
        assert times[-1] == schedule.steps
        assert set(times) <= set(states)
        assert times == sorted(set(times))
    assert len(strip_times(schedule)) <= 8
    assert len(film_times(schedule)) == min(FRAMES, len(states))


def test_a_film_holds_the_states_that_the_chain_shows_and_changes_nothing():
    it = model()
    film = Film([0, 16, 64])
    x = it.sample_tokens(5, seed=0, on_step=film)
    assert torch.equal(x, it.sample_tokens(5, seed=0))
    assert sorted(film.states) == [0, 16, 64]
    assert torch.equal(film.states[0], x)


def test_noise_falls_as_the_process_says_and_never_rises():
    """Each site is clean with its survival at that time (10 standard deviations), and what is noise once stays so."""
    process = Process(Schedule.round_robin(4, 12, keep=[0.7, 0.5, 0.0]), NoiseLaw.uniform(1000))
    x0 = torch.zeros(4000, 4, dtype=torch.int64)
    states = noising(process, x0, range(13), torch.Generator().manual_seed(0))
    assert torch.equal(states[0], x0)
    for t in range(13):
        S = process.schedule.survival(torch.tensor([t]))[0]
        clean = S + (1 - S) / 1000
        off = ((states[t] == 0).double().mean(0) - clean).abs()
        assert (off <= 10 * (clean * (1 - clean) / 4000).sqrt() + 1e-12).all()
        assert t == 0 or ((states[t] == 0) <= (states[t - 1] == 0)).all()


def test_a_masked_token_is_a_faint_square():
    codec = model().codec
    x = torch.zeros(1, 16, dtype=torch.int64)
    x[0, 5] = codec.vocab
    images = decoded(codec, x)
    assert (images[0, 2:4, 2:4] == FAINT).all()
    plain = decoded(codec, torch.zeros(1, 16, dtype=torch.int64))
    images[0, 2:4, 2:4] = plain[0, 2:4, 2:4]
    assert np.array_equal(images, plain)


def glauber(*arguments, cwd) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*arguments, cwd=cwd)


@pytest.mark.parametrize("mark_noise", [False, True])
def test_sample_makes_a_strip_and_a_gif_of_the_same_samples(tmp_path, mark_noise):
    folder = model(mark_noise=mark_noise).save(tmp_path / "model")
    made = glauber(
        "sample", folder, "-n", 3, "--seed", 0, "--strip", "strip.png", "--gif", "chain.gif", "--out", "a", cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[1:] == ["strip.png", "chain.gif"]
    assert glauber("sample", folder, "-n", 3, "--seed", 0, "--out", "b", cwd=tmp_path).returncode == 0
    for name in ("0000.png", "0001.png", "0002.png", "sheet.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with Image.open(tmp_path / "strip.png") as strip, Image.open(tmp_path / "chain.gif") as film:
        strip.load()
        assert film.n_frames > 30  # of 65 states, those that look the same are one
        assert strip.width > 8 * 8 * 16
    before = (tmp_path / "strip.png").read_bytes()
    again = glauber("sample", folder, "--strip", "strip.png", cwd=tmp_path)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "name another file with --strip" in again.stderr
    assert (tmp_path / "strip.png").read_bytes() == before


def test_a_model_without_images_has_no_pictures(tmp_path):
    folder = model(codec=False).save(tmp_path / "model")
    done = glauber("sample", folder, "--gif", "chain.gif", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "makes no images" in done.stderr
    assert not (tmp_path / "chain.gif").exists()
