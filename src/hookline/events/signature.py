"""The value of ``X-Signature``: hex-encoded HMAC-SHA1 of the body, keyed with the shared secret (SPEC 5.1)."""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Iterable
from hashlib import sha1

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
