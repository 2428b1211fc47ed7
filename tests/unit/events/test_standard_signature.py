"""Signatures and secrets of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events.signature import StandardSigner, new_standard_secret, standard_key, webhook_id

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

NODE = """
const [secret, id, timestamp] = process.argv.slice(1);
const body = require("fs").readFileSync(0);
const key = Buffer.from(secret.slice("whsec_".length), "base64");
const content = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
process.stdout.write("v1," + require("crypto").createHmac("sha256", key).update(content).digest("base64"));
"""


def by_node(secret: str, id: str, timestamp: int, body: bytes) -> bytes:
    """The signature as Node's crypto makes it."""
    line = ["node", "-e", NODE, secret, id, str(timestamp)]
    return subprocess.run(line, input=body, capture_output=True, check=True).stdout


def test_the_published_example_is_signed_alike() -> None:
    """The vector that the specification's own libraries are tested with."""
    signature = StandardSigner(SECRET).sign(b"msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("body", [b"", b'{"type":"track","event":"Gr\xc3\xb6\xc3\x9fe"}', bytes(range(256)) * 40])
def test_node_signs_alike(body: bytes) -> None:
    """Another implementation of the hash and of base64 comes to the same header value."""
    secret = new_standard_secret()
    made = StandardSigner(secret).sign(b"msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", 1674087231, body)
    assert made == by_node(secret, "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", 1674087231, body)


@given(st.binary(min_size=24, max_size=64), st.binary(max_size=200), st.integers(0, 2**40))
def test_every_key_signs_as_hmac_sha256(key: bytes, body: bytes, timestamp: int) -> None:
    """The prepared digest is the standard one for every allowed length of key, and signing leaves it as it was."""
    signer = StandardSigner("whsec_" + base64.b64encode(key).decode())
    digest = hmac.new(key, b"m-1.%d.%b" % (timestamp, body), hashlib.sha256).digest()
    assert signer.sign(b"m-1", timestamp, body) == b"v1," + base64.b64encode(digest)
    assert signer.sign(b"m-1", timestamp, body) == b"v1," + base64.b64encode(digest)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "begins with whsec_"),
        ("whsec_not base64!", "not base64"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "not base64"),
        ("whsec_é", "not base64"),
        ("whsec_", "0 bytes"),
        ("whsec_" + base64.b64encode(bytes(23)).decode(), "23 bytes"),
        ("whsec_" + base64.b64encode(bytes(65)).decode(), "65 bytes"),
    ],
)
def test_other_secrets_are_refused_with_a_sentence(secret: str, words: str) -> None:
    """What is no secret of the specification is named as such before anything is signed with it."""
    with pytest.raises(ValueError, match=words):
        standard_key(secret)


def test_secrets_that_are_made_are_good_and_differ() -> None:
    """A made secret has 256 bits and is never the same twice."""
    made = {new_standard_secret() for _ in range(50)}
    assert len(made) == 50
    assert {len(standard_key(secret)) for secret in made} == {32}


def test_an_id_has_no_full_stop() -> None:
    """The parts of what is signed cannot be read another way, whatever the caller's messageId is."""
    assert webhook_id(b"m-1") == b"m-1"
    assert webhook_id(b"a.1700000000.%7B") == b"a%2E1700000000%2E%7B"
