"""Filling, varying, scoring, single sites and images: the answers are the library's own, the streams lead to them."""

import base64
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from serving import CLIENT, L, image_model, running, text_model

from glauber.model import Model

TEXT = "It was the [[4]] of times, it [[3]]"


def stream(served, path: str, **fields) -> list[tuple[str, dict]]:
    """The events of a stream, read as a plain client would."""
    answer = served.post(path, stream=True, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    found = [dict(line.split(": ", 1) for line in block) for block in blocks if not block[0].startswith(":")]
    return [(event["event"], json.loads(event["data"])) for event in found]


def replayed(events: list[tuple[str, dict]]) -> list[list[int]]:
    """The rows in the end, by the changes alone."""
    rows = [list(row) for row in events[0][1]["tokens"]]
    for kind, data in events:
        for row, site, token, _, by in data["changes"] if kind == "state" else []:
            assert by in ("drawn", "noise")
            assert events[0][1]["sites"][site] == "gap"
            rows[row][site] = token
    return rows


@pytest.mark.parametrize("model", ["text", "chain"])
@pytest.mark.parametrize("text", [TEXT, "x" * 60 + "[[2]] and [[3]]" + "y" * 40])
def test_the_states_of_a_stream_lead_to_the_answer_without_one(served, model, text):
    asked = {"model": model, "text": text, "n": 2, "seed": 6}
    events = stream(served, "/v1/infill", **asked)
    answer = served.post("/v1/infill", **asked).json()
    assert [kind for kind, _ in events] == ["start", *["state"] * (len(events) - 2), "done"]
    assert events[-1][1].keys() == answer.keys()
    assert events[-1][1]["fills"] == answer["fills"]
    codec = text_model().text_codec
    assert [codec.decode(row) for row in replayed(events)] == answer["texts"]
    steps = [data["t"] for kind, data in events if kind == "state"]
    assert len(steps) > 5
    begun = events[0][1]
    assert begun["kind"] == "text"
    assert begun["rows"] == 2
    assert [piece for piece, site in zip(begun["pieces"][0], begun["sites"], strict=True) if site == "given"] == list(
        re.sub(r"\[\[.]]", "", text)
    )


def test_what_is_drawn_and_what_is_noise_is_told_apart(served):
    events = stream(served, "/v1/infill", model="chain", text="[[40]]", n=4, seed=1)
    kinds = [by for kind, data in events if kind == "state" for *_, by in data["changes"]]
    assert {"drawn", "noise"} == set(kinds)
    last = {}
    for kind, data in events:
        for row, site, *_, by in data["changes"] if kind == "state" else []:
            last[row, site] = by
    assert set(last.values()) == {"drawn"}, "in the end nothing is noise"
    calls = [data["calls"] for kind, data in events if kind == "state"]
    assert calls == sorted(calls)
    assert calls[-1] <= 3 * L


@pytest.mark.parametrize("every", [1, 5, 1000])
def test_every_so_many_steps_a_state_and_always_the_last(served, every):
    events = stream(served, "/v1/infill", model="chain", text="[[48]]", seed=1, every=every)
    steps = [data["step"] for kind, data in events if kind == "state"]
    assert steps[0] == 0
    assert steps[-1] == 3 * L
    assert all(step % every == 0 for step in steps[:-1])
    assert replayed(events) == [events[-1][1]["fills"][0][0]["tokens"]]


def test_probabilities_are_told_when_they_are_asked_for(served):
    answer = served.post("/v1/infill", model="text", text="It [[3]] so", seed=1, probabilities=True).json()
    assert len(answer["fills"][0][0]["probabilities"]) == 3
    assert "probabilities" not in served.post("/v1/infill", model="text", text="It [[3]] so", seed=1).json()["fills"][0][0]


@pytest.mark.parametrize(
    "options",
    [{"seams": "raw"}, {"best_of": 6}, {"ban_words": ["a"]}, {"text": "It [[1-4]] so", "draws": 4}, {"text": "It [[ ]]"}],
)
def test_what_a_fill_has_to_be_is_as_the_library_has_it(served, options):
    asked = {"text": TEXT, "n": 2, "seed": 6, **options}
    answer = served.post("/v1/infill", model="text", **asked).json()
    own = {("banned" if name == "ban_words" else name): value for name, value in asked.items() if name not in ("n", "text")}
    assert answer["texts"] == text_model().infill(asked["text"], 2, **own)


def test_a_gap_of_unknown_length_cannot_be_watched(served):
    answer = served.post("/v1/infill", model="text", text="It [[1-4]] so", stream=True)
    assert answer.status_code == 400
    assert "give its length" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "options",
    [{}, {"strength": 0}, {"strength": 1}, {"sweeps": 2, "strength": 0.25}, {"kernel": "heat-bath", "temperature": [1.2, 0.8]}],
)
def test_variations_are_the_models_own(served, options):
    answer = served.post("/v1/vary", model="chain", text="It was the best of times", n=2, seed=3, **options).json()
    rest = {name: value for name, value in options.items() if name != "strength"}
    t = round(options.get("strength", 0.5) * rest.get("sweeps", 3) * L)
    assert answer["step"] == t
    assert answer["texts"] == text_model(3).vary("It was the best of times", t, 2, 3, **rest)
    events = stream(served, "/v1/vary", model="chain", text="It was the best of times", n=2, seed=3, **options)
    assert events[-1][1]["texts"] == answer["texts"]
    assert [text_model().text_codec.decode(row) for row in replayed(events)] == answer["texts"]


