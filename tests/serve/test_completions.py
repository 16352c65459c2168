"""Completions, by OpenAI's own client."""

import asyncio
import json
import math

import openai
import pytest
import torch
from serving import CLIENT, L, text_model

from glauber.process.draws import new_generator
from glauber.serve.fields import Completion
from glauber.serve.job import Job
from glauber.serve.writer import Writer
from glauber.tasks.infill import continuing
from glauber.tasks.steps import run_alone

PROMPT = "It was the"


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def whole_rows(seed: int, n: int = 1) -> list[list[int]]:
    """What follows the prompt when the model writes to the end of its row: an independent way to the same numbers."""
    model = text_model()
    _, rows = run_alone(continuing(model.sampler(gaps=True), model.text_codec, PROMPT, n, new_generator(seed)))
    return rows[:, len(PROMPT) :].tolist()


def as_text(ids: list[int]) -> str:
    return text_model().text_codec.decode(ids)


def test_a_completion_is_how_the_models_own_sample_goes_on(client):
    made = client.completions.create(model="text", prompt=PROMPT, seed=3, n=2, max_tokens=20)
    assert made.object == "text_completion"
    assert [choice.index for choice in made.choices] == [0, 1]
    for choice, ids in zip(made.choices, whole_rows(3, 2), strict=True):
        if 256 not in ids[:20]:
            assert choice.text == as_text(ids[:20])
            assert choice.finish_reason == "length"
    assert made.usage.prompt_tokens == len(PROMPT)
    assert made.usage.total_tokens == len(PROMPT) + made.usage.completion_tokens
    assert made.glauber["seed"] == 3


def test_without_a_seed_one_is_drawn_and_told(client):
    first, second = (client.completions.create(model="text", prompt=PROMPT, max_tokens=20) for _ in range(2))
    assert first.glauber["seed"] != second.glauber["seed"]
    again = client.completions.create(model="text", prompt=PROMPT, max_tokens=20, seed=first.glauber["seed"])
    assert again.choices[0].text == first.choices[0].text != second.choices[0].text


def test_a_suffix_makes_it_an_infill(client):
    made = client.completions.create(model="text", prompt="It [[was", suffix=" times]]", max_tokens=6, seed=5, n=2)
    filled = text_model().infill(r"It \[[was[[6]] times]]", 2, 5)
    assert [f"It [[was{choice.text} times]]" for choice in made.choices] == filled
    assert made.usage.completion_tokens == 12


@pytest.mark.parametrize(("prompt", "suffix"), [("C:\\", " x"), ("a[", "]] x"), ("\\[[4]]", "[[2]]"), ("[[[", "]")])
def test_nothing_that_is_given_around_an_infill_is_a_gap_or_escapes_one(client, prompt, suffix):
    model, codec = text_model(), text_model().text_codec
    before, after = codec.encode(prompt), codec.encode(suffix)
    row, free = torch.tensor([*before, 0, 0, 0, *after]), slice(len(before), len(before) + 3)
    hole = torch.zeros(len(row), dtype=torch.bool)
    hole[free] = True
    same = 0
    for seed in range(12):
        made = client.completions.create(model="text", prompt=prompt, suffix=suffix, max_tokens=3, seed=seed)
        assert made.usage.prompt_tokens == len(before) + len(after)
        first = model.infill_tokens(row, hole, seed=seed, ban=[256])
        same += made.choices[0].text == codec.decode(first[free].tolist())
    assert same >= 3, "but for fills that are drawn again, whose seams are not whole"


def test_an_empty_prompt_begins_anew(client):
    made = client.completions.create(model="text", prompt="", max_tokens=L, seed=1)
    assert made.usage.prompt_tokens == 0
    assert made.choices[0].finish_reason == "stop" or made.usage.completion_tokens == L


