"""A ring of attempt results in a memory-mapped file: what was just delivered survives kill -9 without a system call.

The database gets a checkpoint about ten times a second; a process killed in between would send everything since the
last one again. So each first-hand result is also one entry here, written in the turn that brought the answer. Every
entry is a fact that stays true (lane numbers and positions are never used twice), so on opening all of them may be
believed, whatever part of the ring is old. ``RingKeeper`` brings them to the disk every few milliseconds, so a power
cut sends again only what was delivered since. The slice since the last checkpoint is also exactly that checkpoint's
block of outcomes.

Entry, 32 bytes: position u64, time u64 (ms since the epoch), tag u32 (lane number x 8 + URL index), result u16 (see
``outcome.to_number``), duration u16 (ms), 8 bytes unused. Tag 0 marks a duplicate:
position is that of the first event, time that of the repeated one. The size is such that no entry lies across a sector
or a page: half a new entry and half an old one, which a power cut could leave, would be a fact that never was.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from sys import byteorder
from typing import NamedTuple

from hookline.limits import LIMITS, Limits
from hookline.whole_file import is_readable

ENTRY = struct.Struct("<QQIHH8x")
ENTRY_BYTES = ENTRY.size
_POSITION_BYTES = 8

POSITION_SHIFT = 48
"""A position is partition << 48 | offset: one integer names a record of the journal."""
OFFSET_MASK = (1 << POSITION_SHIFT) - 1
DUPLICATE_TAG = 0
URL_BITS = 3
MILLISECONDS_MAX = 2**16 - 1
"""The longest duration an entry can hold."""
BUCKET_SHIFT = 16
"""A block holds entries of one bucket of 65,536 offsets, so that a look-up reads one bucket."""

SYNC_SECONDS = 0.02
"""Between two synchronisations of the ring, while there are new entries. With two of them, of 5 to 10 ms each on an
ordinary disk, a power cut repeats what was delivered in its last 50 ms (docs/decisions/0033)."""


class Entry(NamedTuple):
    """One result as read back."""

    position: int
    at_ms: int
    lane: int
    url_index: int
    result: int
    milliseconds: int


def pack_entries(positions: list[int], at_ms: int, tag: int, result: int, milliseconds: int) -> bytes | bytearray:
    """Entries that differ only in their positions."""
    if len(positions) == 1:
        return ENTRY.pack(positions[0], at_ms, tag, result, milliseconds)
    numbers = array("Q", positions)
    if byteorder == "big":
        numbers.byteswap()
    packed = bytearray(ENTRY.pack(0, at_ms, tag, result, milliseconds) * len(positions))
    with memoryview(packed).cast("Q") as words:
        words[:: ENTRY_BYTES // _POSITION_BYTES] = numbers
    return packed


class ProgressRing:
    """The ring as its one writer sees it. ``written`` counts entries ever written by this process."""

    def __init__(self, path: Path, limits: Limits = LIMITS) -> None:
        self._bytes = size = limits.ring_entries * ENTRY_BYTES
        self._full_at = limits.ring_entries - limits.ring_margin
        self._descriptor = descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size != size or not is_readable(descriptor):
                os.ftruncate(descriptor, 0)  # of another shape, or on a bad sector
                os.ftruncate(descriptor, size)
            if hasattr(os, "posix_fallocate"):  # a hole would be filled in the middle of a synchronisation
                os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        self.written = 0
        self.checkpointed = 0
        self.synchronised = 0
        """Entries up to this written outlive a power cut."""
        self._pack = ENTRY.pack_into
        self._news = threading.Event()
        self._is_awaited = False
        """Whether somebody waits for ``_news``: an entry then sets it."""

    def add(self, position: int, at_ms: int, tag: int, result: int, milliseconds: int) -> None:
        """Write one entry; the caller keeps ``uncheckpointed`` below ``ring_entries``."""
        self._pack(self._map, self.written * ENTRY_BYTES % self._bytes, position, at_ms, tag, result, milliseconds)
        self.written += 1
        if self._is_awaited:
            self.wake()

    def add_packed(self, packed: bytes) -> None:
        """Write several entries at once, as ``pack_entries`` makes them."""
        at = self.written * ENTRY_BYTES % self._bytes
        until_end = len(self._map) - at
        if len(packed) <= until_end:
            self._map[at : at + len(packed)] = packed
        else:
            self._map[at:], self._map[: len(packed) - until_end] = packed[:until_end], packed[until_end:]
        self.written += len(packed) // ENTRY_BYTES
        if self._is_awaited:
            self.wake()

    @property
    def uncheckpointed(self) -> int:
        """Entries since the last checkpoint."""
        return self.written - self.checkpointed

    @property
    def full(self) -> bool:
        """Return whether sending must wait for a checkpoint."""
        return self.written - self.checkpointed >= self._full_at

    def has_room(self, entries: int) -> bool:
        """Return whether so many entries leave room for what of other lanes is in flight, or are the first."""
        return self.uncheckpointed == 0 or self.uncheckpointed + entries <= self._full_at

    def since_checkpoint(self) -> bytes:
        """Return the entries since the last checkpoint, oldest first."""
        begin = self.checkpointed * ENTRY_BYTES % self._bytes
        end = self.written * ENTRY_BYTES % self._bytes
        if self.uncheckpointed == 0:
            return b""
        if begin < end:
            return self._map[begin:end]
        return self._map[begin:] + self._map[:end]

    def everything(self) -> bytes:
        """Return all entries, in no particular order; never-written ones are zero."""
        return self._map[:]

    def resume_after(self, entry_in_file: int) -> None:
        """Go on writing behind what an earlier process wrote, so that its newest entries stay longest."""
        self.written = self.checkpointed = self.synchronised = entry_in_file

    def sync(self) -> None:
        """Bring what is written to the disk, if there is anything new; on any thread. Raise OSError if it refuses."""
        written = self.written
        if written != self.synchronised:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)  # takes the pages that were written through the map
            self.synchronised = written

    def wait_for_news(self) -> None:
        """Return once something is written that is not synchronised, or at ``wake``; for the one that synchronises."""
        self._is_awaited = True  # before the look, as an entry is counted before this is asked for: one sees the other
        if self.written == self.synchronised:
            self._news.wait()
        self._is_awaited = False
        self._news.clear()

    def wake(self) -> None:
        """End a wait for news, or the next one."""
        self._is_awaited = False
        self._news.set()

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()
        os.close(self._descriptor)


class RingKeeper:
    """Synchronises a ring from a thread of its own, so that nothing waits for the disk; without news it sleeps."""

    def __init__(self, ring: ProgressRing) -> None:
        self._ring = ring
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress-ring", daemon=True)

    def start(self) -> None:
        """Synchronise from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the ring may be closed afterwards. Idempotent."""
        self._stopped.set()
        self._ring.wake()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._ring.wait_for_news()
            if self._stopped.wait(SYNC_SECONDS):  # what comes in the meantime is synchronised with it
                return
            with contextlib.suppress(OSError):  # the next one may succeed, and what is at stake are repeats
                self._ring.sync()


def entries(block: bytes) -> Iterator[Entry]:
    """Yield the entries of a block; empty slots are left out."""
    for position, at_ms, tag, result, milliseconds in ENTRY.iter_unpack(block):
        if at_ms or position:
            yield Entry(position, at_ms, tag >> URL_BITS, tag & ((1 << URL_BITS) - 1), result, milliseconds)


def deliveries(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lane, the position and the whole entry of each delivery in a block: what is not to be sent again."""
    for at, (position, at_ms, tag, result, _) in enumerate(ENTRY.iter_unpack(block)):
        if at_ms and tag != DUPLICATE_TAG and 200 <= result < 300:
            yield tag >> URL_BITS, position, block[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES]


