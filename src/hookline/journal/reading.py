"""Hold what every backend needs: reading a stretch on past what is gone, and the lock and the bounds of an appender."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import heapq
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hookline.journal.port import (
    Done,
    Group,
    JournalCorrupt,
    JournalLocked,
    Lookups,
    LoopReaders,
    OffsetExpired,
    Reader,
    SearchableReader,
)
from hookline.journal.record import Record

Lost = OffsetExpired | JournalCorrupt
"""Why a stretch cannot be read; ``next_offset`` is where it goes on."""


def read_on(
    journal: Lookups, partition: int, offset: int, end: int, on_lost: Callable[[Lost], object] | None = None
) -> Iterator[Group]:
    """Yield the groups from ``offset`` on until one reaches ``end``, which is at most the journal's. What cannot be
    read is passed over, and ``on_lost`` is told."""
    while offset < end:
        try:
            for group in journal.read(partition, offset):
                offset = group.next_offset
                yield group
                if offset >= end:
                    return
            return
        except (OffsetExpired, JournalCorrupt) as lost:
            if on_lost is not None:
                on_lost(lost)
            offset = max(lost.next_offset, offset + 1)


def is_lost(journal: Reader, partition: int, first: int, next_offset: int) -> bool:
    """Return whether anything of a stretch, as far as it is still kept, cannot be read."""
    lost: list[JournalCorrupt] = []

    def note(why: Lost) -> None:
        if isinstance(why, JournalCorrupt):
            lost.append(why)

    end = min(next_offset, journal.end(partition))
    return any(lost for _ in read_on(journal, partition, max(first, journal.start(partition)), end, note)) or bool(lost)


class Place(NamedTuple):
    """A record and where it lies."""

    partition: int
    offset: int
    record: Record


def newest_first(journal: SearchableReader, before: Mapping[int, int]) -> Iterator[Place]:
    """Yield the records below the offset given for each partition, newest first by when they were received."""
    streams = [_partition(journal, partition, offset) for partition, offset in before.items()]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=lambda place: -place.record.received_at)


def _partition(journal: SearchableReader, partition: int, before: int) -> Iterator[Place]:
    for group in journal.read_backwards(partition, before):
        for index in range(len(group.records) - 1, -1, -1):
            offset = group.first_offset + index
            if offset < before:
                yield Place(partition, offset, group.records[index])


def at_hand(reader: Reader) -> LoopReaders:
    """Return a reader that never waits as what an event loop reads by."""
    return LoopReaders(_AtHand(reader), reader, None, lambda: None)


class _AtHand:
    """Follows partitions by asking the reader itself each time."""

    def __init__(self, reader: Reader) -> None:
        self.end = reader.end
        self.read = reader.read

    def begin(self) -> None:
        """Nothing is read ahead."""

    def follow(self, partition: int, end: int) -> None:
        """Nothing is read ahead."""

    def leave(self, partition: int) -> None:
        """Nothing was read ahead."""


RECORD_BYTES_MAX = 1024 * 1024
RECORDS_PER_CALL_MAX = 10_000
PENDING_BYTES_MAX = 64 * 1024 * 1024
"""What may wait to be stored; more is refused until some of it is."""

_RECORD_OVERHEAD_BYTES = 160


async def awaited(append_soon: Callable[[Sequence[Record], Done], None], records: Sequence[Record]) -> None:
    """Append and return once it is durable; raise what went wrong."""
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: BaseException | None) -> None:
        if stored.done():
            return  # the caller was cancelled
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    append_soon(records, done)
    await stored


def size_bytes(records: Sequence[Record], record_bytes_max: int = RECORD_BYTES_MAX) -> int:
    """About what the records take once encoded; raise ValueError for what no journal takes."""
    if len(records) > RECORDS_PER_CALL_MAX:
        raise ValueError(f"append at most {RECORDS_PER_CALL_MAX} records at a time")
    total = 0
    for record in records:
        size = len(record.body) + len(record.message_id) + len(record.user_key) + _RECORD_OVERHEAD_BYTES
        if record.envelope is not None:
            size += len(record.envelope)
        if size > record_bytes_max:
            raise ValueError(f"a record of {size} bytes is larger than the journal takes")
        total += size
    return total


RECORDS = b"\0"
CHANGES = b"c"
"""What a datagram tells of: new records, or a commit of control's."""
_SIGN_BYTES_MAX = 64


class Wake:
    """Sends a datagram to a socket that a reader listens on; no one needs to be there."""

    def __init__(self, path: Path | None, sign: bytes = RECORDS) -> None:
        self._address = str(path) if path else None
        self._sign = sign
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def poke(self) -> None:
        """Tell the reader to look."""
        if self._address is not None:
            try:
                self._socket.sendto(self._sign, self._address)
            except OSError:
                pass  # no one listens, or has enough pokes waiting: readers also look by themselves

    def close(self) -> None:
        """Give back the socket."""
        self._socket.close()


def listen_for_wakes(path: Path) -> socket.socket:
    """Return the datagram socket that is poked there."""
    path.unlink(missing_ok=True)
    wake = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    wake.setblocking(False)
    wake.bind(str(path))
    os.chmod(path, 0o600)
    return wake


def take_wakes(wake: socket.socket) -> set[bytes]:
    """Return what the datagrams that wait there tell of."""
    found: set[bytes] = set()
    with contextlib.suppress(BlockingIOError):
        while True:
            found.add(wake.recv(_SIGN_BYTES_MAX))
    return found


def lock_folder(folder: Path) -> int:
    """Take the lock and return its descriptor, which holds it until it is closed; raise JournalLocked."""
    fd = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise JournalLocked(f"another server already writes to {folder}: stop it, or use another data folder") from None
    return fd
