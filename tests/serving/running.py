"""A real server in a thread, for what only a network shows."""

import contextlib
import socket
import threading
import time

from zlpr.serving import server


@contextlib.contextmanager
def running(app, limits, port=0):
    """Serve on a port, or a free one; gives the server and the port."""
    with server.listen("127.0.0.1", port) as listening:
        made = server.make_server(app, limits)
        thread = threading.Thread(target=server.run, args=(made, listening))
        thread.start()
        try:
            end = time.monotonic() + 60
            while not made.started:
                assert thread.is_alive()
                assert time.monotonic() < end
                time.sleep(0.01)
            yield made, listening.getsockname()[1]
        finally:
            made.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@contextlib.contextmanager
def connected(port):
    """A socket to it."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        yield connection


def read_to_end(connection):
    """All that the server sends before it closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            received += part
    return received
