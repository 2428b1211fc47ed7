"""The 64-bit hash under which a user's records are listed; whoever reads the list compares the records themselves."""

from __future__ import annotations

from zlib import adler32, crc32

USER_HASH_BYTES = 8


def user_hash(source: str, user_key: str) -> bytes:
    """Return the hash of one user of one source. Two checksums: quick, and collisions only cost a comparison."""
    key = f"{source}\0{user_key}".encode("utf-8", "surrogatepass")
    return (crc32(key) << 32 | adler32(key)).to_bytes(USER_HASH_BYTES, "little")
