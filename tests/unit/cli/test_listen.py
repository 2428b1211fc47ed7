"""The receiver of ``hookline listen`` over real connections."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hookline.features.events.cli.listen import Arrival, Receiver, Verifier, show_json, show_text

SECRET = "s3cret"
BODY = json.dumps({"type": "track", "event": "Signed Up", "userId": "u1"}).encode()


@pytest.fixture
def arrivals() -> list[Arrival]:
    """What the receiver was sent."""
    return []


@pytest.fixture
def receiver(arrivals: list[Arrival]) -> Iterator[Receiver]:
    """A running receiver."""
    running = Receiver(0, Verifier([SECRET]), 202, arrivals.append)
    running.start()
    yield running
    running.stop()


def post(receiver: Receiver, body: bytes, signature: str | None) -> int:
    """Send one request and return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
    headers = {"X-Message-Id": "m-1"} | ({"X-Signature": signature} if signature else {})
    connection.request("POST", "/", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize(
    ("signature", "verdict"),
    [(hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest(), "valid"), ("0" * 40, "invalid"), (None, "missing")],
)
def test_signatures_are_judged(
    receiver: Receiver, arrivals: list[Arrival], signature: str | None, verdict: str
) -> None:
    """A right signature is told from a wrong one and from none, and the chosen status is answered."""
    assert post(receiver, BODY, signature) == 202
    assert [(arrival.signature, arrival.body) for arrival in arrivals] == [(verdict, BODY)]


def test_json_lines_hold_the_whole_request(capsys: pytest.CaptureFixture[str]) -> None:
    """A program reading the lines gets message id, headers and the decoded body."""
    show_json(Arrival(1, "/", {"x-message-id": "m-1"}, BODY, "valid"))
    line = json.loads(capsys.readouterr().out)
    assert (line["messageId"], line["signature"], line["body"]["event"]) == ("m-1", "valid", "Signed Up")


def test_an_event_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in what arrives are shown, not obeyed."""
    body = json.dumps({"type": "track", "event": "\x1b]0;owned\x07\x1b[2J"}, ensure_ascii=False).encode()
    show_text(Arrival(1, "/", {"x-message-id": "m-1"}, body, "valid"))
    assert "\x1b" not in capsys.readouterr().out


def test_a_signal_is_heard_whatever_the_main_thread_does() -> None:
    """Even in the middle of looking whether there was one, and of hearing another one."""
    asked = """
import os, signal
from hookline.features.events.cli.listen import end_on_signals, wait_for_end
ended = end_on_signals()
main = os.getpid()
if not (other := os.fork()):
    while os.getppid() == main:
        os.kill(main, signal.SIGINT)
    os._exit(0)
for _ in range(500):
    wait_for_end(ended)
os.kill(other, signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", asked], timeout=60, stderr=subprocess.DEVNULL, check=False)
    assert run.returncode == 0
