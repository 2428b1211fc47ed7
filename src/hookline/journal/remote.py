"""Appending and erasing from another role: collect serves its appender on a Unix socket, the others send to it.

A frame is a length (u32, little-endian) and a MessagePack value: to collect a list of records, ``Erase`` or
``Refresh``, and back ``Stored``, sent only when that is done and durable. A connection carries one call at a time. The
semantics are the port's: after an error, the unreachable server included, records may have been stored, and a resend
carries the same messageIds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from hookline.journal.port import JournalError, JournalFailed, JournalFull
from hookline.journal.record import Record

FRAME_BYTES_MAX = 4 * 1024 * 1024
CONNECTIONS_MAX = 32
BODY_SECONDS_MAX = 30.0
"""How long a frame may take to arrive once its length is there."""
CALL_SECONDS_MAX = 60.0

_LENGTH_BYTES = 4
_BACKLOG = 64
_RECORDS_PER_FRAME = 500
OFFSETS_PER_FRAME = 250
"""Records that are erased in one go: with a local journal collect answers nobody meanwhile."""
_MAPS = frozenset(bytes((first,)) for first in range(0x80, 0x90))
"""How an order begins; a list of records begins otherwise."""


class JournalUnreachable(JournalFull):
    """The process that owns the journal does not answer. Temporary, like a full disk."""

    code = "journal_unreachable"
    retry_after_seconds = 1


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """The answer to one frame: ``code`` is empty when the records are durable."""

    code: str = ""
    message: str = ""


class Erase(msgspec.Struct, frozen=True, tag="erase"):
    """Overwrite the records at these offsets."""

    partition: int
    offsets: list[int]


class Refresh(msgspec.Struct, frozen=True, tag="refresh"):
    """Look whose events are not to be stored: from the answer on that is in force."""


class AppendsRecords(Protocol):
    """Hold what is served: ``append`` and ``erase`` of the port."""

    erases_in_thread: bool
    """As the port's."""

    async def append(self, records: Sequence[Record]) -> None:
        """Store the records durably."""

    def erase(self, partition: int, offsets: Sequence[int]) -> int:
        """Overwrite the records at these offsets."""


_encode = msgspec.msgpack.Encoder().encode
_decode_records = msgspec.msgpack.Decoder(list[Record]).decode
_decode_order = msgspec.msgpack.Decoder(Erase | Refresh).decode
_decode_stored = msgspec.msgpack.Decoder(Stored).decode


async def _nothing_to_refresh() -> None:
    """For owners that follow nobody."""


async def serve_append(
    path: Path, appender: AppendsRecords, refresh: Callable[[], Awaitable[None]] = _nothing_to_refresh
) -> asyncio.Server:
    """Take records and erasures on a socket at ``path`` (mode 0600) until the server is closed.

    ``refresh`` looks at once at what control wrote, or raises JournalError.
    """
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            if connections <= CONNECTIONS_MAX:
                await _serve_connection(reader, writer, appender, refresh)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the caller went away or stalled: it knows no more than that the outcome is open
        except asyncio.CancelledError:
            pass  # this process ends; Python 3.11 would log a connection that was cancelled as an error
        finally:
            connections -= 1
            writer.close()

    return await asyncio.start_unix_server(serve, sock=_bound(path), backlog=_BACKLOG)