def newest_entry(block: bytes) -> int:
    """Return the slot after the newest entry of a whole ring."""
    newest, slot = 0, 0
    for index, (_, at_ms, tag, _, _) in enumerate(ENTRY.iter_unpack(block)):
        if tag != DUPLICATE_TAG and at_ms >= newest and at_ms > 0:
            newest, slot = at_ms, index + 1
    return slot % (len(block) // ENTRY_BYTES)


def positions_of(block: bytes) -> bytes:
    """Return the positions of all entries one after the other, 8 bytes each: a quarter of the bytes, and few zeros
    among them."""
    return memoryview(block).cast("Q")[:: ENTRY_BYTES // _POSITION_BYTES].tobytes()


def entries_of(block: bytes, position: int, positions: bytes | None = None) -> Iterator[Entry]:
    """Yield the entries of one position, found at memory speed; ``positions`` are the block's where they are known
    already."""
    if position == 0:  # its bytes are those of every empty slot
        yield from (entry for entry in entries(block) if entry.position == 0)
        return
    positions = positions_of(block) if positions is None else positions
    needle = position.to_bytes(_POSITION_BYTES, "little")
    at = positions.find(needle)
    while at >= 0:
        if at % _POSITION_BYTES == 0:
            entry = at // _POSITION_BYTES * ENTRY_BYTES
            yield from entries(block[entry : entry + ENTRY_BYTES])
        at = positions.find(needle, at + 1)
