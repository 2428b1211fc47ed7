"""Every error is a problem document."""

from __future__ import annotations

import socket

import pytest

from hookline.api.problem import pointer_of
from tests.unit.control.running import BEARER, Running


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nope", None, 404, "not_found"),
        ("GET", "/api/v1/nope", None, 404, "not_found"),
        ("GET", "/api/v1/sources/nope", None, 404, "not_found"),
        ("GET", "/api/v1/destinations/nope", None, 404, "not_found"),
        ("DELETE", "/api/v1/destinations/nope", None, 404, "not_found"),
        ("PATCH", "/api/v1/destinations/nope", b"{}", 404, "not_found"),
        ("GET", "/api/v1/dead-letters/1", None, 404, "not_found"),
        ("GET", "/api/v1/dead-letters/x", None, 404, "not_found"),
        ("GET", "/api/v1/events/nope", None, 404, "unknown_event"),
        ("GET", "/static/../app.py", None, 404, "not_found"),
        ("POST", "/healthz", b"", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/sources", None, 405, "method_not_allowed"),
        ("POST", "/api/v1/sources", b"{", 400, "malformed_json"),
        ("POST", "/api/v1/sources", b"", 400, "malformed_json"),
        ("POST", "/api/v1/sources", b'{"id": "\xff"}', 400, "malformed_json"),
        ("POST", "/api/v1/sources", b'{"id":' + b"[" * 100_000, 400, "malformed_json"),
        ("POST", "/api/v1/sources", b"[]", 422, "invalid_object"),
        ("PUT", "/api/v1/sources/x", b"{}", 422, "invalid_object"),
        ("POST", "/api/v1/sources", b" " * (4 * 1024 * 1024 + 1), 413, "body_too_large"),
        ("GET", "/api/v1/events?after=zzz", None, 400, "invalid_parameter"),
        ("GET", "/api/v1/events?status=lost", None, 400, "invalid_parameter"),
        ("GET", "/api/v1/dead-letters?after=-1", None, 400, "invalid_parameter"),
        ("POST", "/api/v1/connections/apply", b"{}", 422, "invalid_object"),
    ],
)
def test_every_error_has_the_one_shape(
    asked: Running, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    """Status, media type and all members of RFC 9457 are there, with a stable code and a sentence."""
    answer = asked.call(method, path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json
    assert set(problem) == {"type", "title", "status", "detail", "instance", "code", "errors", "requestId"}
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"] == f"/docs/errors#{code}"
    assert problem["requestId"] == answer.headers["x-request-id"]
    assert problem["instance"] == path.partition("?")[0]
    assert problem["detail"].endswith((".", "…"))


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k1"}], ids=["no key", "a key"])
def test_a_body_that_is_too_large_is_answered_with_its_own_limit(control: Running, key: dict[str, str]) -> None:
    """With a key the body is read before its route is reached."""
    for path, limit in (("tokens", 10_000), ("sources", 4 * 1024 * 1024)):
        problem = control.call("POST", f"/api/v1/{path}", b" " * (limit + 1), key).json
        assert problem["detail"] == f"The body is too large; send at most {limit:,} bytes."


def test_what_is_missing_has_its_place(asked: Running) -> None:
    """The pointer leads to what is to be added, so that a form can say it at its field."""
    rule = {"id": "long", "to": [{"webhook": {}}]}
    problem = asked.api("POST", "/notifications", {**rule, "name": "Long", "when": ["destination_failing"]}).json
    assert problem["errors"] == [{"pointer": "/to/0/webhook/url", "detail": "'url' is missing; add it"}]
    assert problem["detail"] == "'url' is missing; add it at /to/0/webhook/url."


def test_a_fault_of_ours_tells_nothing_but_where_to_look(
    control: Running, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exception in a handler is 500 with an instance that the log names, and none of the exception's text."""

    def broken() -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(control.services.store, "sources", broken)
    answer = control.api("GET", "/sources")
    assert (answer.status, answer.json["code"]) == (500, "internal_error")
    assert "swordfish" not in answer.text
    assert answer.json["instance"].removeprefix("urn:uuid:") in "".join(capfd.readouterr())


def test_the_405_names_the_methods(asked: Running) -> None:
    """A wrong method is answered with those that are right."""
    assert "GET" in asked.call("DELETE", "/api/v1/sources").headers["allow"]


def test_a_body_without_end_is_cut(asked: Running) -> None:
    """A chunked body is refused at the limit; the server does not read on for ever."""
    head = f"POST /api/v1/sources HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER['Authorization']}\r\n"
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", asked.port), timeout=30) as connection:
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(200):
                connection.sendall(chunk)
        except OSError:
            pass  # it stopped listening, which is the point
        assert b" 413 " in connection.recv(65_536).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("path", "pointer"),
    [("", ""), ("name", "/name"), ("settings.webhooks[1].url", "/settings/webhooks/1/url"), ("a/b", "/a~1b")],
)
def test_paths_become_pointers(path: str, pointer: str) -> None:
    """A path as the checks write it becomes an RFC 6901 pointer."""
    assert pointer_of(path) == pointer
