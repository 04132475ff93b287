"""What stands before the routes: who may ask, how much, how slowly, and what the log may say.

A pure ASGI middleware. It reads a request's body itself, within limits of size and time, so that
no route ever waits for a client; and it logs method, path and status, never a query or a body.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from zlpr.serving.limits import Limits

_log = logging.getLogger("zlpr.serving")
access_log = logging.getLogger("zlpr.serving.access")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN = frozenset(
    {"/", "/app.js", "/app.css", "/docs", "/openapi.json", "/v2/health/live", "/v2/health/ready"}
)
"""Paths that need no token: the page's own files, which hold no data, and what probes ask for."""
LONGEST_LOGGED_PATH = 200
DISCARDED = 4
"""Times the limit of a body that is read to its end all the same, and thrown away: a client that is
cut off while it sends may never read why."""
SECURITY_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        token: that requests must bear; None where anyone may ask.
        hosts: names by which the server may be called, in lower case and without port; None takes
            any. On loopback it must be given: a page from elsewhere whose name is made to resolve
            to 127.0.0.1 (DNS rebinding) calls the server by that name.
    """

    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] | None = None

    def knows(self, authorization: bytes) -> bool:
        """Whether an Authorization header bears the token, in time that tells nothing of it."""
        if self.token is None:
            return True
        scheme, _, given = authorization.partition(b" ")
        digests = (hashlib.sha256(text).digest() for text in (given.strip(), self.token.encode()))
        return hmac.compare_digest(*digests) and scheme.lower() == b"bearer"


class RefusedError(Exception):
    """A request that goes no further.

    Args:
        status: of the answer.
        reason: a sentence for the client.
        headers: beside the usual ones.
    """

    def __init__(self, status: int, reason: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers


class Guard:
    """The middleware.

    Args:
        app: what stands behind it.
        access: who may ask.
        limits: how much, and how slowly.
    """

    def __init__(self, app: App, *, access: Access, limits: Limits) -> None:
        self.app, self.access, self.limits = app, access, limits

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        started, watched = time.perf_counter(), _Watched(send)
        try:
            self._admit(scope)
            body = await self._read(scope, receive)
            await self.app(scope, _replaying(body, receive), watched)
        except RefusedError as refusal:
            await _refuse(watched, refusal)
        except Exception as fault:  # what it says may hold a text, so that the log has its place
            _log.error("%s at %s", type(fault).__name__, _place(fault))
            if not watched.status:
                await _refuse(watched, RefusedError(500, "a fault of the server's; see its log"))
        finally:
            access_log.info(
                "%s %s %s %.0f ms",
                quote(scope["method"][:LONGEST_LOGGED_PATH]),
                quote(scope["path"][:LONGEST_LOGGED_PATH]),
                watched.status or "no answer",
                1000 * (time.perf_counter() - started),
            )

    def _admit(self, scope: Message) -> None:
        """Refuse a request by its head."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self.access.hosts is not None and _name(host) not in self.access.hosts:
            raise RefusedError(421, "this server does not go by that name; see --allow-host")
        origin = headers.get(b"origin")
        if origin is not None and not _same(origin.decode("latin-1"), host):
            raise RefusedError(403, "requests from pages of other sites are refused")
        if scope["path"] not in OPEN and not self.access.knows(headers.get(b"authorization", b"")):
            raise RefusedError(
                401,
                "a token is needed: Authorization: Bearer TOKEN",
                (b"www-authenticate", b"Bearer"),
            )

    async def _read(self, scope: Message, receive: Receive) -> bytes:
        """The body, if it is not too long and not too slow."""
        most = self.limits.body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18:
            raise RefusedError(400, "the content-length is no number")
        if int(declared) > DISCARDED * most:
            raise _too_long(most)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await _collect(receive, most)
        except TimeoutError:
            seconds = self.limits.body_seconds
            raise RefusedError(408, f"the body took more than {seconds:g} seconds") from None


async def _collect(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the client left before its body was whole")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
        if size > most:
            chunks.clear()  # what follows is thrown away
        if size > most and (not more or size > DISCARDED * most):
            raise _too_long(most)
    return b"".join(chunks)


def _too_long(most: int) -> RefusedError:
    return RefusedError(413, f"the body has more than {most:,} bytes; send fewer texts at a time")


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Give the body as one message; what comes after it is that the client leaves."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class _Watched:
    """A `send` that adds the security headers and remembers the status."""

    def __init__(self, send: Send) -> None:
        self.send, self.status = send, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name.lower() for name, _ in message.get("headers", ())}
            added = [header for header in SECURITY_HEADERS if header[0] not in own]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await self.send(message)


async def _refuse(send: Send, refusal: RefusedError) -> None:
    """Answer in one line and close the connection: what follows in it may be half a body."""
    body = json.dumps({"error": str(refusal)}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *refusal.headers,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _place(fault: BaseException) -> str:
    """Where an error was raised."""
    frames = traceback.extract_tb(fault.__traceback__)
    return ", from ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-3:]))


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _same(origin: str, host: str) -> bool:
    """Whether a request comes from a page of this server."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False
