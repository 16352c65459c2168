"""What a request gets is what it would get alone, whoever shares its chain."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from serving import shared, text_model

from glauber.method import Run
from glauber.process.draws import new_generator
from glauber.serve import fields
from glauber.serve.company import SharedChain, together
from glauber.serve.job import Job
from glauber.tasks.infill import filling
from glauber.tasks.steps import Draw, Steps, run_alone
from glauber.tasks.vary import varying

TEXTS = ["a[[3]]", "It was [[2]] best of [[4]]s, it", "[[7]]the end", "x" * 60 + "[[2]] and [[3]]" + "y" * 40, "one[[12]]two"]
TEXTS.append("z" * 38 + "[[2]]z")
"""Whose chain goes on when the others' have ended, among them that of the text of two windows."""


def job_of(steps: Steps, loop: asyncio.AbstractEventLoop) -> Job:
    job = Job(lambda job, model: steps, loop)
    job.steps = steps
    job.needs(next(steps))
    return job


def results(jobs: list[Job], seen: list[int] | None = None) -> list:
    """Of jobs that share as many chains as they can; how many rows each chain had goes into `seen`."""
    found: dict[int, object] = {}
    waiting = list(jobs)

    def deliver(job: Job, tokens: torch.Tensor) -> None:
        try:
            job.needs(job.steps.send(tokens))
        except StopIteration as done:
            found[id(job)] = done.value
        else:
            waiting.append(job)

    while waiting:
        shared = together(waiting)
        for job in shared:
            waiting.remove(job)
        chain = SharedChain(shared, deliver, lambda job, error: found.setdefault(id(job), error) and job.cancel())
        chain.run()
        if seen is not None:
            seen.append(chain.number)
    return [found.get(id(job)) for job in jobs]


def watched(job: Job, on_step) -> None:
    """Its chain is."""
    job.draw = job.draw._replace(run=replace(job.draw.run, on_step=on_step))


@pytest.fixture
def loop():
    made = asyncio.new_event_loop()
    yield made
    made.close()


def plans():
    chain = text_model(3)
    return {
        "one sweep": text_model().sampler(gaps=True),
        "three sweeps": chain.sampler(gaps=True),
        "blocks": chain.sampler(gaps=True, block=4, order="segments", top_p=0.8, temperature=[1.2, 0.9]),
        "reversal": chain.sampler(gaps=True, kernel="reversal"),
        "marked noise": chain.sampler(gaps=True, mark_noise=True),
    }


@pytest.mark.parametrize("plan", ["one sweep", "blocks", "reversal", "marked noise"])
def test_texts_filled_in_one_chain_are_those_filled_alone(plan, loop):
    sampler, codec = plans()[plan], text_model().text_codec

    def steps(k: int) -> Steps:
        return filling(sampler, codec, TEXTS[k % len(TEXTS)], 2, new_generator(k))

    alone = [run_alone(steps(k)) for k in range(6)]
    seen: list[int] = []
    assert results([job_of(steps(k), loop) for k in range(6)], seen) == alone
    assert max(seen) >= 8, "they did share a chain"
    assert len({each[0].text for each in alone}) == 6


def test_a_gap_of_unknown_length_shares_no_chain_since_its_law_must_be_recorded(loop):
    sampler, codec = plans()["one sweep"], text_model().text_codec
    fixed, free = (job_of(filling(sampler, codec, text, 1, new_generator(0)), loop) for text in ("a[[3]]b", "a[[1-3]]b"))
    assert fixed.key is not None
    assert free.key is None


def test_variations_made_in_one_chain_are_those_made_alone(loop):
    sampler, codec = text_model(3).varying(), text_model().text_codec

    def steps(k: int) -> Steps:
        return varying(sampler, codec, "It was the best of times"[: 10 + k], 96, 2, new_generator(k))

    alone = [run_alone(steps(k)) for k in range(6)]
    seen: list[int] = []
    assert results([job_of(steps(k), loop) for k in range(6)], seen) == alone
    assert seen == [12]


