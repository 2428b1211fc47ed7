"""One service shared by the tests that only look at what arrives: two destinations, one plain and one signed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.service.client import basic
from tests.service.collect.slow_clients import SlowClients
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Request, new_id, wait_until, webhook

SECRET = "s3cret"
HEAD = f"POST /v1/track HTTP/1.1\r\nHost: x\r\nAuthorization: {basic(WRITE_KEY)['Authorization']}\r\n".encode()
IN_THE_HEADERS = HEAD + b"X-A: "
IN_THE_BODY = HEAD + b'Content-Length: 5000\r\n\r\n{"a":"'
STATIC_HEADERS = {"X-Tenant": "acme", "Authorization": "Bearer t0ken"}


@dataclass
class Site:
    """A running service whose source ``site`` feeds ``plain`` (no secret) and ``signed`` (secret, static headers)."""

    hookline: Hookline
    receiver: Receiver
    slow_clients: SlowClients
    """They drip from the start on: one in its headers, one in its body."""

    def at(self, destination: str, message_id: str) -> Request:
        """Wait for the request of a message at ``plain`` or ``signed``."""

        def arrived() -> Request | None:
            found = [r for r in self.receiver.of(message_id) if r.path == f"/{destination}"]
            return found[0] if found else None

        request = wait_until(arrived, what=f"{message_id} at {destination}")
        assert request is not None
        return request

    def forward(self, path: str, call: bytes, destination: str = "plain") -> Request:
        """Send one call (an object's JSON text, to which a new messageId is added) and wait until it is forwarded."""
        message_id = new_id()
        body = call.rstrip()[:-1] + b',"messageId":"' + message_id.encode() + b'"}'
        answer = self.hookline.post(path, body)
        assert (answer.status, answer.json) == (200, {"success": True, "messageId": message_id})
        return self.at(destination, message_id)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shared service; at the end it must still run and must not have printed a traceback."""
    with Receiver() as receiver:
        destinations = [
            webhook("plain", receiver.url("/plain")),
            webhook("signed", receiver.url("/signed"), secret=SECRET, headers=STATIC_HEADERS),
        ]
        with (
            Hookline(tmp_path_factory.mktemp("site"), destinations) as hookline,
            SlowClients(hookline.collect_port, (IN_THE_HEADERS, IN_THE_BODY)) as slow_clients,
        ):
            yield Site(hookline, receiver, slow_clients)
            assert hookline.process is not None
            assert hookline.process.poll() is None
        assert "Traceback (most recent call last)" not in hookline.log, hookline.log[-4000:]
