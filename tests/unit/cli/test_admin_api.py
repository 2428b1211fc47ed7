"""Commands name what answers them in place of the admin API, and say what to do when nothing does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hookline.cli.admin_api import AdminApi, CommandFailed, NoAnswer, NotFound
from hookline.cli.target import Target

ANSWERS = {
    "redirect": (302, "text/html", b"<a href=/sign-in>"),
    "page": (200, "text/html; charset=utf-8", b"<h1>Sign in</h1>"),
    "empty": (404, "text/plain", b""),
    "broken": (500, "application/json", b"{"),
    "proxy": (502, "text/html", b"<h1>Bad gateway</h1>"),
    "unknown": (
        404,
        "application/problem+json",
        json.dumps({"detail": "There is no destination with the id 'x'."}).encode(),
    ),
    "fault": (500, "application/problem+json", json.dumps({"detail": "See the log.", "instance": "/i/7"}).encode()),
}


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, content_type, body = ANSWERS[self.path.rsplit("/", 1)[-1]]
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("what", ["redirect", "page", "empty", "broken", "proxy"])
def test_what_is_not_the_admin_api_is_named(url: str, what: str) -> None:
    """A proxy that asks for a sign-in, another port, an answer that was cut: never taken for an answer of ours."""
    with pytest.raises(CommandFailed, match="not Hookline's admin API; correct --api") as failed:
        AdminApi(url, "token").get(f"/{what}")
    assert not isinstance(failed.value, NotFound)  # which would mean that the object does not exist


def test_an_unknown_id_and_a_fault_have_a_next_step(url: str) -> None:
    """The command that lists the ids; what the log knows the fault by."""
    with pytest.raises(NotFound, match=r"with the id 'x'\. See hookline destinations list\.$"):
        AdminApi(url, "token").get("/unknown")
    with pytest.raises(CommandFailed, match=r"Instance: /i/7$"):
        AdminApi(url, "token").get("/fault")


def test_a_stream_waits_for_a_proxy_whose_server_starts_again(url: str) -> None:
    """It answers for the server meanwhile: trying again helps."""
    with pytest.raises(NoAnswer):
        AdminApi(url, "token").open("/proxy", {}, 5.0)


def test_a_server_that_takes_too_long_may_have_done_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not called away: a change may have been made."""
    from http.client import HTTPConnection

    def nothing(*_: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(HTTPConnection, "request", nothing)
    with pytest.raises(NoAnswer, match="look before you repeat it"):
        AdminApi("http://127.0.0.1:1", "token").request("POST", "/replays", {})


@pytest.mark.parametrize("api", ["localhost:8081", "hookline.example.com", "http:///x", ""])
def test_an_address_without_a_scheme_is_wrong_usage(api: str) -> None:
    """Before anything is said of its token."""
    with pytest.raises(CommandFailed, match=r"is no address; write one as http://") as failed:
        AdminApi(api, "token").get("/status")
    assert failed.value.exit_code == 2
    if api:
        with pytest.raises(CommandFailed, match="is no address"):
            Target(api=api, token="token").admin()