class RemoteAppender:
    """Appends and erases through the process that owns the journal; concurrent calls go one after another."""

    def __init__(self, path: Path, timeout_seconds: float = CALL_SECONDS_MAX) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def append(self, records: Sequence[Record]) -> None:
        """Store the records durably; raise JournalUnreachable, JournalFull or JournalFailed as they come."""
        await self._send(_frames(records))

    async def erase(self, partition: int, offsets: Sequence[int]) -> None:
        """Overwrite the records at these offsets, durably; raise as ``append`` does."""
        chunks = (offsets[at : at + OFFSETS_PER_FRAME] for at in range(0, len(offsets), OFFSETS_PER_FRAME))
        await self._send(_encode(Erase(partition, list(chunk))) for chunk in chunks)

    async def refresh(self) -> None:
        """Have it look whose events are not to be stored; raise as ``append`` does."""
        await self._send([_encode(Refresh())])

    async def _send(self, frames: Iterable[bytes]) -> None:
        async with self._lock:
            for frame in frames:
                try:
                    async with asyncio.timeout(self._timeout_seconds):
                        stored = await self._call(frame)
                except (OSError, asyncio.IncompleteReadError) as error:
                    self._drop()
                    raise JournalUnreachable(f"the journal's owner does not answer at {self._path}: {error}") from None
                except BaseException:
                    self._drop()  # cancelled in the middle: an answer to this call must not be taken for the next one's
                    raise
                if stored.code:
                    raise _error(stored)

    async def close(self) -> None:
        """Close the connection; idempotent."""
        self._drop()

    async def _call(self, frame: bytes) -> Stored:
        if self._streams is not None and self._streams[0].at_eof():
            self._drop()  # the server was restarted since the last call
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(str(self._path))
        reader, writer = self._streams
        writer.write(len(frame).to_bytes(_LENGTH_BYTES, "little") + frame)
        await writer.drain()
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "little")
        return _decode_stored(await reader.readexactly(min(length, FRAME_BYTES_MAX)))

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _serve_connection(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    appender: AppendsRecords,
    refresh: Callable[[], Awaitable[None]],
) -> None:
    while True:
        head = await reader.readexactly(_LENGTH_BYTES)
        length = int.from_bytes(head, "little")
        if length > FRAME_BYTES_MAX:
            return
        async with asyncio.timeout(BODY_SECONDS_MAX):
            frame = await reader.readexactly(length)
        answer = _encode(await _store(frame, appender, refresh))
        writer.write(len(answer).to_bytes(_LENGTH_BYTES, "little") + answer)
        await writer.drain()


async def _store(frame: bytes, appender: AppendsRecords, refresh: Callable[[], Awaitable[None]]) -> Stored:
    try:
        if frame[:1] not in _MAPS:
            await appender.append(_decode_records(frame))
            return Stored()
        order = _decode_order(frame)
        if isinstance(order, Erase) and appender.erases_in_thread:
            await asyncio.to_thread(appender.erase, order.partition, order.offsets)
        elif isinstance(order, Erase):
            appender.erase(order.partition, order.offsets)
        else:
            await refresh()
            # Behind whatever was taken before: that is in the journal then, for whoever looks next.
            await appender.append(())
    except JournalError as error:
        return Stored(error.code, str(error))
    except (msgspec.DecodeError, ValueError) as error:
        return Stored("invalid_records", str(error))
    return Stored()


def _bound(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    path.chmod(0o600)  # before listening: until then no one can connect
    return bound


def _frames(records: Sequence[Record]) -> Iterator[bytes]:
    for start in range(0, len(records), _RECORDS_PER_FRAME):
        yield from _within(records[start : start + _RECORDS_PER_FRAME])


def _within(records: Sequence[Record]) -> Iterator[bytes]:
    frame = _encode(records)
    if len(frame) <= FRAME_BYTES_MAX:
        yield frame
    elif len(records) == 1:
        raise ValueError(f"a record of {len(frame)} bytes is larger than the journal takes")
    else:
        half = len(records) // 2
        yield from _within(records[:half])
        yield from _within(records[half:])


def _error(stored: Stored) -> Exception:
    """Return the error as the port names it; of the owner's own kinds only what to do about them is told apart."""
    if stored.code == JournalFailed.code:
        return JournalFailed(stored.message)
    if stored.code == "invalid_records":
        return ValueError(stored.message)
    if stored.code in (JournalFull.code, "journal_busy"):
        return JournalFull(stored.message)
    return JournalError(stored.message)
