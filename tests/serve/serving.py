"""A server in a thread of the tests' own process, with models that are small, seeded and untrained."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import torch

from glauber.codec import ByteCodec
from glauber.codec.pixels import PixelCodec
from glauber.conditional import Transformer, TransformerConfig
from glauber.model import Model
from glauber.process import NoiseLaw, Process, Schedule
from glauber.serve.app import Service
from glauber.serve.gate import Access
from glauber.serve.listen import Server, address, bind, make_server

CLIENT = httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))
L = 48
"""Tokens of a row of text."""


def network(config: TransformerConfig) -> Transformer:
    """With weights so large that its answers depend on all that it sees."""
    made, generator = Transformer(config).eval(), torch.Generator().manual_seed(0)  # of its own: models load in several threads
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return made


def text_model(sweeps: int = 1) -> Model:
    """Bytes, from left to right in one sweep, or a chain of several."""
    config = TransformerConfig(257, L, width=16, layers=2, heads=2, cond_dim=8, causal=True)
    keep: Any = 0.0 if sweeps == 1 else "linear"
    schedule = Schedule.round_robin(L, sweeps * L, keep, "left-to-right")
    return Model(network(config), Process(schedule, NoiseLaw.uniform(257)), ByteCodec())


def image_model() -> Model:
    """Grey squares of 4×4."""
    codec = PixelCodec((4, 4), 8)
    config = TransformerConfig(8, 16, width=16, layers=1, heads=2, cond_dim=8, grid=(4, 4), classes=3)
    process = Process(Schedule.round_robin(16, 32, "linear"), NoiseLaw.uniform(8))
    return Model(network(config), process, codec)


def slow_model() -> Model:
    """As `text_model`, with a pause before each call of its network."""
    model = text_model()
    model.network.register_forward_pre_hook(lambda *_: time.sleep(0.05))
    return model


def shared(worker: Any) -> tuple[float, float]:
    """How many rows the chains of a model have had so far, and how many chains there were."""
    seen = worker.metrics.rows.labels(worker.model_name)
    return seen._sum.get(), sum(bucket.get() for bucket in seen._buckets)


@dataclass
class Served:
    """A server that runs."""

    url: str
    service: Service
    server: Server
    thread: threading.Thread

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """JSON."""
        return CLIENT.post(self.url + path, json=fields)

    def wait(self, what: Callable[[], bool], seconds: float = 20) -> None:
        """Until it is so."""
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "it never was so"
            time.sleep(0.01)


@contextmanager
def running(models: dict[str, Callable[[], Model]], access: Access | None = None, ready: bool = True) -> Iterator[Served]:
    """Ready, unless it need not be, at a free port; ended at the end."""
    access, service = access or Access(), Service(models)
    with bind("127.0.0.1", 0) as socket:
        server = make_server(service, access)
        service.start()
        thread = threading.Thread(target=server.run, args=([socket],))
        served = Served(address(socket), service, server, thread)
        thread.start()
        try:
            served.wait(lambda: not ready or (server.started and service.ready) or service.failure is not None, 60)
            if ready and service.failure is not None:
                raise service.failure
            yield served
        finally:
            server.should_exit = server.force_exit = True
            thread.join(20)
            service.end()
            assert not any(worker.is_alive() for worker in service.workers.values())
            assert not thread.is_alive()
