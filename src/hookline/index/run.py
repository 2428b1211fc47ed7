"""A sealed run: an immutable file with the fingerprints and users of a range of offsets, sorted, read by memory map.

Layout, little-endian: header; times of the spans; the number of entries below each first byte (257 numbers of 4 bytes);
the entries, sorted (16 bytes fingerprint, 8 bytes offset, big-endian so that bytes sort as numbers do); the 8-byte user
hash of each offset, in the order of the offsets: a user is found by searching through them, which takes a millisecond
and saves the hot path a second sort. Writing is ``seal``'s.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hookline.index.recent import REJECTED
from hookline.index.sorted_chunks import ENTRY_BYTES, OFFSET_BYTES
from hookline.index.times import SPAN_RECORDS, Times
from hookline.index.user_hash import USER_HASH_BYTES

SUFFIX = ".run"
MAGIC = b"HKLNRUN\0"
FORMAT_VERSION = 1
FANOUT = struct.Struct("<257I")

_HEADER = struct.Struct("<8sIIQQII")  # then the checksum of it
_CHECKSUM = struct.Struct("<I")


class RunDamaged(ValueError):
    """The file is not a whole run of a version that can be read; it counts as absent."""

    code = "index_run_damaged"


class Header(NamedTuple):
    """The fixed part of a run: its range, and how many spans and entries follow."""

    first_offset: int
    next_offset: int
    spans: int
    entries: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.first_offset:020d}-{self.next_offset:020d}{SUFFIX}"

    @property
    def entries_at(self) -> int:
        """Where the entries begin."""
        return _HEADER.size + _CHECKSUM.size + self.spans * 16 + FANOUT.size

    @property
    def users_at(self) -> int:
        """Where the user hashes begin."""
        return self.entries_at + self.entries * ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        """The size of the whole file."""
        return self.users_at + (self.next_offset - self.first_offset) * USER_HASH_BYTES

    def to_bytes(self) -> bytes:
        """Write the header with its checksum."""
        head = _HEADER.pack(MAGIC, FORMAT_VERSION, SPAN_RECORDS, *self)
        return head + _CHECKSUM.pack(crc32(head))

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """Read a header; raise RunDamaged when it is none, or a newer one."""
        if len(data) < _HEADER.size + _CHECKSUM.size:
            raise RunDamaged("too short for a run")
        magic, version, span, *numbers = _HEADER.unpack_from(data)
        if magic != MAGIC or version != FORMAT_VERSION or span != SPAN_RECORDS:
            raise RunDamaged("not a run of this version")
        if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
            raise RunDamaged("the header's checksum is wrong")
        return cls(*numbers)


class Run:
    """One sealed run, open for look-ups."""

    def __init__(self, path: Path) -> None:
        """Open the file; raise RunDamaged when it is not a whole run, OSError when it cannot be read."""
        with path.open("rb") as file:
            head = Header.from_bytes(file.read(_HEADER.size + _CHECKSUM.size))
            if path.stat().st_size != head.size_bytes:
                raise RunDamaged("not the length that its header says")
            self._map = mmap.mmap(file.fileno(), head.size_bytes, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_RANDOM)
        self.path = path
        self.header = head
        fanout_at = head.entries_at - FANOUT.size
        self.times = Times.from_bytes(head.first_offset, self._map[fanout_at - head.spans * 16 : fanout_at])
        self.latest = self.times.high or 0
        self._fanout: tuple[int, ...] = FANOUT.unpack_from(self._map, fanout_at)

    def offsets(self, fingerprint: bytes) -> list[int]:
        """Return every offset in the run that holds the fingerprint, ascending, rejected records included."""
        number = self._lower_bound(fingerprint)
        found: list[int] = []
        while self._holds(number, fingerprint):
            found.append(self._offset(number) & ~REJECTED)
            number += 1
        return sorted(found)

    def offsets_of_user(self, user_hash: bytes) -> list[int]:
        """Return every offset in the run whose record may be of the user, ascending."""
        start = self.header.users_at
        found: list[int] = []
        place = self._map.find(user_hash, start)
        while place >= 0:
            number, astray = divmod(place - start, USER_HASH_BYTES)
            if not astray:
                found.append(self.header.first_offset + number)
            place = self._map.find(user_hash, place + 1)
        return found

    def candidates(self, fingerprint: bytes, before: int) -> tuple[int, ...]:
        """Return the smallest and the largest offset below ``before`` with the fingerprint, as far as there are."""
        first = self._lower_bound(fingerprint)
        if not self._holds(first, fingerprint):
            return ()
        # Rejected ones sort past every real offset, so they are never below.
        below = self._lower_bound(fingerprint + before.to_bytes(OFFSET_BYTES, "big"))
        ends = (first, below - 1) if below - first > 1 else (first,) if below > first else ()
        return tuple([self._offset(number) for number in ends])

    def entries(self, start: int, count: int) -> bytes:
        """Return some of the raw entries."""
        at = self.header.entries_at
        return self._map[at + start * ENTRY_BYTES : min(at + (start + count) * ENTRY_BYTES, self.header.users_at)]

    def rest(self) -> None:
        """Let go of memory that only speeds look-ups up; the file stays open."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Give the memory map back."""
        self._map.close()

    def _lower_bound(self, key: bytes) -> int:
        """Return how many entries are smaller than the key, a fingerprint or a whole entry."""
        low, high = self._fanout[key[0]], self._fanout[key[0] + 1]
        map_, at, size = self._map, self.header.entries_at, len(key)
        while low < high:
            middle = (low + high) // 2
            place = at + middle * ENTRY_BYTES
            if map_[place : place + size] < key:
                low = middle + 1
            else:
                high = middle
        return low

    def _holds(self, number: int, fingerprint: bytes) -> bool:
        place = self.header.entries_at + number * ENTRY_BYTES
        return number < self.header.entries and self._map[place : place + len(fingerprint)] == fingerprint

    def _offset(self, number: int) -> int:
        end = self.header.entries_at + (number + 1) * ENTRY_BYTES
        return int.from_bytes(self._map[end - OFFSET_BYTES : end], "big")