def test_rows_that_hang_up_change_nothing_for_the_others(loop):
    sampler, codec = plans()["three sweeps"], text_model().text_codec
    calls: list[int] = []
    counted = sampler.network.register_forward_pre_hook(lambda _, given: calls.append(len(given[0])))

    def steps(k: int) -> Steps:
        return filling(sampler, codec, "It was [[9]] of times", 2, new_generator(k))

    alone = [run_alone(steps(k)) for k in range(4)]
    calls.clear()
    results([job_of(steps(k), loop) for k in range(4)])
    whole = sum(calls)
    jobs = [job_of(steps(k), loop) for k in range(4)]
    leaving = jobs[1]

    def leave(t: int, x: torch.Tensor) -> None:
        if t < 100:
            leaving.cancel()

    watched(leaving, leave)
    calls.clear()
    found = results(jobs)
    counted.remove()
    assert found[1] is None
    assert [found[k] for k in (0, 2, 3)] == [alone[k] for k in (0, 2, 3)]
    assert sum(calls) < whole - 5, "the network went on for rows that nobody waits for"


def test_a_chain_that_all_have_left_ends_at_the_next_step(loop):
    sampler, codec = plans()["three sweeps"], text_model().text_codec
    jobs = [job_of(filling(sampler, codec, "It was [[9]] of times", 1, new_generator(k)), loop) for k in range(2)]
    steps: list[int] = []

    def leave(t: int, x: torch.Tensor) -> None:
        steps.append(t)
        if len(steps) == 5:
            for job in jobs:
                job.cancel()

    watched(jobs[0], leave)
    assert results(jobs) == [None, None]
    assert len(steps) == 5


def test_what_goes_wrong_for_one_is_no_matter_of_the_others(loop):
    sampler, codec = plans()["three sweeps"], text_model().text_codec

    def steps(k: int) -> Steps:
        return filling(sampler, codec, "It was [[9]] of times", 2, new_generator(k))

    def broken(t: int, x: torch.Tensor) -> None:
        raise OSError("it cannot be shown")

    alone, jobs = [run_alone(steps(k)) for k in range(3)], [job_of(steps(k), loop) for k in range(3)]
    watched(jobs[1], broken)
    found = results(jobs)
    assert str(found[1]) == "it cannot be shown"
    assert [found[0], found[2]] == [alone[0], alone[2]]


def test_only_draws_of_the_same_sampler_time_and_kind_share_a_chain(loop):
    model = text_model()
    one, other, codec = model.sampler(gaps=True), model.sampler(gaps=True), model.text_codec
    kinds = [
        filling(one, codec, "a[[3]]b", 1, None),
        filling(one, codec, "a[[2]]", 1, None),  # a beginning, which a causal network continues
        filling(other, codec, "a[[3]]b", 1, None),
        varying(one, codec, "abc", 12, 1, None),
        varying(one, codec, "abc", 24, 1, None),
    ]
    jobs = [job_of(steps, loop) for steps in kinds]
    assert len({job.key for job in jobs}) == len(kinds)
    assert all(together([job, *jobs]) in ([job], [job, job]) for job in jobs)


def test_a_chain_has_so_many_rows_and_no_more(loop):
    model = text_model()
    sampler, codec = model.sampler(gaps=True), model.text_codec
    jobs = [job_of(filling(sampler, codec, "a[[3]]b", 15, None), loop) for _ in range(6)]
    assert len(together(jobs)) == 4


def test_no_rows_need_no_chain(loop):
    sampler = text_model().sampler()

    def steps() -> Steps:
        yield Draw(sampler, 0, Run())

    assert job_of(steps(), loop).key is None


@pytest.mark.parametrize("model", ["text", "chain"])
def test_the_same_seed_gives_the_same_text_alone_and_among_sixteen_others(served, model):
    kind = text_model() if model == "text" else text_model(3)
    text = "It was the [[5]] of times, it [[4]]"
    for seed in (0, 2**40):
        expected = kind.infill(text, 2, seed)
        assert served.post("/v1/infill", model=model, text=text, n=2, seed=seed).json()["texts"] == expected

        def other(k: int, seed: int = seed) -> list[str]:
            own = text if k == 8 else f"{'so ' * k}[[{1 + k % 5}]] it"[-40:]
            answer = served.post("/v1/infill", model=model, text=own, n=2, seed=seed if k == 8 else 100 + k)
            assert answer.status_code == 200, answer.text
            return answer.json()["texts"]

        before = shared(served.service.workers[model])
        with ThreadPoolExecutor(17) as many:
            assert list(many.map(other, range(17)))[8] == expected
        rows, chains = (now - then for now, then in zip(shared(served.service.workers[model]), before, strict=True))
        assert rows == 34
        assert chains < 17, "they did share chains"


def test_settings_that_are_not_said_are_the_models_own():
    request = fields.Infill(model="text", text="[[1]]", sweeps=2)
    assert request.options == {"sweeps": 2}
    assert json.loads(request.model_dump_json())["kernel"] is None
