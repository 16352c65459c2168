"""From a job's events to an answer: all at once, or as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from glauber.serve import limits
from glauber.serve.gate import Refused, error_body
from glauber.serve.job import Busy, Event, Job, TooLate
from glauber.serve.metrics import Metrics

LOOK = 0.5
"""Seconds between two looks at the clock, which runs otherwise once a request has had its turn."""
Render = Callable[[Event], Iterable[str]]
"""The text of an event in a stream."""


def refusal_of(error: BaseException) -> Refused:
    """What an answer says of it: of a user's mistake what it is, of ours no more than that it is ours."""
    if isinstance(error, TooLate):
        return Refused(504, "timeout", f"this took longer than {limits.DEADLINE:.0f} s; ask for less, or come again")
    if isinstance(error, Busy):
        return Refused(429, "rate_limit_error", str(error), **{"retry-after": str(error.seconds)})
    if isinstance(error, ValueError):
        return Refused(400, "invalid_request_error", str(error))
    return Refused(500, "server_error", "the server has failed; its log says more")


async def whole(job: Job, request: Request, metrics: Metrics) -> dict[str, Any]:
    """The answer; who hangs up before gets none, and the work ends."""
    answered = asyncio.ensure_future(_last(job))
    gone = asyncio.ensure_future(_hung_up(request))
    try:
        while not answered.done() and not gone.done():
            if job.late:
                raise refusal_of(job.lateness)
            await asyncio.wait({answered, gone}, timeout=min(LOOK, job.left), return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            metrics.hung_up.inc()
            raise Refused(499, "hung_up", "the client went away")
        return answered.result()
    finally:
        job.cancel()
        for waiting in (answered, gone):
            waiting.cancel()


async def _last(job: Job) -> dict[str, Any]:
    while True:
        event = await job.events.get()
        if event.kind == "error":
            raise refusal_of(event.data)
        if event.kind == "done":
            answer: dict[str, Any] = event.data
            return answer


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def streamed(job: Job, render: Render, metrics: Metrics) -> Response:
    """Events as they come. What goes wrong before the first one is an answer of its own."""
    try:
        first = await _next(job)
    except BaseException:
        job.cancel()
        raise
    if first is not None and first.kind == "error":
        raise refusal_of(first.data)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(job, first, render, metrics), media_type="text/event-stream", headers=headers)


async def _events(job: Job, first: Event | None, render: Render, metrics: Metrics) -> AsyncIterator[str]:
    event, over = first, False
    try:
        while not over:
            if event is None:
                yield ": ping\n\n"
            else:
                over = event.kind in ("done", "error")
                for part in render(event):
                    yield part
            if not over:
                event = await _next(job)
    finally:
        if not over:
            metrics.hung_up.inc()
        job.cancel()


async def _next(job: Job) -> Event | None:
    """None for a ping."""
    try:
        async with asyncio.timeout(min(limits.PING, job.left)):
            return await job.events.get()
    except TimeoutError:
        return Event("error", job.lateness) if job.late else None


def named(event: Event) -> Iterable[str]:
    """As `event:` and `data:`."""
    data = failure(event.data) if event.kind == "error" else event.data
    yield f"event: {event.kind}\ndata: {json.dumps(data)}\n\n"


def failure(error: BaseException) -> dict[str, Any]:
    """As the body of an answer."""
    refused = refusal_of(error)
    return error_body(str(refused), refused.kind)


def completions(identity: str, model: str, usage: bool) -> Render:
    """As OpenAI's chunks."""
    head = {"id": identity, "object": "text_completion", "created": int(time.time()), "model": model}
    said: dict[int, str] = {}

    def chunk(**more: Any) -> str:
        return f"data: {json.dumps(head | more)}\n\n"

    def render(event: Event) -> Iterable[str]:
        if event.kind == "text":
            row, text = event.data
            said[row] = said.get(row, "") + text
            yield chunk(choices=[{"index": row, "text": text, "logprobs": None, "finish_reason": None}])
        elif event.kind == "error":
            yield f"data: {json.dumps(failure(event.data))}\n\n"
        elif event.kind == "done":
            for choice in event.data["choices"]:
                rest = choice["text"].removeprefix(said.get(choice["index"], ""))
                yield chunk(choices=[{**choice, "text": rest}], glauber=event.data["glauber"])
            if usage:
                yield chunk(choices=[], usage=event.data["usage"])
            yield "data: [DONE]\n\n"

    return render