def test_scores_are_the_models_own(served):
    asked = ["It was the best of times", "it was the worst of times"]
    for options in ({}, {"sweeps": 2, "kernel": "heat-bath", "draws": 3, "seed": 5}):
        answer = served.post("/v1/score", model="text", texts=asked, **options).json()
        expected = text_model().score(asked, **options)
        assert answer.pop("seconds") > 0
        assert answer == pytest.approx(expected)
    assert served.post("/v1/score", model="text", texts=["a"]).json()["standard_error"] is None


def test_the_law_of_one_site_is_the_networks_given_all_others(served):
    text, site = "It was the best", 5
    answer = served.post("/v1/token", model="text", text=text, site=site).json()
    model = text_model()
    x = torch.tensor([[*text.encode()] + [0] * (L - len(text))])
    clean = (torch.arange(L) < len(text)).double()[None]
    with torch.no_grad():
        logits = model.network(x, torch.tensor([L - 1 - site]), clean, torch.tensor([[site]]))
    law = logits[0, 0].double().softmax(-1)
    assert [each["probability"] for each in answer["law"]] == pytest.approx(law.topk(10).values.tolist(), rel=1e-5)
    assert [each["token"] for each in answer["law"]] == law.topk(10).indices.tolist()
    assert answer["token"] == {"token": text.encode()[site], "piece": text[site], "probability": answer["token"]["probability"]}


def test_a_site_is_drawn_anew_from_its_law(served):
    asked = {"model": "text", "text": "It was", "site": 2, "redraw": True}
    law = served.post("/v1/token", **asked).json()["law"]
    drawn = [served.post("/v1/token", **asked, seed=seed, top_k=2).json() for seed in range(30)]
    assert {answer["redrawn"]["token"] for answer in drawn} == {each["token"] for each in law[:2]}
    for answer in drawn:
        assert answer["tokens"] == [73, 116, answer["redrawn"]["token"], 119, 97, 115]
        assert answer["text"] == text_model().text_codec.decode(answer["tokens"])
    assert drawn[3] | {"seconds": 0} == served.post("/v1/token", **asked, seed=3, top_k=2).json() | {"seconds": 0}


def test_tokens_are_taken_where_there_is_no_text(served):
    by_text = served.post("/v1/token", model="text", text="It was", site=1).json()
    assert by_text["law"] == served.post("/v1/token", model="text", tokens=list(b"It was"), site=1).json()["law"]
    law = served.post("/v1/token", model="image", tokens=[0] * 16, site=15).json()["law"]
    assert sum(each["probability"] for each in law) == pytest.approx(1)


