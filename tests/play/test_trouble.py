"""What the page says when the model is busy, gone or slow, and what it keeps."""

import json
import time

import pytest
from visits import Served, button, cards, fill, ready, text_of, write

pytestmark = pytest.mark.browser

BUSY = {"error": {"message": "the model has 32 requests waiting; come again in 3 s", "type": "rate_limit_error"}}


def test_a_busy_model_is_said_and_asked_again(page, visit):
    visit.expected.append("429")
    write(page, "it was [[3]]")
    answers = {"status": 429, "headers": {"Retry-After": "3"}, "content_type": "application/json", "body": json.dumps(BUSY)}
    page.route("**/v1/infill", lambda route: route.fulfill(**answers), times=1)
    button(page, "Fill").click()
    page.get_by_text("32 requests waiting; come again in 3 s").wait_for()
    assert text_of(page) == "it was [[3]]"
    button(page, "Try again").click()
    page.get_by_text("2 fills in").wait_for()
    assert len(cards(page)) == 2


def test_a_server_that_is_gone_is_said_and_what_was_typed_is_kept(visit, models):
    visit.expected += ["ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET"]
    server = Served(models)
    page = ready(visit.open(server.url))
    write(page, "it was [[3]]")
    fill(page, 2)
    shown = cards(page)
    server.end()
    button(page, "Fill").click()
    page.get_by_text("The server cannot be reached").wait_for()
    assert text_of(page) == "it was [[3]]"
    assert cards(page) == shown
    server.begin()
    server.wait()
    button(page, "Try again").click()
    page.get_by_text("2 fills in").wait_for()
    assert cards(page) != shown
    server.end()


def test_a_server_that_stays_away_is_said_as_often_as_it_is_asked(page, visit):
    visit.expected.append("ERR_FAILED")
    page.route("**/v1/models", lambda route: route.abort(), times=3)
    page.reload()
    for _ in range(3):
        page.get_by_text("The server cannot be reached").wait_for()
        button(page, "Try again").click()
        page.wait_for_load_state("networkidle")
    fill(ready(page), 2)


def test_a_stream_that_breaks_off_is_said(page, visit):
    write(page, "it was [[3]]")
    page.route("**/v1/infill", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=": ping\n\n"))
    button(page, "Fill").click()
    page.get_by_text("The server cannot be reached").wait_for()
    assert text_of(page) == "it was [[3]]"


def test_a_slow_model_is_said_and_can_be_stopped(page):
    write(page, "it was [[3]]")
    page.route("**/v1/infill", lambda route: None)
    button(page, "Fill").click()
    page.get_by_text("The model is slow").wait_for()
    button(page, "Stop").click()
    page.get_by_text("Stopped.").wait_for()
    assert text_of(page) == "it was [[3]]"
    page.unroute("**/v1/infill")
    fill(page, 2)


def test_a_chain_is_stopped_in_the_midst_and_the_server_learns_of_it(page):
    write(page, "[[90]]")
    page.get_by_label("How many fills").fill("8")
    page.get_by_label("Sweeps").evaluate("(field) => { field.value = 20; field.dispatchEvent(new Event('change')); }")
    button(page, "Fill").click()
    page.locator(".tokens .drawn").first.wait_for()
    button(page, "Stop").click()
    page.get_by_text("Stopped.").wait_for()
    page.get_by_label("Sweeps").evaluate("(field) => { field.value = 1; field.dispatchEvent(new Event('change')); }")
    began = time.monotonic()
    fill(page, 1)
    assert time.monotonic() - began < 5, "the worker does not go on with what nobody waits for"


def test_a_mistake_is_said_in_the_server_s_own_words(page, visit):
    visit.expected.append("400")
    write(page, "a [[3]] and [[more]]")
    button(page, "Fill").click()
    page.get_by_text("is no gap; write [[12]] where 12 tokens are missing").wait_for()


def test_the_server_s_guards_hold_for_the_page(page, served, visit):
    """It is one origin with a policy that runs no other script, and each call is JSON of that origin."""
    visit.expected += ["Content Security Policy", "x:"]
    seen = []
    page.on("response", lambda response: seen.append((response.url, response.request, response.headers)))
    page.reload()
    ready(page)
    write(page, "it was [[3]]")
    fill(page, 1)
    assert {url for url, _, _ in seen} >= {f"{served.url}/", f"{served.url}/v1/models", f"{served.url}/v1/infill"}
    for url, request, headers in seen:
        assert url.startswith(served.url)
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy or "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert request.method in ("GET", "POST")
        if request.method == "POST":
            assert request.headers["content-type"] == "application/json"
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x: onerror=\"window.hit = 1\">')")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None


def test_a_page_of_another_origin_gets_nothing(page, served, visit):
    visit.wrong.clear()
    visit.expected += ["CORS", "ERR_FAILED", "403", served.url, "localhost"]
    other = visit.context.new_page()
    other.goto(served.url.replace("127.0.0.1", "localhost"))
    asked = "(url) => fetch(url + '/v1/models').then((answer) => answer.text(), () => 'refused')"
    assert other.evaluate(asked, served.url) == "refused"


def test_a_server_with_a_key_is_asked_with_it(visit, models, browser):
    visit.expected.append("401")
    server = Served(models, command="serve", words=("--key", "a-key-of-many-letters"))
    page = visit.open(server.url)
    page.get_by_label("The server's key").fill("a-key-of-many-letters")
    button(page, "Use this key").click()
    ready(page)
    write(page, "it was [[3]]")
    fill(page, 1)
    server.end()
