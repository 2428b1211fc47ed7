"""The 64-bit hash under which a user's records are listed; whoever reads the list compares the records themselves."""

from __future__ import annotations

from hashlib import blake2b

USER_HASH_BYTES = 8


def user_hash(source: str, user_key: str) -> bytes:
    """Return the hash of one user of one source."""
    return blake2b(f"{source}\0{user_key}".encode("utf-8", "surrogatepass"), digest_size=USER_HASH_BYTES).digest()