def test_a_completion_ends_where_the_text_does(client):
    rows, seed = [[]], 0
    while not any(256 in ids[1:30] for ids in rows):
        seed += 1
        rows = whole_rows(seed, 16)
    made = client.completions.create(model="text", prompt=PROMPT, seed=seed, max_tokens=30, n=16)
    written = [(ids.index(256) if 256 in ids[:30] else 30) for ids in rows]
    for choice, ids, size in zip(made.choices, rows, written, strict=True):
        assert choice.finish_reason == ("stop" if size < 30 else "length")
        assert choice.text == as_text(ids[:size])
    assert made.usage.completion_tokens == sum(written)
    calls = sum(min(size + 1, 30) for size in written) / 16
    assert made.glauber["calls"] == calls, "the network is not called for what comes after the end"


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_stops_before_the_first_of_the_stops(client, stream):
    (ids,) = whole_rows(7)
    text = as_text(ids[:30])
    stops = [text[9:12], text[15:17], "nowhere"]
    cut = min(text.find(stop) for stop in stops[:2])
    made = client.completions.create(model="text", prompt=PROMPT, seed=7, max_tokens=30, stop=stops, stream=stream)
    if stream:
        chunks = [chunk.choices[0] for chunk in made]
        assert "".join(chunk.text for chunk in chunks) == text[:cut]
        assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    else:
        assert made.choices[0].text == text[:cut]
        assert made.choices[0].finish_reason == "stop"
        assert made.glauber["calls"] < 20


def test_what_comes_after_the_end_of_a_row_is_not_looked_at():
    model, loop = text_model(), asyncio.new_event_loop()
    asked = Completion(model="text", prompt="x", stop=["abc", "b"], max_tokens=3, n=2)
    writer = Writer(Job(None, loop), model.sampler(gaps=True), model.text_codec, torch.tensor([120]), asked, asked.stop, False)
    rows = torch.tensor([[120, *b"abc"], [120, *b"xyz"]])
    writer.on_step(L - 3, rows)  # two tokens are there, and the first row has ended
    assert [(piece.text, piece.reason) for piece in writer.pieces(rows)] == [("a", "stop"), ("xyz", "length")]
    loop.close()


@pytest.mark.parametrize("n", [1, 3])
def test_a_stream_says_token_by_token_what_the_answer_says_at_once(client, n):
    for seed in range(4):
        asked = {"model": "text", "prompt": PROMPT, "seed": seed, "max_tokens": 25, "n": n}
        whole = client.completions.create(**asked)
        told, reasons, chunks = [""] * n, [None] * n, 0
        usage = None
        for chunk in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                told[choice.index] += choice.text
                reasons[choice.index] = choice.finish_reason or reasons[choice.index]
                chunks += 1
        assert told == [choice.text for choice in whole.choices]
        assert reasons == [choice.finish_reason for choice in whole.choices]
        assert usage == whole.usage
        assert chunks > n


def test_where_it_does_not_write_from_left_to_right_a_stream_is_one_last_chunk(client):
    asked = {"model": "text", "prompt": PROMPT, "seed": 1, "extra_body": {"sweeps": 2}}
    chunks = list(client.completions.create(**asked, stream=True))
    assert len(chunks) == 1
    assert chunks[0].choices[0].text == client.completions.create(**asked).choices[0].text


def test_temperature_zero_takes_the_likeliest_token_of_each_law(client):
    made = client.completions.create(model="text", prompt=PROMPT, temperature=0, n=2, max_tokens=12, logprobs=1)
    assert made.choices[0].text == made.choices[1].text
    assert all(len(top) == 1 for top in made.choices[0].logprobs.top_logprobs)
    for own, top in zip(made.choices[0].logprobs.token_logprobs, made.choices[0].logprobs.top_logprobs, strict=True):
        assert [own] == list(top.values())


def test_logprobs_are_those_of_the_network_given_what_stands_before(client):
    made = client.completions.create(model="text", prompt=PROMPT, seed=2, max_tokens=10, logprobs=3)
    model, (ids,) = text_model(), whole_rows(2)
    ids = ids[: made.usage.completion_tokens]
    row = torch.tensor([[*PROMPT.encode(), *ids] + [0] * (L - len(PROMPT) - len(ids))])
    with torch.no_grad():
        logits = model.network(row, torch.zeros(1, dtype=torch.int64), torch.ones(1, L).double(), causal_rows=1)
    laws = logits.double().log_softmax(-1)[0, len(PROMPT) :]
    found = made.choices[0].logprobs
    assert found.token_logprobs == pytest.approx([laws[k, token].item() for k, token in enumerate(ids)], abs=1e-5)
    for k, top in enumerate(found.top_logprobs):
        assert list(top.values()) == pytest.approx(laws[k].topk(3).values.tolist(), abs=1e-5)
    assert found.text_offset[0] == len(PROMPT)
    assert all(math.isfinite(value) for value in found.token_logprobs)


