"""Queue, deadline, hanging up, loading, ending; and that the server answers while its models work."""

import json
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commands
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import CLIENT, running, slow_model, text_model

from glauber.serve import limits, tasks

SLOW = {"model": "slow", "text": "[[40]] it [[1]]", "seed": 1}
"""Some two seconds of work."""


def hang_up(served, **asked) -> None:
    """Ask, and go away before the answer."""
    with pytest.raises(httpx.TimeoutException):
        httpx.post(f"{served.url}/v1/infill", json=asked, timeout=0.3)


def calls_of(served, name: str) -> list[int]:
    calls: list[int] = []
    model = served.service.workers[name].model
    model.network.register_forward_pre_hook(lambda *_: calls.append(1))
    return calls


@pytest.fixture
def alone():
    """A server of one slow model, with nothing to do."""
    with running({"slow": slow_model}) as made:
        yield made


def test_a_request_beyond_the_queue_is_told_when_to_come_again(alone, monkeypatch):
    monkeypatch.setattr(limits, "WAITING", 3)
    worker, short = alone.service.workers["slow"], {**SLOW, "text": "[[9]] it [[1]]"}
    with ThreadPoolExecutor(4) as many:
        answers = [many.submit(alone.post, "/v1/infill", **SLOW)]
        alone.wait(lambda: bool(worker.running))
        answers += [many.submit(alone.post, "/v1/infill", **short) for _ in range(3)]
        alone.wait(lambda: worker.queued() == 3)
        refused = alone.post("/v1/infill", **short)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert [answer.result().status_code for answer in answers] == [200] * 4
    assert alone.post("/v1/infill", **short).status_code == 200


def test_requests_that_need_no_chain_count_as_waiting_until_they_are_answered(alone, monkeypatch):
    monkeypatch.setattr(limits, "WAITING", 3)
    worker, texts = alone.service.workers["slow"], tasks.row_texts
    monkeypatch.setattr(tasks, "row_texts", lambda *given: time.sleep(0.5) or texts(*given))
    with ThreadPoolExecutor(3) as many:
        answers = [many.submit(alone.post, "/v1/tokenize", model="slow", text="so") for _ in range(3)]
        alone.wait(lambda: worker.queued() == 3)
        time.sleep(0.1)
        assert alone.post("/v1/tokenize", model="slow", text="so").status_code == 429
        assert [answer.result().status_code for answer in answers] == [200] * 3
    assert alone.post("/v1/tokenize", model="slow", text="so").status_code == 200
    assert worker.queued() == 0


def test_those_that_ask_and_hang_up_fill_no_queue(alone, monkeypatch):
    monkeypatch.setattr(limits, "WAITING", 3)
    worker = alone.service.workers["slow"]
    with ThreadPoolExecutor(1) as many:
        whole = many.submit(alone.post, "/v1/infill", **SLOW)
        alone.wait(lambda: bool(worker.running))
        for _ in range(6):
            with pytest.raises(httpx.TimeoutException):
                httpx.post(f"{alone.url}/v1/infill", json=SLOW, timeout=0.1)
        assert worker.queued() <= 3
        assert whole.result().status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_who_hangs_up_is_not_worked_for(alone, stream):
    calls = calls_of(alone, "slow")
    hang_up(alone, **SLOW) if not stream else leave_stream(alone)
    worker = alone.service.workers["slow"]
    alone.wait(lambda: not worker.running and not worker.waiting, 1)
    done = len(calls)
    assert done < 30
    time.sleep(0.2)
    assert len(calls) == done
    assert alone.service.metrics.hung_up._value.get() == 1


def leave_stream(served) -> None:
    with httpx.stream("POST", f"{served.url}/v1/infill", json={**SLOW, "stream": True}, timeout=20) as answer:
        for number, _ in enumerate(answer.iter_lines()):
            if number == 12:
                break


def test_who_hangs_up_in_the_queue_is_never_begun(alone):
    calls, asked = calls_of(alone, "slow"), {**SLOW, "text": "[[15]] it"}
    assert alone.post("/v1/infill", **asked).status_code == 200
    once = len(calls)
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(lambda: alone.post("/v1/infill", **asked))
        alone.wait(lambda: len(calls) > once)
        hang_up(alone, **{**SLOW, "text": "[[5]] quite another", "sweeps": 3})
        assert answer.result().status_code == 200
    worker = alone.service.workers["slow"]
    alone.wait(lambda: not worker.running and not worker.waiting)
    assert len(calls) == 2 * once


