"""Sign requests: ``X-Signature``, hex-encoded HMAC-SHA1 of the body, and ``webhook-signature`` as the Standard
Webhooks specification says.

Owns the form of a secret (``whsec_`` and base64) and the symmetric signature ``v1``; which secrets sign which request
is ``deliver.send.request``'s.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from binascii import hexlify
from collections.abc import Iterable
from hashlib import sha1, sha256

_BLOCK_BYTES = 64
_DIGEST_BYTES = 20
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))


class Signer:
    """Signs bodies with one secret; the key's share of the hash is computed once (RFC 2104), which halves the cost."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: str) -> None:
        key = secret.encode("utf-8")
        if len(key) > _BLOCK_BYTES:
            key = sha1(key, usedforsecurity=False).digest()
        key = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = sha1(key.translate(_INNER_PAD), usedforsecurity=False)
        self._outer = sha1(key.translate(_OUTER_PAD), usedforsecurity=False)

    def hex(self, body: bytes) -> bytes:
        """Return the signature of exactly these bytes, as it stands in a header."""
        return self.hex_of_all((body,))[0]

    def hex_of_all(self, bodies: Iterable[bytes]) -> list[bytes]:
        """Return what ``hex`` does for each of several bodies."""
        inner_state, outer_state = self._inner.copy, self._outer.copy
        digests: list[bytes] = []
        for body in bodies:
            inner = inner_state()
            inner.update(body)
            outer = outer_state()
            outer.update(inner.digest())
            digests.append(outer.digest())
        return hexlify(b"".join(digests), b" ", _DIGEST_BYTES).split()


PREFIX = "whsec_"
KEY_BYTES_MIN = 24
KEY_BYTES_MAX = 64
"""The specification's bounds, 192 and 512 bits; the longer one is also a block of SHA-256, so no key is hashed."""
_KEY_BYTES = 32


def new_standard_secret() -> str:
    """Return a secret nobody can guess."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def standard_key(secret: str) -> bytes:
    """Return the key that a secret stands for; raise ValueError, saying what to write instead, for anything else."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"a Standard Webhooks secret begins with {PREFIX}; write it with its prefix")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"what follows {PREFIX} is not base64 with its padding; copy the secret again") from None
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(
            f"the secret stands for {len(key)} bytes; Standard Webhooks asks for {KEY_BYTES_MIN} to {KEY_BYTES_MAX}"
        )
    return key


def webhook_id(message_id_header: bytes) -> bytes:
    """Return the value of ``webhook-id``: that of ``X-Message-Id`` with its full stops escaped too.

    The caller chooses the messageId, and full stops separate the parts of what is signed: left as they are, a part of
    the id could pass for a timestamp (specification, "Signature scheme").
    """
    return message_id_header.replace(b".", b"%2E")


class StandardSigner:
    """Signs with one secret; the key's share of the hash is computed once (RFC 2104)."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: str) -> None:
        key = standard_key(secret).ljust(KEY_BYTES_MAX, b"\0")
        self._inner = sha256(key.translate(_INNER_PAD))
        self._outer = sha256(key.translate(_OUTER_PAD))

    def sign(self, webhook_id: bytes, timestamp_seconds: int, body: bytes) -> bytes:
        """Return one signature with its version, as the header lists them."""
        inner = self._inner.copy()
        inner.update(b"%b.%d." % (webhook_id, timestamp_seconds))
        inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return b"v1," + base64.b64encode(outer.digest())
