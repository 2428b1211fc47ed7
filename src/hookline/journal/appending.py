"""What every appender needs: the lock on the folder, a bound on what one call appends, waiting for an answer that comes
by a callback, and poking readers of this machine.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from hookline.journal.port import Done, JournalLocked
from hookline.journal.record import Record

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


class Wake:
    """Sends a datagram to a socket that a reader listens on; no one needs to be there."""

    def __init__(self, path: Path | None) -> None:
        self._address = str(path) if path else None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def poke(self) -> None:
        """Tell the reader to look."""
        if self._address is not None:
            try:
                self._socket.sendto(b"\0", self._address)
            except OSError:
                pass  # no one listens, or has enough pokes waiting: readers also look by themselves

    def close(self) -> None:
        """Give back the socket."""
        self._socket.close()


def lock_folder(folder: Path) -> int:
    """Take the lock and return its descriptor, which holds it until it is closed; raise JournalLocked."""
    fd = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise JournalLocked(f"another server already writes to {folder}: stop it, or use another data folder") from None
    return fd
