"""The application: which path asks which model for what."""

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from glauber import __version__
from glauber.model import Model
from glauber.sampler import Sampler
from glauber.serve import completion, fields, pictures, reference, tasks
from glauber.serve.about import about
from glauber.serve.gate import Access, Gate, Refused, error_body
from glauber.serve.job import Busy, Job, Task
from glauber.serve.metrics import Metrics
from glauber.serve.stream import completions, named, refusal_of, streamed, whole
from glauber.serve.worker import Worker

PAGE = Path(__file__).with_name("page")
NOTHING = "there is nothing here; /docs lists what there is"
SAID = {"extra_forbidden": "is not served here", "literal_error": "is served as {expected} alone"}
"""Of what is wrong with a field, where pydantic says it worse."""
Load = Callable[[], Model]


class Service:
    """The models of a server and their workers.

    Args:
        models: how each is loaded, by its name.
    """

    def __init__(self, models: dict[str, Load]):
        self.metrics = Metrics()
        self.workers = {name: Worker(name, load, self.metrics) for name, load in models.items()}
        for name, worker in self.workers.items():
            self.metrics.waiting.labels(name).set_function(worker.queued)
        self.began = int(time.time())
        self.closing = False

    def start(self) -> None:
        """Load, each in its own thread."""
        for worker in self.workers.values():
            worker.start()

    def end(self, seconds: float = 10.0) -> None:
        """Nobody is served any more."""
        for worker in self.workers.values():
            worker.end(seconds)

    @property
    def ready(self) -> bool:
        return not self.closing and all(worker.model is not None for worker in self.workers.values())

    @property
    def failure(self) -> BaseException | None:
        """Of a model that could not be loaded."""
        return next((worker.failure for worker in self.workers.values() if worker.failure is not None), None)

    def about(self, name: str) -> dict[str, Any]:
        """For /v1/models."""
        return about(name, self.workers[name].model, self.began)

    def job(self, name: str, make: Callable[[tasks.Make], Task]) -> Job:
        """A request on its way to the model of this name."""
        worker = self.workers.get(name)
        if worker is None:
            raise Refused(404, "not_found_error", "there is no model of this name; /v1/models lists those that are served")
        if self.closing or worker.model is None:
            why = "the server is about to end" if self.closing else "the model is being loaded"
            raise Refused(503, "unavailable", f"{why}; come again", **{"retry-after": "2"})

        def samplers(request: fields.Strict, build: Callable[[dict[str, Any]], Sampler]) -> Sampler:
            options = request.options
            key = type(request).__name__, repr(sorted(options.items()))
            return worker.sampler(key, lambda: build(options))

        job = Job(make(samplers), asyncio.get_running_loop())
        try:
            worker.submit(job)
        except Busy as busy:
            raise refusal_of(busy) from None
        return job


def make_app(service: Service, access: Access) -> Gate:
    """The application behind its gate."""
    app = FastAPI(title="Glauber", version=__version__, docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    _add_errors(app)
    _add_facts(app, service)
    _add_tasks(app, service)
    reference.add(app)
    app.add_api_route("/v1/{path:path}", _nothing, methods=["GET", "POST"], include_in_schema=False)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return Gate(app, access, service.metrics)


def _nothing(path: str) -> None:
    raise Refused(404, "not_found_error", NOTHING)


def _add_facts(app: FastAPI, service: Service) -> None:
    @app.get("/health", summary="Whether all models are loaded")
    async def health() -> JSONResponse:
        state = "ok" if service.ready else "ending" if service.closing else "loading"
        return JSONResponse({"status": state}, 200 if service.ready else 503)

    @app.get("/metrics", summary="For Prometheus")
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models", summary="The models and what they can do")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [service.about(name) for name in service.workers]}

    @app.get("/v1/models/{name:path}", summary="One model")
    async def model(name: str) -> dict[str, Any]:
        if name not in service.workers:
            raise Refused(404, "not_found_error", "there is no model of this name; /v1/models lists those that are served")
        return service.about(name)


def _add_tasks(app: FastAPI, service: Service) -> None:
    async def answer(request: Request, body: fields.Strict, make: Callable[[Any], Task], stream: bool = False) -> Any:
        job = service.job(body.model, make)
        return await (streamed(job, named, service.metrics) if stream else whole(job, request, service.metrics))

    def seed_of(body: Any) -> int:
        return secrets.randbits(48) if body.seed is None else int(body.seed)

    @app.post("/v1/completions", summary="As OpenAI's: a prompt that is continued, or filled up to a suffix")
    async def complete(body: fields.Completion, request: Request) -> Any:
        seed, identity = seed_of(body), completion.new_id()
        job = service.job(body.model, lambda samplers: completion.completion(body, seed, samplers))
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            return await streamed(job, completions(identity, body.model, usage), service.metrics)
        head = {"id": identity, "object": "text_completion", "created": int(time.time()), "model": body.model}
        return head | await whole(job, request, service.metrics)

    @app.post("/v1/infill", summary="A text whose gaps [[12]] are filled in")
    async def infill(body: fields.Infill, request: Request) -> Any:
        return await answer(request, body, lambda samplers: tasks.infill(body, seed_of(body), samplers), body.stream)

    @app.post("/v1/vary", summary="Variations of a text")
    async def vary(body: fields.Vary, request: Request) -> Any:
        return await answer(request, body, lambda samplers: tasks.vary(body, seed_of(body), samplers), body.stream)

    @app.post("/v1/score", summary="How likely texts are")
    async def score(body: fields.Score, request: Request) -> Any:
        return await answer(request, body, lambda samplers: tasks.score(body, samplers))

    @app.post("/v1/tokenize", summary="A text as tokens")
    async def tokenize(body: fields.Tokenize, request: Request) -> Any:
        return await answer(request, body, lambda _: tasks.tokenize(body))

    @app.post("/v1/token", summary="One site: its law given all others, and one redraw")
    async def token(body: fields.OneSite, request: Request) -> Any:
        return await answer(request, body, lambda samplers: tasks.one_site(body, seed_of(body), samplers))

    @app.post("/v1/images/sample", summary="Images")
    async def sample(body: fields.Images, request: Request) -> Any:
        return await answer(request, body, lambda samplers: pictures.sample(body, seed_of(body), samplers), body.stream)

    @app.post("/v1/images/inpaint", summary="An image whose white part of the mask is filled in")
    async def inpaint(body: fields.Inpaint, request: Request) -> Any:
        return await answer(request, body, lambda samplers: pictures.inpaint(body, seed_of(body), samplers), body.stream)


def _add_errors(app: FastAPI) -> None:
    def refuse(refused: Refused, param: str | None = None) -> JSONResponse:
        return JSONResponse(error_body(str(refused), refused.kind, param), refused.status, refused.headers)

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return refuse(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = [part for part in first["loc"] if part != "body" and isinstance(part, str)]
        param = place[0] if place else None
        kind = first["type"]
        what = SAID[kind].format(**first.get("ctx", {})) if kind in SAID else first["msg"]
        return refuse(Refused(400, "invalid_request_error", f"{param or 'the body'}: {what}"[:500]), param)

    @app.exception_handler(HTTPException)
    async def usual(request: Request, error: HTTPException) -> JSONResponse:
        said = {404: NOTHING, 405: "this path takes another method; see /docs"}
        kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
        message = said.get(error.status_code, "the body is not JSON that can be read")
        return refuse(Refused(error.status_code, kind, message, **dict(error.headers or {})))

    async def failed(request: Request, error: Exception) -> JSONResponse:
        return refuse(refusal_of(error))

    for kind in (ValueError, Exception):
        app.exception_handler(kind)(failed)
