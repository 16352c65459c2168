"""The demo, short in the ordinary tests and whole in the slow ones."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from program import assert_refused

import glauber
from glauber.cli.demo_run import run_demo
from glauber.data import load_digits
from glauber.provenance import KEYS


def test_a_short_demo_writes_all_that_it_promises(tmp_path: Path):
    summary = run_demo(tmp_path / "demo", steps=20)
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    assert written == {"samples.png", "chain.gif", "infill.png", "loss.png", "summary.json", "model"}
    kept = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert kept == {name: kept[name] for name in KEYS} | summary
    keys = {"confidence_samples", "confidence_real", "classes", "calls", "steps", "seconds", "loss_before", "loss_after"}
    assert keys <= summary.keys()
    # The chain is exact about its calls: survival falls 1, ¾, ½, ¼ over four visits of 16 sites.
    assert summary["steps"] == 64
    assert abs(summary["calls"] - 40) < 1
    with Image.open(tmp_path / "demo" / "chain.gif") as gif:
        assert gif.n_frames > summary["steps"] / 2  # equal states are merged
    model = glauber.load(tmp_path / "demo" / "model")
    assert model.sample(1, seed=0)[0].size == (8, 8)


def test_the_digits_are_split_into_parts_that_do_not_overlap():
    digits = load_digits()
    assert (len(digits.train), len(digits.held_out)) == (1500, 297)
    assert digits.train.dtype == np.uint8
    assert digits.train.max() == 255
    again = load_digits()
    assert np.array_equal(digits.train, again.train)
    seen = {image.tobytes() for image in digits.train}
    assert not any(image.tobytes() in seen for image in digits.held_out)


@pytest.mark.slow
def test_the_demos_digits_convince_a_classifier(tmp_path: Path):
    summary = run_demo(tmp_path / "demo")
    assert summary["confidence_samples"] >= 0.8 * summary["confidence_real"]
    assert summary["classes"] == 10
    assert summary["confidence_noise"] < summary["confidence_samples"] - 0.1


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path):
    blocked = "import sys; sys.modules['sklearn'] = None; sys.argv = ['glauber', 'demo', '--out', 'x']; "
    result = subprocess.run(
        [sys.executable, "-c", blocked + "from glauber.cli import main; main()"], capture_output=True, text=True, cwd=tmp_path
    )
    assert_refused(result, "pip install 'glauber[demo]'")
    assert not any(tmp_path.iterdir())