def test_logprobs_of_an_infill_are_those_of_the_fill(client):
    made = client.completions.create(model="text", prompt="It", suffix=" times", max_tokens=3, seed=4, logprobs=0)
    asked = {"model": "text", "text": "It[[3]] times", "seed": 4, "probabilities": True}
    fill = CLIENT.post(f"{client.base_url}infill", json=asked).json()["fills"][0][0]
    assert made.choices[0].logprobs.token_logprobs == pytest.approx([math.log(p) for p in fill["probabilities"]], abs=1e-6)


def test_what_does_not_fit_the_models_rows_is_left_out_and_said(client):
    prompt = "abcdefghij" * 6
    made = client.completions.create(model="text", prompt=prompt, max_tokens=8, seed=1)
    short = client.completions.create(model="text", prompt=prompt[-40:], max_tokens=8, seed=1)
    assert made.choices[0].text == short.choices[0].text
    assert "the first 20 of the prompt were left out" in made.glauber["note"]
    assert "note" not in short.glauber
    assert made.usage.prompt_tokens == 60
    between = client.completions.create(model="text", prompt=prompt, suffix=prompt, max_tokens=8, seed=1)
    assert "saw those around the gap" in between.glauber["note"]


REFUSED = {
    "echo": True,
    "best_of": 3,
    "frequency_penalty": 0.5,
    "presence_penalty": -1.0,
    "logit_bias": {"50": 1},
    "user": "me",
    "suffixes": [],
    "max_tokens": 0,
    "temperature": -1,
    "top_p": 0,
    "n": 100,
    "seed": -1,
    "logprobs": 6,
    "stream_options": {"include_usage": True},
    "stop": ["a", "b", "c", "d", "e"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused_by_its_name(client, name):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="text", prompt=PROMPT, extra_body={name: REFUSED[name]})
    assert name in caught.value.body["message"]
    assert "Input" not in caught.value.body["message"] or name not in ("echo", "frequency_penalty", "presence_penalty")
    assert caught.value.body["type"] == "invalid_request_error"


def test_what_asks_for_nothing_is_not_refused(client):
    made = client.completions.create(
        model="text", prompt=PROMPT, echo=False, best_of=1, frequency_penalty=0, presence_penalty=0, logit_bias={}, max_tokens=1
    )
    assert made.choices[0].text
    null = dict.fromkeys(("temperature", "top_p", "n", "seed", "stop", "logprobs", "stream", "suffix", "user"))
    assert client.completions.create(model="text", prompt=PROMPT, max_tokens=1, extra_body=null).choices[0].text


@pytest.mark.parametrize("given", [["a", "b"], [1, 2], 7, None])
def test_a_prompt_is_one_text(client, given):
    with pytest.raises(openai.BadRequestError, match="prompt"):
        client.completions.create(model="text", prompt=given)


def test_errors_are_those_that_the_client_knows(client, served):
    with pytest.raises(openai.NotFoundError, match="/v1/models lists"):
        client.completions.create(model="gpt-4", prompt=PROMPT)
    with pytest.raises(openai.BadRequestError, match="max_tokens is 49"):
        client.completions.create(model="text", prompt=PROMPT, max_tokens=49)
    with pytest.raises(openai.BadRequestError, match="text codec"):
        client.completions.create(model="image", prompt=PROMPT)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="text", messages=[])
    names = [model.id for model in client.models.list()]
    assert names == list(served.service.workers)
    assert client.models.retrieve("text").length == L


def test_an_error_in_a_stream_that_has_not_begun_is_an_answer_of_its_own(served):
    answer = served.post("/v1/completions", model="text", prompt=PROMPT, stream=True, max_tokens=L + 1)
    assert answer.status_code == 400
    assert json.loads(answer.text)["error"]["param"] is None
