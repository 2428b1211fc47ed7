"""The keys that stand for records in the index, 16 bytes each, and arithmetic on those of a whole group at once.

A record goes by its fingerprint. A rejected one goes by another key, so that it can be looked up but is no earlier
delivery of anything; an erased one goes by none. Python takes longer over one number than over the next thousand bytes
of a large one, so a group's keys are computed with as a single integer: every key is a lane of 128 bits in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from sys import byteorder
from zlib import crc32

from hookline.journal.record import FINGERPRINT_BYTES, Record

KEY_BYTES = FINGERPRINT_BYTES

NO_KEY = bytes(KEY_BYTES)
"""Stands for an erased record; no fingerprint is this one, as none is any other given one."""

_LANES_CACHED = 64


def keys_of(records: Sequence[Record]) -> bytes:
    """Return the keys of the records, one after the other."""
    usual = [record.fingerprint for record in records if record.rejection is None and not record.erased]
    return b"".join(usual if len(usual) == len(records) else map(_key, records))


def rejected(fingerprint: bytes) -> bytes:
    """Return the key of a rejected record: the halves of its fingerprint exchanged."""
    return fingerprint[KEY_BYTES // 2 :] + fingerprint[: KEY_BYTES // 2]


def lanes(keys: bytes) -> int:
    """Return the keys as one number."""
    return int.from_bytes(keys, "little")


@lru_cache(_LANES_CACHED)
def in_every_lane(value: int, count: int) -> int:
    """Return the number that has the value, below 2 ** 128, in each of so many lanes."""
    return int.from_bytes(value.to_bytes(KEY_BYTES, "little") * count, "little")


def words(lanes_: int, count: int) -> memoryview[int]:
    """Return the 32-bit numbers that so many lanes consist of, four each, lowest first."""
    return memoryview(lanes_.to_bytes(count * KEY_BYTES, "little")).cast("I")


def _key(record: Record) -> bytes:
    if record.erased:
        return NO_KEY
    return record.fingerprint if record.rejection is None else rejected(record.fingerprint)


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
