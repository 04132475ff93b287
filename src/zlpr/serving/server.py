"""The service on a socket: bound, run by uvicorn, stopped with nothing lost."""

import contextlib
import errno
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from zlpr._errors import UserError
from zlpr.serving.guard import LOOPBACK, Access, Guard
from zlpr.serving.limits import Limits

if TYPE_CHECKING:
    import uvicorn

SHORTEST_TOKEN = 16
BACKLOG = 2048


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, which nobody else reaches.

    Examples:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """The token that a file holds.

    Raises:
        UserError: there is none, or one that is easily guessed.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if len(token) < SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise UserError(
            f"{path}: expected a token of at least {SHORTEST_TOKEN} ASCII characters without "
            f"spaces, such as: openssl rand -hex 32 > {path}"
        )
    return token


def access_of(
    host: str, token: str | None, *, no_token: bool = False, names: frozenset[str] = frozenset()
) -> Access:
    """Who may ask a server that is bound to a host.

    Args:
        host: that it is bound to.
        token: that requests must bear.
        no_token: whether it may be reached from elsewhere without one.
        names: by which it may be called beside those of loopback.

    Raises:
        UserError: it would be open to others, and nobody said that it may be.
    """
    if is_loopback(host):
        return Access(token, LOOPBACK | names | {host.lower()})
    if token is None and not no_token:
        raise UserError(
            f"--host {host}: others could reach this server; give --token-file FILE, or "
            "--no-token to let anyone in"
        )
    return Access(token, LOOPBACK | names if names else None)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; a port of 0 takes a free one.

    Raises:
        UserError: the port is taken, or the address is none of this machine's.
    """
    if not 0 <= port <= 65_535:
        raise UserError(f"--port {port}: expected a number from 0 to 65535")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        # asyncio sends at once (TCP_NODELAY) where the socket says that it is one of TCP, which
        # those of socket.create_server do not; without, an answer waits 40 ms for nothing.
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
        return listening
    except socket.gaierror:
        raise UserError(f"--host {host}: no such address") from None
    except OSError as fault:
        if fault.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} is taken; --port 0 takes a free one") from None
        # The fault's own words repeat the address in a form of Python's.
        reason = os.strerror(fault.errno) if fault.errno else str(fault)
        raise UserError(f"cannot listen at {host}, port {port}: {reason}") from None


def address_of(listening: socket.socket) -> str:
    """The address to give a browser.

    Examples:
        >>> with listen("127.0.0.1", 0) as listening:
        ...     address_of(listening).rpartition(":")[0]
        'http://127.0.0.1'
    """
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: Guard, limits: Limits) -> "uvicorn.Server":
    """The HTTP server, as it is set up for strangers."""
    import uvicorn

    from zlpr.serving.connections import timed_protocol

    config = uvicorn.Config(
        app,
        http=timed_protocol(limits.header_seconds),
        ws="none",
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
    )
    return uvicorn.Server(config)


def run(server: "uvicorn.Server", listening: socket.socket) -> None:
    """Answer requests until a signal says to stop; what has been asked by then is answered."""
    with _signals_stop_only_the_server():
        server.run(sockets=[listening])


@contextlib.contextmanager
def _signals_stop_only_the_server() -> Iterator[None]:
    """While uvicorn runs, SIGINT and SIGTERM mean an orderly stop, and nothing more.

    uvicorn raises a signal anew once it has stopped, for whoever handled it before: nobody.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: None) for number in stopping]
    try:
        yield
    finally:
        for number, handler in zip(stopping, before, strict=True):
            signal.signal(number, handler)
