"""What a recording holds is what the chain did."""

import re

import pytest
import torch

import glauber
from glauber.cli.replay import Replay
from glauber.codec import ByteCodec
from glauber.process.draws import new_generator
from glauber.serve.recording import TextRecorder, image_recording
from glauber.serve.replay import PAGE, as_data, bundled
from glauber.tasks.infill import filling
from glauber.tasks.steps import run_alone


@pytest.fixture
def model(models):
    return glauber.load(models / "texts")


def rows(recording, k):
    """Tokens and pieces after k states, as the page makes them."""
    tokens = [list(row) for row in recording["start"]["tokens"]]
    pieces = [list(row) for row in recording["start"]["pieces"]]
    for state in recording["states"][:k]:
        for row, site, token, piece, _ in state["changes"]:
            tokens[row][site], pieces[row][site] = token, piece
    return tokens, pieces


@pytest.mark.parametrize("options", [{}, {"sweeps": 3, "order": "random"}, {"sweeps": 2, "block": 8, "kernel": "reversal"}])
def test_each_state_is_the_chain_s_own(model, options):
    sampler, states = model.sampler(**options), []
    recorder = TextRecorder(model.codec, sampler.schedule)
    record = recorder(torch.zeros(96, dtype=torch.bool), 96)

    def on_step(t, x):
        states.append((sampler.schedule.steps - t, x.tolist()))
        record(t, x)

    sampler.run(2, generator=new_generator(0), on_step=on_step)
    recording = recorder.recording({}, {})
    seen = dict(states)
    assert recording["start"]["tokens"] == seen[0]
    for k, state in enumerate(recording["states"], 1):
        tokens, pieces = rows(recording, k)
        assert tokens == seen[state["step"]]
        assert ["".join(row) for row in pieces] == [model.codec.decode(row) for row in tokens]
    assert tokens == states[-1][1]


def test_a_site_is_settled_from_its_last_visit_on_and_given_ones_never_change(model):
    sampler = model.sampler(sweeps=3, gaps=True)
    text = "it was the [[4]] of [[2]] times"
    recorder = TextRecorder(model.codec, sampler.schedule)
    run_alone(filling(sampler, model.codec, text, 2, new_generator(0), watch=recorder))
    recording = recorder.recording({}, {})
    sites = recording["start"]["sites"]
    assert [k for k, site in enumerate(sites) if site == "gap"] == [11, 12, 13, 14, 19, 20]
    told = [(row, site, kind) for state in recording["states"] for row, site, _, _, kind in state["changes"]]
    assert {site for _, site, _ in told} == {11, 12, 13, 14, 19, 20}
    for row in range(2):
        for site in (11, 12, 13, 14, 19, 20):
            assert [kind for r, s, kind in told if (r, s) == (row, site)] == ["drawn", "drawn", "settled"]


def test_a_text_longer_than_a_row_is_recorded_as_a_whole(model):
    text = "a" * 90 + "[[3]]" + "b" * 120 + "[[2]]" + "c" * 30
    replay = Replay(model, model.sampler(gaps=True), None, "texts", 0, text)
    (filled,) = run_alone(filling(model.sampler(gaps=True), model.codec, text, 1, new_generator(0), watch=replay.watch))
    recording = replay.watch.recording({}, {})
    assert recording["start"]["sites"].count("gap") == 5
    assert recording["start"]["pieces"][0][213] == "·", "a gap that no window has come to yet"
    _, pieces = rows(recording, len(recording["states"]))
    assert "".join(pieces[0]) == filled.text


def test_a_character_of_several_tokens_stands_where_its_last_one_does():
    codec = ByteCodec()
    schedule = glauber.Schedule.round_robin(4, 4, keep=0.0)
    recorder = TextRecorder(codec, schedule)
    record = recorder(torch.zeros(4, dtype=torch.bool), 4)
    record(4, torch.tensor([list(b"abcd")]))
    record(3, torch.tensor([[97, 98, 99, 0xA9]]))
    record(2, torch.tensor([[97, 98, 0xC3, 0xA9]]))
    recording = recorder.recording({}, {})
    assert rows(recording, 1)[1] == [["a", "b", "c", "�"]]
    assert rows(recording, 2)[1] == [["a", "b", "", "é"]], "the piece beside the site that was drawn is another one, too"


def test_pictures_are_recorded_from_the_start_to_the_end(models):
    model = glauber.load(models / "images")
    states = {4: torch.zeros(2, 64, dtype=torch.int64), 2: torch.full((2, 64), 8), 0: torch.full((2, 64), 7)}
    recording = image_recording(model.codec, states, 4, {"model": "images"}, {})
    assert [state["step"] for state in recording["states"]] == [2, 4]
    shown = [state["images"] for state in (recording["start"], *recording["states"])]
    assert all(url.startswith("data:image/png;base64,") for urls in shown for url in urls)
    assert len({urls[0] for urls in shown}) == 3


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028 ' \" & ]]>", "\ud800"])
def test_no_tag_begins_or_ends_in_the_data_of_a_page(text):
    written = as_data({"text": text})
    assert "<" not in written
    assert written.isascii()


def test_modules_are_bundled_once_each_after_those_that_they_import():
    whole = bundled("replay.js")
    names = re.findall(r"^(?:async )?(?:function|const|class) (\w+)", whole, re.MULTILINE)
    assert len(names) == len(set(names)), "two modules of one script have no name in common"
    assert whole.count("export class Recording") == 0
    assert whole.count("class Recording") == 1
    assert whole.index("class Recording") < whole.index("function showReplay")


def test_what_draws_and_what_is_drawn_know_nothing_of_http():
    """One module does; another source of answers can stand in its place."""
    for file in PAGE.glob("*.js"):
        code = re.sub(r"//.*", "", file.read_text(encoding="utf-8"))
        if file.name not in ("api.js", "app.js"):
            assert not re.search(r"\bfetch\(|/v1/models|EventSource|XMLHttp|api\.js", code), file.name


def test_the_page_needs_nothing_from_other_hosts_and_has_no_script_of_its_own():
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(
        r"https?:", "".join(file.read_text(encoding="utf-8") for file in PAGE.iterdir()).replace("http://${", "")
    )
    assert re.findall(r"<script([^>]*)>([^<]*)", html) == [(' type="module" src="app.js"', "")]
    assert "<style" not in html
    assert " style=" not in html
