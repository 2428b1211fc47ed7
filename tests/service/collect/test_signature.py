"""Headers and signature of the webhook request, verified the way receivers do it."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
from collections.abc import Callable

import pytest

from tests.service.collect.conftest import SECRET, Site
from tests.service.harness import Hookline, Receiver, webhook

RESTRINGIFY = """
const crypto = require("crypto");
const text = require("fs").readFileSync(0, "utf8");
const again = JSON.stringify(JSON.parse(text));
process.stdout.write(crypto.createHmac("sha1", process.argv[1]).update(again, "utf8").digest("hex"));
"""

# Properties whose JSON text JavaScript writes differently from what the caller sent.
DOCUMENTS = [
    b'{"b":1,"10":2,"9":3,"a":4,"0":5}',
    b'{"n":[1.0,1.50,1e21,1e-7,-0,9007199254740993,1e400,0.00001]}',
    b'{"s":"\\u00e9\\/\\ud83d\\ude00\\u2028","t":"<&>"}',
    b'{"d":1,"e":2,"d":{"2":1,"1":[ ]}}',
    b'{"__proto__":{"a":1},"constructor":null}',
    b'{"plain":"text","total":12}',
]


@pytest.mark.parametrize("properties", DOCUMENTS)
def test_signature_verifies_raw_and_restringified(site: Site, properties: bytes) -> None:
    """X-Signature fits the bytes sent and what a receiver in Node re-stringifies: both ways of checking agree."""
    request = site.forward("/v1/track", b'{"userId":"u","event":"E","properties":' + properties + b"}", "signed")
    raw = hmac.new(SECRET.encode(), request.body, hashlib.sha1).hexdigest()
    node = subprocess.run(["node", "-e", RESTRINGIFY, SECRET], input=request.body, capture_output=True, check=True)
    assert request.headers["x-signature"] == raw == node.stdout.decode()


def test_without_a_secret_nothing_is_signed(site: Site) -> None:
    """A destination without sharedSecret gets no X-Signature."""
    assert "x-signature" not in site.forward("/v1/track", b'{"userId":"u","event":"E"}').headers


def test_headers_of_every_request(site: Site) -> None:
    """User-Agent, Content-Type, one Host, a right Content-Length, and the static headers of the URL."""
    request = site.forward("/v1/track", b'{"userId":"u","event":"E"}', "signed")
    assert request.method == "POST"
    assert request.headers["user-agent"] == "Hookline/1.0"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{site.receiver.port}"
    assert request.headers["x-tenant"] == "acme"
    assert request.headers["authorization"] == "Bearer t0ken"
    assert "accept-encoding" not in request.headers
    names = [name.lower() for name, _ in request.raw_headers]
    assert len(names) == len(set(names))


def test_connections_to_a_receiver_are_kept_alive(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """Twenty events, each sent when the one before it is delivered, travel on one connection."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    for _ in range(20):
        hookline.wait_status(hookline.track(), "crm", "delivered")
    assert [request.connection for request in receiver.requests] == [1] * 20
