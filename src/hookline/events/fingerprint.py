"""The 128-bit key under which an event is recognised again: its source and messageId, hashed."""

from __future__ import annotations

from hashlib import blake2b

FINGERPRINT_BYTES = 16


def fingerprint(source: str, message_id: str) -> bytes:
    """Return the 16 bytes that stand for (source, messageId); source ids hold no NUL, so pairs cannot run together."""
    return blake2b(f"{source}\0{message_id}".encode("utf-8", "surrogatepass"), digest_size=FINGERPRINT_BYTES).digest()
