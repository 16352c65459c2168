"""What every request passes first: who may ask, how much may be sent and for how long; and what every answer says."""

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from glauber.serve import limits
from glauber.serve.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = "; ".join(
    [
        "default-src 'self'",
        "img-src 'self' data: blob:",
        *(f"{kind} 'none'" for kind in ("object-src", "base-uri", "frame-ancestors")),
        "form-action 'self'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SHORTEST = 16
"""Characters of a key."""
CLOSED = ("/v1/", "/metrics")
"""What a key opens."""


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Args:
        host: the address that is listened to.
        key: that requests have to bring; needed for an address that others reach.
    """

    host: str = "127.0.0.1"
    key: str | None = None


def require_access(host: str, key: str | None) -> Access:
    """Refuse to be reached by others without a key."""
    if key is not None and (len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError(f"a key has at least {SHORTEST} characters, letters and digits; e.g. one of: openssl rand -hex 16")
    if key is None and host.lower() not in LOOPBACK:
        raise ValueError(f"whoever reaches {host} could use the models; give a --key, or leave --host out")
    return Access(host, key)


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, kind: str, message: str, **headers: str):
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers


def error_body(message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    """As OpenAI's."""
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


class Gate:
    """Around the whole application."""

    def __init__(self, app: App, access: Access, metrics: Metrics):
        self.app, self.access, self.metrics = app, access, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        answer = Answer(send, scope["path"])
        began = time.monotonic()
        try:
            headers = self._headers(scope)
            self._check(scope, headers)
            body = await self._body(headers, receive)
            await self.app(scope, _replayed(body, receive), answer)
        except Refused as refused:
            await answer.refuse(refused)
        finally:
            route = getattr(scope.get("route"), "path", None) or "other"
            self.metrics.requests.labels(route, str(answer.status or "none")).inc()
            self.metrics.seconds.labels(route).observe(time.monotonic() - began)

    @staticmethod
    def _headers(scope: Scope) -> dict[bytes, bytes]:
        """By their names; what is said twice says nothing that can be trusted."""
        found: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in found and name in (b"host", b"origin", b"authorization", b"content-type", b"content-length"):
                raise Refused(400, "invalid_request_error", "a header is said twice")
            found[name] = value
        return found

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = _name(host)
        if not name or (self.access.key is None and name not in {*LOOPBACK, self.access.host.lower()}):
            raise Refused(403, "forbidden", "this host name is not served; use the address that the server printed")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if b"origin" in headers and origin not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, "forbidden", "pages of another origin are not served")
        if self.access.key is not None and scope["path"].startswith(CLOSED):
            self._check_key(self.access.key, headers)
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if scope["method"] == "POST" and kind != b"application/json":
            raise Refused(415, "invalid_request_error", "the body has to be JSON, with content-type: application/json")

    @staticmethod
    def _check_key(key: str, headers: dict[bytes, bytes]) -> None:
        if not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + key.encode()):
            said = {"www-authenticate": "Bearer"}
            raise Refused(401, "authentication_error", "say the server's key as Authorization: Bearer …", **said)

    @staticmethod
    async def _body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """All of it, soon and not too much."""
        too_much = Refused(413, "invalid_request_error", f"a request has at most {limits.BODY:,} bytes", connection="close")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limits.BODY:
            raise too_much
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.SLOW):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "invalid_request_error", "the request ended too early")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limits.BODY:
                        raise too_much
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            message_ = f"the request did not arrive within {limits.SLOW:.0f} s"
            raise Refused(408, "timeout", message_, connection="close") from None


def _name(host: str) -> str:
    """Without the port; empty where it is no host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The whole body at once, and then what comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


class Answer:
    """What is sent, with our headers."""

    def __init__(self, send: Send, path: str):
        self.send, self.path, self.status = send, path, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name.lower() for name, _ in message.get("headers", [])}
            more = HEADERS | ({"cache-control": "no-store"} if self.path.startswith(CLOSED) else {})
            added = [(name.encode(), value.encode()) for name, value in more.items() if name.encode() not in own]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await self.send(message)

    async def refuse(self, refused: Refused) -> None:
        """In one sentence."""
        content = json.dumps(error_body(str(refused), refused.kind)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), **refused.headers}
        coded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": refused.status, "headers": coded})
        await self({"type": "http.response.body", "body": content})