def test_what_is_no_chain_ends_at_the_next_call_too():
    def load():
        model = text_model(3)
        model.network.register_forward_pre_hook(lambda *_: time.sleep(0.05))
        return model

    with running({"slow": load}) as served:
        calls = calls_of(served, "slow")
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{served.url}/v1/score", json={"model": "slow", "texts": ["so"], "draws": 40}, timeout=0.4)
        worker = served.service.workers["slow"]
        served.wait(lambda: not worker.running and not worker.waiting, 1)
        assert 0 < len(calls) < 20


@pytest.mark.parametrize("stream", [False, True])
def test_what_waits_too_long_for_its_turn_is_told_to_come_again(alone, monkeypatch, stream):
    worker = alone.service.workers["slow"]
    with ThreadPoolExecutor(1) as other:
        whole = other.submit(alone.post, "/v1/infill", **SLOW)
        alone.wait(lambda: bool(worker.running))
        monkeypatch.setattr(limits, "PATIENCE", 0.3)
        began = time.monotonic()
        answer = alone.post("/v1/infill", **{**SLOW, "sweeps": 3, "stream": stream})
        assert time.monotonic() - began < 1
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 0
        assert whole.result().status_code == 200, "what has had its turn is let finish"


def test_the_deadline_is_kept_while_the_network_is_at_work(alone, monkeypatch):
    monkeypatch.setattr(limits, "DEADLINE", 0.3)
    alone.service.workers["slow"].model.network.register_forward_pre_hook(lambda *_: time.sleep(1.5))
    began = time.monotonic()
    assert alone.post("/v1/infill", model="slow", text="a[[1]]b").status_code == 504
    assert time.monotonic() - began < 1.2


@pytest.mark.parametrize("stream", [False, True])
def test_what_takes_too_long_ends_and_says_so(alone, monkeypatch, stream):
    monkeypatch.setattr(limits, "DEADLINE", 0.4)
    calls = calls_of(alone, "slow")
    began = time.monotonic()
    answer = alone.post("/v1/infill", **SLOW, stream=stream)
    assert time.monotonic() - began < 1
    if stream:
        event, data = answer.text.strip().rsplit("\n\n", 1)[-1].split("\n")
        assert event == "event: error"
        error = json.loads(data.removeprefix("data: "))["error"]
    else:
        assert answer.status_code == 504
        error = answer.json()["error"]
    assert error["type"] == "timeout"
    time.sleep(0.3)
    assert len(calls) < 15


def test_a_stream_without_news_pings(served, monkeypatch):
    monkeypatch.setattr(limits, "PING", 0.1)
    answer = served.post("/v1/infill", **SLOW, stream=True, every=1000)
    assert answer.text.count(": ping\n\n") > 3
    assert "event: done" in answer.text


