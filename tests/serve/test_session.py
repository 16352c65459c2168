"""The models in the box, served: the docs' session by curl, and the texts of `glauber infill`."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commands
import pytest
from serving import running, shared

from glauber.model import load

DOCS = Path(__file__).parents[2] / "docs" / "serve.md"
TEXT = "It was the [[4]] of times"


@pytest.fixture(scope="module")
def boxed():
    with running({name: lambda name=name: load(name) for name in ("novels", "fashion")}) as server:
        yield server


def session() -> list[str]:
    """Its commands."""
    (block,) = re.findall(r"```sh curl\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return block.strip().split("\n\n")


@pytest.mark.parametrize("command", session(), ids=lambda command: re.findall(r"/\S+", command)[0])
def test_the_session_of_the_docs_runs_as_printed(boxed, command):
    assert "localhost:8000" in command
    words = command.replace("localhost:8000", boxed.url.removeprefix("http://")).replace(
        "curl ", "curl -sS --fail-with-body ", 1
    )
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    if "stream" in command:
        assert "event: done" in done.stdout
    elif "/metrics" in command:
        assert "glauber_requests_total" in done.stdout
    else:
        assert isinstance(json.loads(done.stdout), dict)


def test_the_session_asks_every_kind_of_model():
    assert len(session()) > 10


def test_a_stream_whose_fills_are_drawn_again_leads_to_the_answer(boxed):
    asked = {"model": "novels", "text": "He [[1]] his hand", "n": 2, "seed": 1}
    again = 0
    for text in ("He [[1]] his hand", "He unders[[1]] it"):
        lines = boxed.post("/v1/infill", **{**asked, "text": text}, stream=True).text.strip().split("\n\n")
        events = [json.loads(each.split("data: ", 1)[1]) for each in lines if not each.startswith(":")]
        begun, *states, done = events
        rows = begun["tokens"]
        for state in states:
            for row, site, token, *_ in state["changes"]:
                rows[row][site] = token
        again += sum(state["step"] == 0 for state in states) - 1
        assert done["texts"] == boxed.post("/v1/infill", **{**asked, "text": text}).json()["texts"]
        gap = begun["sites"].index("gap")
        assert [[row[gap]] for row in rows] == [fills[0]["tokens"] for fills in done["fills"]]
    assert again > 0, "none was drawn again"


def by_the_command(seeds: range) -> list[str]:
    """What `glauber infill` prints for each seed."""
    words = "infill", "novels", "--text", TEXT, "--json", "--seed"
    return [json.loads(commands.glauber(*words, seed).stdout)["texts"][0] for seed in seeds]


def served_among_others(boxed, seed: int) -> str:
    """What the server says for a seed while 16 others ask for other things."""

    def ask(k: int) -> str:
        if k == 8:
            return boxed.post("/v1/infill", model="novels", text=TEXT, seed=seed).json()["texts"][0]
        answer = boxed.post("/v1/infill", model="novels", text="He had " * (1 + k % 3) + "[[1]] to", seed=k, seams="raw")
        assert answer.status_code == 200
        return answer.json()["texts"][0]

    with ThreadPoolExecutor(17) as many:
        return list(many.map(ask, range(17)))[8]


def compare(boxed, seeds: range) -> None:
    expected = by_the_command(seeds)
    assert [boxed.post("/v1/infill", model="novels", text=TEXT, seed=seed).json()["texts"][0] for seed in seeds] == expected
    before = shared(boxed.service.workers["novels"])
    assert [served_among_others(boxed, seed) for seed in seeds] == expected
    assert len(set(expected)) == len(expected)
    rows, chains = (now - then for now, then in zip(shared(boxed.service.workers["novels"]), before, strict=True))
    assert rows >= 17 * len(seeds)
    assert chains < rows / 1.5, "they did share chains"


def test_a_seed_gives_the_text_of_the_command_alone_and_among_sixteen_others(boxed):
    compare(boxed, range(1))


@pytest.mark.slow
def test_a_hundred_seeds_give_the_texts_of_the_command_alone_and_among_sixteen_others(boxed):
    compare(boxed, range(100))
