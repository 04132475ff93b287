import asyncio
import logging

import httpx
import pytest

from tests.serving.asking import ask
from zlpr.serving.guard import OPEN, Access, Guard
from zlpr.serving.limits import Limits

TOKEN = "a-token-of-some-length"


async def echo(scope, receive, send):
    """Answers with the body that it was given."""
    if scope["path"] == "/fault":
        raise ValueError("a secret text")
    message = await receive()
    assert not message.get("more_body")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def guarded(**options):
    limits = Limits(body_bytes=100, body_seconds=0.1)
    return Guard(echo, access=Access(**options), limits=limits)


def test_a_request_passes_with_its_body_and_gets_the_security_headers():
    answer = ask(guarded(), "POST", "/x", content=b"as it was")
    assert answer.content == b"as it was"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


@pytest.mark.parametrize("size", [101, 350, 100_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_long_body_is_refused_whether_it_says_its_length_or_not(size, chunked):
    async def parts():
        for _ in range(size):
            yield b"x"

    answer = ask(guarded(), "POST", "/x", content=parts() if chunked else b"x" * size)
    assert answer.status_code == 413
    assert "100 bytes" in answer.json()["error"]
    assert answer.headers["connection"] == "close"


def test_a_length_that_lies_changes_nothing():
    answer = ask(guarded(), "POST", "/x", content=b"x" * 101, headers={"content-length": "5"})
    assert answer.status_code == 413
    answer = ask(guarded(), "POST", "/x", headers={"content-length": "-5"})
    assert answer.status_code == 400


def test_a_slow_body_is_not_waited_for():
    async def slow():
        yield b"x"
        await asyncio.sleep(30)

    answer = ask(guarded(), "POST", "/x", content=slow())
    assert answer.status_code == 408


@pytest.mark.parametrize(
    "given", ["", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer "]
)
def test_without_the_token_only_the_open_paths_answer(given):
    app, headers = guarded(token=TOKEN), {"authorization": given}
    answer = ask(app, "GET", "/x", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text
    assert {ask(app, "GET", path, headers=headers).status_code for path in OPEN} == {200}


def test_with_the_token_a_request_passes():
    app = guarded(token=TOKEN)
    assert ask(app, "GET", "/x", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
    assert TOKEN not in repr(Access(TOKEN))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_a_name_that_is_made_to_point_here_is_refused(host, status):
    app = guarded(hosts=frozenset({"localhost", "::1"}))
    assert ask(app, "GET", "/", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost", 200),
        ("http://evil.example", 403),
        ("null", 403),
        ("http://localhost:81", 403),
        ("http://[", 403),
    ],
)
def test_pages_of_other_sites_cannot_ask(origin, status):
    answer = ask(guarded(), "POST", "/x", content=b"", headers={"origin": origin})
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_the_log_has_no_query_no_body_and_no_line_of_a_strangers_making(caplog):
    caplog.set_level(logging.INFO, "zlpr.serving.access")
    ask(guarded(), "POST", "/x%0Aforged line?text=secret", content=b"secret")
    (line,) = caplog.messages
    assert line.startswith("POST /x%0Aforged%20line 200 ")
    assert "secret" not in line


def test_a_fault_says_its_place_and_nothing_of_what_was_asked(caplog):
    answer = ask(guarded(), "POST", "/fault")
    assert answer.status_code == 500
    assert "secret" not in answer.text + caplog.text
    assert "ValueError at" in caplog.text
    assert "test_guard.py" in caplog.text


def test_web_sockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(guarded()({"type": "websocket", "path": "/"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_many_at_a_time_do_not_mix():
    async def all_at_once():
        transport = httpx.ASGITransport(app=guarded())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            bodies = [str(number).encode() for number in range(50)]
            answers = await asyncio.gather(*(client.post("/x", content=b) for b in bodies))
            return [answer.content for answer in answers] == bodies

    assert asyncio.run(all_at_once())