def test_health_answers_in_time_while_all_models_work(served):
    asked = [
        {"model": "text", "text": "[[40]] so", "n": 16},
        {"model": "chain", "text": "[[40]] so", "n": 16},
        {"model": "slow", "text": "[[20]] so"},
    ] * 2
    took = []
    with ThreadPoolExecutor(len(asked)) as many:
        answers = [many.submit(lambda one=one: served.post("/v1/infill", **one)) for one in asked]
        while not all(answer.done() for answer in answers):
            began = time.monotonic()
            assert CLIENT.get(f"{served.url}/health").json() == {"status": "ok"}
            took.append(time.monotonic() - began)
            time.sleep(0.02)
        assert all(answer.result().status_code == 200 for answer in answers)
    took.sort()
    assert len(took) > 10
    assert took[len(took) // 2] < 0.1, "in the middle; the bench states the rest"


def test_a_model_that_is_being_loaded_is_said_to_be():
    go = threading.Event()

    def load():
        assert go.wait(20)
        return text_model()

    with running({"text": load}, ready=False) as served:
        served.wait(lambda: served.server.started)
        assert CLIENT.get(f"{served.url}/health").status_code == 503
        assert CLIENT.get(f"{served.url}/health").json() == {"status": "loading"}
        answer = served.post("/v1/infill", model="text", text="a[[1]]")
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert CLIENT.get(f"{served.url}/v1/models").json()["data"][0]["ready"] is False
        go.set()
        served.wait(lambda: CLIENT.get(f"{served.url}/health").status_code == 200)
        assert served.post("/v1/infill", model="text", text="a[[1]]").status_code == 200


def test_a_model_that_cannot_be_loaded_ends_the_server():
    def broken():
        raise ValueError("the weights are damaged")

    with running({"text": broken}, ready=False) as served:
        served.wait(lambda: served.service.failure is not None)
        assert str(served.service.failure) == "the weights are damaged"
        served.wait(lambda: not served.thread.is_alive())


def test_the_metrics_are_read_by_prometheus_own_reader(served):
    served.post("/v1/infill", model="text", text="a[[1]]b")
    answer = CLIENT.get(f"{served.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = {family.name: family for family in text_string_to_metric_families(answer.text)}
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in found["glauber_requests"].samples
    }
    assert samples["glauber_requests_total", (("route", "/v1/infill"), ("status", "200"))] >= 1
    assert {
        "glauber_request_seconds",
        "glauber_chain_rows",
        "glauber_network_calls",
        "glauber_waiting",
        "glauber_hung_up",
    } < set(found)
    routes = {sample.labels["route"] for sample in found["glauber_requests"].samples}
    CLIENT.get(f"{served.url}/made/up/{time.time()}")
    again = {family.name: family for family in text_string_to_metric_families(CLIENT.get(f"{served.url}/metrics").text)}
    assert {sample.labels["route"] for sample in again["glauber_requests"].samples} <= routes | {"other", "/metrics"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A model in a folder, of a chain that takes some seconds."""
    return text_model(3).save(tmp_path_factory.mktemp("models") / "mine")


def start(*words: object, **more) -> tuple[subprocess.Popen, str]:
    """The command, and the address that it prints."""
    began = subprocess.Popen(
        [sys.executable, "-m", "glauber", "serve", *map(str, words), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    line = began.stdout.readline()
    assert " at http://" in line, began.stderr.read()
    return began, line.split(" at ")[1].split()[0]


def wait_ready(url: str) -> None:
    end = time.monotonic() + 60
    while httpx.get(f"{url}/health").status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_sigterm_finishes_what_runs_and_refuses_what_comes(saved):
    server, url = start(saved)
    try:
        wait_ready(url)
        assert [model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]] == ["mine"]
        asked = {"model": "mine", "text": "[[48]]", "n": 16, "sweeps": 8, "seed": 1}
        with ThreadPoolExecutor(2) as many:
            whole = many.submit(lambda: httpx.post(f"{url}/v1/infill", json=asked, timeout=60))
            streamed = many.submit(
                lambda: httpx.post(f"{url}/v1/infill", json={**asked, "stream": True, "every": 100}, timeout=60)
            )
            time.sleep(0.4)
            assert not whole.done()
            server.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            with pytest.raises(httpx.TransportError):
                httpx.post(f"{url}/v1/infill", json=asked, timeout=5)
            assert whole.result().status_code == 200
            assert len(whole.result().json()["texts"]) == 16
            assert "event: done" in streamed.result().text
        assert server.wait(20) == 0
        assert server.stderr.read() == ""
    finally:
        server.kill()
        server.communicate()


@pytest.mark.slow
def test_ctrl_c_ends_the_command_without_a_stack(saved):
    server, url = start(saved)
    try:
        wait_ready(url)
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        assert "Traceback" not in server.stderr.read()
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["novels", "--host", "0.0.0.0"], "give a --key"),
        (["novels", "--host", "203.0.113.9", "--key", "0123456789abcdef"], "cannot be listened to"),
        (["nowhere"], "no model 'nowhere'"),
        (["novels", "novels"], "two models would be called novels"),
        (["novels", "--precision", "fp8"], "precision is fp32 or bf16"),
        (["novels", "--device", "abacus"], "abacus"),
    ],
)
def test_what_the_command_cannot_do_is_one_sentence(words, said, tmp_path):
    done = commands.glauber("serve", *words, "--port", "0", cwd=tmp_path, seconds=60)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_refused(served):
    done = commands.glauber("serve", "novels", "--port", served.url.rpartition(":")[2], seconds=60)
    assert done.returncode == 2
    assert "name another --port" in done.stderr
    assert done.stdout == ""
