import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.models import fitted
from tests.serving.running import connected, read_to_end, running
from zlpr import UserError
from zlpr.serving import Limits, create_app, server
from zlpr.serving.service import Service

ANYWHERE = "0.0.0.0"  # noqa: S104
LIMITS = Limits(body_bytes=10_000, header_seconds=0.3, body_seconds=0.3, seconds=5, connections=60)
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def model():
    return fitted.result().model


@pytest.fixture(scope="module")
def port(model):
    with running(create_app({"demo": model}, limits=LIMITS), LIMITS) as (_, port):
        yield port


def works(port):
    answer = httpx.post(f"http://127.0.0.1:{port}/predict", json={"texts": ["late"]}, timeout=30)
    return answer.status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),  # nothing at all
        (b"POST /predict HT", b""),  # half a head
        (HEAD + b"Content-Length: 100\r\n\r\n{", b"408"),  # half a body
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", b"408"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (HEAD + b"Content-Length: -1\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"400"),  # the beginning of TLS
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000, b"400"),
        (b"GET /" + b"a" * 100_000, b"400"),
        (b"GARBAGE\r\n\r\n", b"400"),
        (b"GET http://evil.example/ HTTP/1.0\r\n\r\n", b"404"),
    ],
)
def test_what_is_broken_or_slow_is_ended_and_the_server_goes_on(port, sent, status):
    with connected(port) as connection:
        connection.sendall(sent)
        received = read_to_end(connection)
    assert received.partition(b"\r\n")[0].split(b" ")[1:2] == ([status] if status else [])
    assert works(port)


def test_a_second_head_in_a_connection_must_be_in_time_as_well(port):
    whole = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(port) as connection:
        connection.sendall(whole)
        first = connection.recv(65_536)
        assert b" 200 " in first.partition(b"\r\n")[0]
        connection.sendall(whole[:20])
        assert b"HTTP/1.1 " not in read_to_end(connection)


def test_a_client_that_is_cut_off_still_reads_why(port):
    with connected(port) as connection:
        connection.sendall(HEAD + b"Content-Length: 30000\r\n\r\n" + b"x" * 30_000)
        assert read_to_end(connection).startswith(b"HTTP/1.1 413")


def test_idle_connections_keep_nobody_out_for_long(port):
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(LIMITS.connections)]
    try:
        for connection in idle:
            connection.settimeout(30)
            assert connection.recv(1) == b""
        assert works(port)
    finally:
        for connection in idle:
            connection.close()


def test_many_clients_get_their_own_answers(port, model):
    texts = list(fitted.parts()[2].texts[:40])
    expected = model.predict(texts)
    base = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=base, timeout=30) as client, ThreadPoolExecutor(20) as pool:
        asked = pool.map(lambda text: client.post("/predict", json={"texts": [text]}), texts)
        answers = [tuple(answer.json()["answers"][0]["labels"]) for answer in asked]
    assert answers == expected


def test_stopping_answers_what_was_asked(model, monkeypatch):
    service = Service({"demo": model}, LIMITS)
    served, began, free = service.models["demo"], threading.Event(), threading.Event()
    own = served._answer

    def slowly(samples):
        began.set()
        assert free.wait(10)
        return own(samples)

    monkeypatch.setattr(served, "_answer", slowly)
    app = create_app(service, limits=LIMITS)
    with running(app, LIMITS) as (made, port), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(works, port)
        assert began.wait(10)
        made.should_exit = True
        threading.Timer(0.2, free.set).start()
        assert asked.result(20)
    assert not service.ready


def test_a_port_that_is_taken_is_one_line():
    with server.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} is taken; --port 0"):
            server.listen("127.0.0.1", port)
    with pytest.raises(UserError, match="expected a number from 0 to 65535"):
        server.listen("127.0.0.1", 70_000)
    with pytest.raises(UserError, match="cannot listen at 192"):
        server.listen("192.0.2.1", 0)


def test_beyond_loopback_a_token_is_needed_unless_told():
    with pytest.raises(UserError, match="--token-file FILE, or --no-token"):
        server.access_of(ANYWHERE, None)
    assert server.access_of(ANYWHERE, None, no_token=True).hosts is None
    assert server.access_of(ANYWHERE, "t", names=frozenset({"m"})).hosts >= {"m", "localhost"}
    assert server.access_of("127.0.0.1", None).hosts == {"localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize(
    "content", ["", "short", "has a space in it, so no", "ünïcode-is-no-token"]
)
def test_a_token_that_is_easily_guessed_is_refused(tmp_path, content):
    (tmp_path / "token").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="at least 16 ASCII characters"):
        server.read_token(tmp_path / "token")
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert server.read_token(tmp_path / "token") == "0123456789abcdef"
