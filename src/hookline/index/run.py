"""A sealed run: an immutable file with the fingerprints and users of a range of offsets, sorted, read by memory map.

Layout, little-endian: header; times of the spans; for each of the two sections the number of entries below each first
byte (257 numbers of 4 bytes); the first section (16 bytes fingerprint, 8 bytes offset) and the second (8 bytes user
hash, 8 bytes offset), offsets big-endian so that bytes sort as numbers do. Writing is ``seal``'s.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hookline.events.fingerprint import FINGERPRINT_BYTES
from hookline.index.recent import REJECTED
from hookline.index.times import SPAN_RECORDS, Times
from hookline.index.user_hash import USER_HASH_BYTES

SUFFIX = ".run"
MAGIC = b"HKLNRUN\0"
FORMAT_VERSION = 1
OFFSET_BYTES = 8
ENTRY_BYTES = FINGERPRINT_BYTES + OFFSET_BYTES
USER_BYTES = USER_HASH_BYTES + OFFSET_BYTES
FANOUT = struct.Struct("<257I")

_HEADER = struct.Struct("<8sIIQQIII")  # then the checksum of it
_CHECKSUM = struct.Struct("<I")


class RunDamaged(ValueError):
    """The file is not a whole run of a version that can be read; it counts as absent."""

    code = "index_run_damaged"


class Header(NamedTuple):
    """The fixed part of a run: its range and how many of everything follow."""

    first_offset: int
    next_offset: int
    spans: int
    entries: int
    users: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.first_offset:020d}-{self.next_offset:020d}{SUFFIX}"

    @property
    def entries_at(self) -> int:
        """Where the first section begins."""
        return _HEADER.size + _CHECKSUM.size + self.spans * 16 + 2 * FANOUT.size

    @property
    def users_at(self) -> int:
        """Where the second section begins."""
        return self.entries_at + self.entries * ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        """The size of the whole file."""
        return self.users_at + self.users * USER_BYTES

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
        fanouts_at = head.entries_at - 2 * FANOUT.size
        self.times = Times.from_bytes(head.first_offset, self._map[fanouts_at - head.spans * 16 : fanouts_at])
        self.latest = self.times.high or 0
        self._entries = _Section(self._map, head.entries_at, ENTRY_BYTES, fanouts_at)
        self._users = _Section(self._map, head.users_at, USER_BYTES, fanouts_at + FANOUT.size)

    def offsets(self, fingerprint: bytes) -> list[int]:
        """Return every offset in the run that holds the fingerprint, ascending, rejected records included."""
        return sorted(offset & ~REJECTED for offset in self._entries.offsets(fingerprint))

    def offsets_of_user(self, user_hash: bytes) -> list[int]:
        """Return every offset in the run whose record may be of the user, ascending."""
        return self._users.offsets(user_hash)

    def candidates(self, fingerprint: bytes, before: int) -> tuple[int, ...]:
        """Return the smallest and the largest offset below ``before`` with the fingerprint, as far as there are."""
        first = self._entries.lower_bound(fingerprint)
        if not self._entries.holds(first, fingerprint):
            return ()
        below = self._entries.lower_bound(fingerprint + before.to_bytes(OFFSET_BYTES, "big"))
        # Rejected ones sort past every real offset, so they are never below.
        ends = (first, below - 1) if below - first > 1 else (first,) if below > first else ()
        return tuple([self._entries.offset(number) for number in ends])

    def entries(self, start: int, count: int) -> bytes:
        """Return some of the raw entries of the first section."""
        at = self.header.entries_at
        return self._map[at + start * ENTRY_BYTES : min(at + (start + count) * ENTRY_BYTES, self.header.users_at)]

    def close(self) -> None:
        """Give the memory map back."""
        self._map.close()


class _Section:
    """Sorted entries of one width within the map."""

    __slots__ = ("_at", "_fanout", "_map", "_width")

    def __init__(self, map_: mmap.mmap, at: int, width: int, fanout_at: int) -> None:
        self._map = map_
        self._at = at
        self._width = width
        self._fanout: tuple[int, ...] = FANOUT.unpack_from(map_, fanout_at)

    def lower_bound(self, key: bytes) -> int:
        """Return the number of entries that are smaller than the key, which may be longer or shorter than theirs."""
        low, high = self._fanout[key[0]], self._fanout[key[0] + 1]
        map_, at, width, size = self._map, self._at, self._width, len(key)
        while low < high:
            middle = (low + high) // 2
            place = at + middle * width
            if map_[place : place + size] < key:
                low = middle + 1
            else:
                high = middle
        return low

    def holds(self, number: int, key: bytes) -> bool:
        """Whether one entry is there and begins with the key."""
        place = self._at + number * self._width
        return number < self._fanout[-1] and self._map[place : place + len(key)] == key

    def offset(self, number: int) -> int:
        """Return the offset of one entry."""
        end = self._at + (number + 1) * self._width
        return int.from_bytes(self._map[end - OFFSET_BYTES : end], "big")

    def offsets(self, key: bytes) -> list[int]:
        """Return the offsets listed under the key."""
        number = self.lower_bound(key)
        found: list[int] = []
        while self.holds(number, key):
            found.append(self.offset(number))
            number += 1
        return found
