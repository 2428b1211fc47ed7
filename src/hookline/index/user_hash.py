"""The 32-bit hash under which a user's records are listed; whoever reads the list compares the records themselves."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat
from sys import byteorder
from zlib import crc32

from hookline.journal.record import Record

USER_HASH_BYTES = 4


def user_hash(user_key: str) -> bytes:
    """Return the hash of a user, of any source: a checksum, quick; a collision costs a comparison."""
    return crc32(user_key.encode("utf-8", "surrogatepass")).to_bytes(USER_HASH_BYTES, byteorder)


def user_hashes(records: Sequence[Record]) -> array[int]:
    """Return the hashes of the records' users, one after the other, 0 without a user."""
    keys = [record.user_key for record in records]
    try:
        return array("I", map(crc32, map(str.encode, keys)))
    except UnicodeEncodeError:  # half a character, as JavaScript may send it
        return array("I", map(crc32, map(str.encode, keys, repeat("utf-8"), repeat("surrogatepass"))))
