"""The two digests of an event: its fingerprint and the signature of its body."""

from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from hookline.events.signature import Signer
from hookline.journal.record import FINGERPRINT_BYTES, fingerprint, fingerprints


def test_fingerprint_is_stable() -> None:
    """The value is stored for years, so it may never change."""
    assert fingerprint("website", "m-1").hex() == hashlib.blake2b(b"website\0m-1", digest_size=16).hexdigest()
    assert len(fingerprint("website", "m-1")) == FINGERPRINT_BYTES


def test_sources_do_not_share_fingerprints() -> None:
    """The same messageId from two sources is two events, however the two strings meet."""
    prints = {fingerprint("a", "bc"), fingerprint("ab", "c"), fingerprint("a", "b"), fingerprint("abc", "")}
    assert len(prints) == 4


@given(st.text(), st.lists(st.text(st.characters())))
def test_fingerprints_in_bulk(source: str, message_ids: list[str]) -> None:
    """In bulk and one by one they are the same hash of source, NUL and messageId, for any text whatever."""
    texts = [f"{source}\0{message_id}".encode("utf-8", "surrogatepass") for message_id in message_ids]
    expected = [hashlib.blake2b(text, digest_size=FINGERPRINT_BYTES).digest() for text in texts]
    assert fingerprints(source, message_ids) == expected
    assert [fingerprint(source, message_id) for message_id in message_ids] == expected


@given(st.text(), st.binary())
def test_signature_is_hmac_sha1(secret: str, body: bytes) -> None:
    """The prepared digest equals the standard one for every secret (short, long, empty) and body."""
    signer = Signer(secret)
    expected = hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
    assert signer.hex(body).decode() == expected
    assert signer.hex(body).decode() == expected  # signing leaves the signer as it was


def test_a_secret_longer_than_a_block() -> None:
    """Keys over 64 bytes are hashed first, as RFC 2104 says."""
    assert Signer("k" * 200).hex(b"x").decode() == hmac.new(b"k" * 200, b"x", hashlib.sha1).hexdigest()


def test_signatures_of_several_bodies() -> None:
    """Signed together, each body has the signature that it has alone."""
    signer, bodies = Signer("secret"), [b"", b"x", b"y" * 500]
    assert signer.hex_of_all(bodies) == [signer.hex(body) for body in bodies]
    assert signer.hex_of_all([]) == []
