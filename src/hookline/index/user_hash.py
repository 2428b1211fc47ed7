"""The 64-bit hash under which a user's records are listed; whoever reads the list compares the records themselves."""

from __future__ import annotations

from zlib import crc32

USER_HASH_BYTES = 8


def user_hash(source: str, user_key: str) -> bytes:
    """Return the hash of one user of one source: a checksum and a length, quick; collisions cost a comparison."""
    key = user_key.encode("utf-8", "surrogatepass")
    return (crc32(key, len(source)) << 16 | len(key) & 0xFFFF).to_bytes(USER_HASH_BYTES, "little")
