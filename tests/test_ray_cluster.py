import pytest

from zlpr import UserError
from zlpr._ray_cluster import connect, reason_of, told

pytest.importorskip("ray", reason="the extra that this is for")


def test_where_nobody_answers_is_said_at_once():
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(UserError, match=f"no Ray cluster at {address}: Connection refused"):
            connect(address)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (
            Exception("The current node timed out during startup.\nMore"),
            "The current node timed out",
        ),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_a_cluster_that_does_not_start_is_said(monkeypatch, fault, reason):
    def start(**_):
        raise fault

    monkeypatch.setattr("ray.init", start)
    with pytest.raises(UserError, match=f"no Ray cluster at local: {reason}"):
        connect("local")


def test_the_last_line_of_a_remote_error_is_its_reason():
    assert reason_of(ValueError("Traceback\n  at worker\nKeyError: 'text'\n")) == "KeyError: 'text'"
    assert reason_of(ValueError()) == "ValueError"


def test_what_a_worker_says_is_told():
    class RemoteError(Exception):
        cause = UserError("part-3.parquet: no column 'text'")

    assert told(RemoteError("long")) == "part-3.parquet: no column 'text'"
    assert told(Exception("one\ntwo")) == "a Ray worker failed: two"
