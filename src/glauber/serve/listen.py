"""The port: its socket, connections that do nothing, the end."""

import asyncio
import resource
import signal
import socket
from collections import OrderedDict
from contextlib import suppress
from types import FrameType
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from glauber.serve import limits
from glauber.serve.app import Service, make_app
from glauber.serve.gate import Access


class Protocol(H11Protocol):
    """A connection that has to bring a request soon, and is closed before others are refused if there are too many."""

    idle: ClassVar["OrderedDict[Protocol, asyncio.TimerHandle]"] = OrderedDict()

    slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()
        while len(self.connections) > limits.CONNECTIONS and self.idle:
            oldest, timer = self.idle.popitem(last=False)
            timer.cancel()
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._resume()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        """Who does not take an answer is left alone after a while."""
        super().pause_writing()
        self.slow = self.loop.call_later(limits.SLOW, self.transport.abort)

    def resume_writing(self) -> None:
        self._resume()
        super().resume_writing()

    def _resume(self) -> None:
        if self.slow is not None:
            self.slow.cancel()
            self.slow = None

    def _wait(self) -> None:
        self._stop_waiting()
        self.idle[self] = self.loop.call_later(limits.SLOW, self._close)

    def _stop_waiting(self) -> None:
        if (timer := self.idle.pop(self, None)) is not None:
            timer.cancel()

    def _close(self) -> None:
        self.idle.pop(self, None)
        self.transport.close()


class Server(uvicorn.Server):
    """Says when all models are loaded, ends if one cannot be, and finishes what runs when it is told to end."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """As uvicorn's; but the process then ends well, and not by the signal."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = self.service.closing = True

    async def on_tick(self, counter: int) -> bool:
        """See uvicorn's, ten times a second."""
        return self.service.failure is not None or await super().on_tick(counter)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 for a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        why = (error.strerror or str(error)).lower()
        raise ValueError(f"{host}:{port} cannot be listened to ({why}); name another --port, or 0 for a free one") from None
    made.listen(limits.CONNECTIONS)
    return made


def address(made: socket.socket) -> str:
    """As a URL."""
    host, port = made.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_server(service: Service, access: Access) -> Server:
    """All but the socket."""
    config = uvicorn.Config(
        make_app(service, access),
        http=Protocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=limits.CONNECTIONS,
        h11_max_incomplete_event_size=limits.HEADERS,
        timeout_graceful_shutdown=int(limits.DEADLINE),
    )
    return Server(config, service)


def allow_connections() -> None:
    """As many open files as the system lets us have."""
    with suppress(ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard if hard != resource.RLIM_INFINITY else 65536), hard))