def test_a_text_becomes_tokens(served):
    answer = served.post("/v1/tokenize", model="text", text="Aé").json()
    assert answer == {"tokens": [65, 0xC3, 0xA9], "pieces": ["A", "", "é"], "length": L}


def pixels(url: str) -> np.ndarray:
    head, _, content = url.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def as_url(picture: np.ndarray) -> str:
    content = io.BytesIO()
    Image.fromarray(picture).save(content, "png")
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


@pytest.mark.parametrize(
    "options", [{}, {"class": 1, "guidance": 1.5}, {"calls": 8}, {"sweeps": 3, "block": 2, "order": "random"}]
)
def test_images_are_the_models_own(served, options):
    answer = served.post("/v1/images/sample", model="image", n=3, seed=2, **options).json()
    own = {("class_" if name == "class" else name): value for name, value in options.items()}
    assert answer["tokens"] == image_model().sample_tokens(3, 2, **own).tolist()
    for url, image in zip(answer["images"], image_model().sample(3, 2, **own), strict=True):
        assert (pixels(url) == np.asarray(image)).all()
    events = stream(served, "/v1/images/sample", model="image", n=3, seed=2, every=4, **options)
    assert events[0][1]["shape"] == [4, 4]
    states = [data for kind, data in events if kind == "state"]
    assert all(len(data["images"]) == 3 for data in states)
    assert states[-1]["images"] == answer["images"]


def test_an_image_is_filled_in_as_the_model_does_it(served):
    image, mask = (np.arange(16).reshape(4, 4) * 17).astype(np.uint8), np.zeros((4, 4), np.uint8)
    mask[1:3, 1:] = 255
    asked = {"model": "image", "image": as_url(image), "mask": as_url(mask), "n": 2, "seed": 9}
    answer = served.post("/v1/images/inpaint", **asked).json()
    for url, expected in zip(answer["images"], image_model().inpaint(image, mask, 2, 9), strict=True):
        assert (pixels(url) == np.asarray(expected)).all()
        assert (pixels(url)[mask == 0] == image[mask == 0]).all()
    assert stream(served, "/v1/images/inpaint", **asked)[-1][1]["images"] == answer["images"]


def test_the_description_for_programs_names_what_is_answered(served):
    said = CLIENT.get(f"{served.url}/openapi.json").json()
    assert all("422" not in call["responses"] for calls in said["paths"].values() for call in calls.values())
    page = CLIENT.get(f"{served.url}/docs").text
    for path, calls in said["paths"].items():
        assert f"{next(iter(calls)).upper()} {path}</code>" in page
    assert not re.search(r"<script|https?://|style=", page)


def test_what_a_model_is_and_can_do_is_told(served):
    told = {model["id"]: model for model in CLIENT.get(f"{served.url}/v1/models").json()["data"]}
    assert told["text"]["kind"] == "text"
    assert told["text"]["can"]["left_to_right"]
    assert not told["chain"]["can"]["left_to_right"]
    assert told["image"]["shape"] == [4, 4]
    assert told["image"]["classes"] == ["0", "1", "2"]
    assert told["chain"]["sampling"]["sweeps"] == 3
    assert CLIENT.get(f"{served.url}/v1/models/text").json() == told["text"]


def by_steps() -> Model:
    made = image_model()
    return Model(made.network, made.process, made.codec, "udlm")


def test_a_model_that_is_no_chain_draws_images_and_refuses_the_rest():
    with running({"steps": by_steps}) as served:
        answer = served.post("/v1/images/sample", model="steps", n=2, seed=1, calls=8).json()
        assert answer["tokens"] == by_steps().sample_tokens(2, 1, calls=8).tolist()
        assert answer["calls"] == 8
        events = stream(served, "/v1/images/sample", model="steps", n=2, seed=1, calls=8)
        assert events[-1][1]["images"] == answer["images"]
        refused = served.post("/v1/token", model="steps", tokens=[0] * 16, site=1)
        assert refused.status_code == 400
        assert "fill gaps" in refused.json()["error"]["message"]
