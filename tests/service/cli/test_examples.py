"""The example receivers, run as people run them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from hookline.events.signature import StandardSigner
from tests.docs.pages import ROOT
from tests.service.client import send
from tests.service.harness import Hookline, free_port, wait_until, webhook

SECRET = "s3cret-of-the-example"
WHSEC = "whsec_" + base64.b64encode(b"example-" * 4).decode()
PROGRAMS = {".py": sys.executable, ".mjs": "node"}
RECEIVERS = {
    "receiver.py": SECRET,
    "receiver.mjs": SECRET,
    "standard_webhooks.py": WHSEC,
    "standard_webhooks.mjs": WHSEC,
}
SETTINGS = {SECRET: "sharedSecret", WHSEC: "standardWebhooks"}
BODY = b'{"type":"track"}'


class Example(NamedTuple):
    """An example receiver as a process, with its port and its secret."""

    process: subprocess.Popen[str]
    port: int
    secret: str

    def connect(self, hookline: Hookline, secret: str) -> str:
        """Make a destination that sends to it, signed with ``secret``, and return its id."""
        made = webhook(f"at-{self.port}", f"http://127.0.0.1:{self.port}/")
        standard = SETTINGS[self.secret] == "standardWebhooks"
        made["settings"] |= {"standardWebhooks": {"secret": secret}} if standard else {"sharedSecret": secret}
        answer = hookline.api("POST", "destinations", made)
        assert answer.status == 201, answer
        return str(made["id"])

    def line(self) -> Any:
        """The next body it printed."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """A service that all examples are receivers of."""
    with Hookline(tmp_path_factory.mktemp("examples")) as running:
        yield running


@pytest.fixture(params=RECEIVERS)
def example(request: pytest.FixtureRequest) -> Iterator[Example]:
    """One of the receivers, answering."""
    port = free_port()
    file = ROOT / "examples" / "receivers" / request.param
    secret = RECEIVERS[request.param]
    environment = {**os.environ, "SECRET": secret, "PORT": str(port)}
    process = subprocess.Popen([PROGRAMS[file.suffix], str(file)], env=environment, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: answers(port), what="the example answers")
    yield Example(process, port, secret)
    process.kill()
    process.communicate()


def answers(port: int) -> bool:
    """Whether the receiver refuses an unsigned request, as it must."""
    try:
        return send(port, "POST", "/", {}, {"X-Signature": "0" * 40}).status == 401
    except OSError:
        return False


def standard(seconds: float, secret: str = WHSEC) -> dict[str, str]:
    """The headers of a Standard Webhooks request made at this time."""
    signature = StandardSigner(secret).sign(b"m-1", int(seconds), BODY).decode()
    return {"webhook-id": "m-1", "webhook-timestamp": str(int(seconds)), "webhook-signature": signature}


def test_an_example_receiver_takes_what_hookline_signs(example: Example, hookline: Hookline) -> None:
    """It verifies the signature of an event that is hard to sign alike, and prints it."""
    destination = example.connect(hookline, example.secret)
    message_id = hookline.track("Größe “42”", properties={"z": 1, "1": 1.0, "a": "</script>\u2028"})
    hookline.wait_status(message_id, destination, "delivered")
    body = example.line()
    assert body["event"] == "Größe “42”"
    assert body["properties"] == {"z": 1, "1": 1, "a": "</script>\u2028"}


def test_an_example_receiver_is_ready_before_the_old_secret_ends(example: Example, hookline: Hookline) -> None:
    """In the overlap the receiver may already have the new secret: it finds its own among the two signatures."""
    old = "whsec_" + base64.b64encode(b"o" * 32).decode() if example.secret == WHSEC else "the-old-secret"
    destination = example.connect(hookline, old)
    # Until deliver has the old secret in force, no later one is a change, and nothing would be logged.
    hookline.wait_status(hookline.track("Too early"), destination, "failed")
    changes = hookline.log.count("destination_changed")
    hookline.api("POST", f"destinations/{destination}/rotate-secret", {"secret": example.secret, "overlap": "24h"})
    wait_until(lambda: hookline.log.count("destination_changed") > changes)
    hookline.wait_status(hookline.track("Switched"), destination, "delivered")
    assert example.line()["event"] == "Switched"


@pytest.mark.parametrize("example", ["standard_webhooks.py", "standard_webhooks.mjs"], indirect=True)
def test_a_standard_webhooks_example_refuses_what_is_old_or_another_s(example: Example) -> None:
    """A request that was recorded and sent again later, one by another secret and one without a list are 401."""
    now = time.time()
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    refused = [standard(now - 301), standard(now + 600), standard(now, other)]
    refused += [{**standard(now), name: ""} for name in ("webhook-id", "webhook-timestamp", "webhook-signature")]
    assert {send(example.port, "POST", "/", BODY, headers).status for headers in refused} == {401}
    assert send(example.port, "POST", "/", BODY, standard(now)).status == 200
