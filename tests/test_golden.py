"""What every option draws and what every method learns is as it was when `golden.json` was made; see `golden`."""

import json
import os
import platform
import subprocess
import sys

import golden
import pytest


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the hashes are of x86-64")
def test_every_sample_fill_score_and_trained_weight_is_as_it_was(tmp_path):
    said = json.loads(golden.FILE.read_text())
    if said["torch"] != golden.RELEASE:
        pytest.skip(f"the hashes were made with torch {said['torch']}, and {golden.RELEASE} may draw and add otherwise")
    words = [sys.executable, golden.__file__, "--out", str(tmp_path / "now.json")]
    done = subprocess.run(words, env=os.environ | golden.ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    was, now = said["cases"], json.loads((tmp_path / "now.json").read_text())["cases"]
    wrong = [
        f"{name}: was {was.get(name, 'not there')}, is {now.get(name, 'not there')}"
        for name in was | now
        if name not in was or name not in now or not golden.agree(was[name], now[name])
    ]
    if wrong:  # and not an assertion, which would cut the list short
        advice = "a change that is meant to alter them says why and runs `make golden`"
        pytest.fail(f"{len(wrong)} of {len(was | now)} cases differ; {advice}:\n" + "\n".join(wrong), pytrace=False)
