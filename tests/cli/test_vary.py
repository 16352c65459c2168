"""The command `vary`, run as a user runs it."""

import json

from program import assert_refused, run

import glauber


def test_a_text_is_varied_as_in_python(texts):
    found = json.loads(run("vary", texts, "--text", "it was", "--strength", 0.5, "-n", 2, "--seed", 1, "--json").stdout)
    assert (found["step"], found["steps"]) == (16, 32)
    assert found["texts"] == glauber.load(texts).vary("it was", 16, 2, seed=1)
    assert run("vary", texts, "--text", "it was", "--strength", 0).stdout == "it was\n"
    assert_refused(run("vary", texts, "--text", "it", "--strength", 2), "from 0 to 1")
    assert_refused(run("vary", texts, "--text", ""), "the text is empty")
