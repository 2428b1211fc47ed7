"""Define the format of a segment file and the names in a partition's folder, and prepare the segment after the current
one.

A segment is a zero-filled file named by the first offset in it. It begins with a header (magic, format version, first
offset, crc32); groups follow one after another: crc32 u32, length u32, count u32, first offset u64, journal time of
the last record u64, then ``length`` bytes of one MessagePack array of records, all little-endian. The checksum covers
everything after itself. A length of zero is the clean end.

Writing into a zero-filled file changes no metadata of the file system, so that a commit is one data write.
"""

from __future__ import annotations

import os
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from zlib_ng.zlib_ng import crc32

from hookline.journal.local.disk import Disk, is_full, write_all
from hookline.journal.port import (
    GROUP_BYTES_MAX,
    GROUP_RECORDS_MAX,
    JournalError,
    JournalFailed,
    JournalFull,
    JournalTooNew,
)
from hookline.journal.record import FORMAT_VERSION, Record, journal_ms
from hookline.telemetry.crashpoints import crash_point

SEGMENT_FORMAT = 1
SUFFIX = ".seg"
OFFSET_DIGITS = 20
_NAME = re.compile(rf"0\d{{{OFFSET_DIGITS - 1}}}{re.escape(SUFFIX)}", re.ASCII)
"""No offset has twenty digits."""

_MAGIC = b"HOOKJRNL"
_SEGMENT_HEADER = struct.Struct("<8sIQI")
_GROUP_HEADER = struct.Struct("<IIIQQ")
_GROUP_CHECKED = struct.Struct("<IIQQ")
SEGMENT_HEADER_BYTES = _SEGMENT_HEADER.size
GROUP_HEADER_BYTES = _GROUP_HEADER.size
CHECKSUM_BYTES = 4

GROUP_RECORDS = 256
"""Records per group when more are waiting: large enough to be quick, small enough for one step of a reader, and for
what is made of them to be in the processor's cache from the first step to the last."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode


class GroupHeader(NamedTuple):
    """Hold what stands before a group's records."""

    crc: int
    length: int
    record_count: int
    first_offset: int
    received_at_last: int

    @property
    def size_bytes(self) -> int:
        """Header and records together."""
        return GROUP_HEADER_BYTES + self.length

    @property
    def next_offset(self) -> int:
        """Return the offset after the group's last record."""
        return self.first_offset + self.record_count

    def is_plausible(self, offset: int) -> bool:
        """Return whether a group beginning at ``offset`` may have this header; the checksum is not looked at."""
        return (
            self.first_offset == offset
            and 0 < self.record_count <= GROUP_RECORDS_MAX
            and 0 < self.length <= GROUP_BYTES_MAX - GROUP_HEADER_BYTES
        )


class EncodedGroup(NamedTuple):
    """A group as it is written."""

    header: bytes
    payload: bytes
    record_count: int
    received_at_last: int

    @property
    def size_bytes(self) -> int:
        """Header and records together."""
        return GROUP_HEADER_BYTES + len(self.payload)


def segment_name(first_offset: int) -> str:
    """Return the file name of the segment that begins with this offset."""
    return f"{first_offset:0{OFFSET_DIGITS}d}{SUFFIX}"


def list_segments(folder: Path) -> list[int]:
    """Return the first offsets of the segments in a partition's folder, oldest first; none when there is no folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    # What else ends so is a copy that somebody made.
    return sorted(int(name[:OFFSET_DIGITS]) for name in names if _NAME.fullmatch(name))


def encode_segment_header(first_offset: int) -> bytes:
    """Return the bytes at the start of a segment."""
    checked = _SEGMENT_HEADER.pack(_MAGIC, SEGMENT_FORMAT, first_offset, 0)[:-CHECKSUM_BYTES]
    return checked + struct.pack("<I", crc32(checked))


def is_segment_header(path: Path, header: bytes, first_offset: int) -> bool:
    """Return whether this segment's own header is whole; raise JournalTooNew for one of a newer version.

    A damaged one keeps nobody from reading: the file's name says where it begins, and each group says the rest.
    """
    if len(header) != SEGMENT_HEADER_BYTES:
        return False
    magic, version, offset, crc = _SEGMENT_HEADER.unpack(header)
    if magic != _MAGIC or crc != crc32(header[:-CHECKSUM_BYTES]):
        return False
    if version > SEGMENT_FORMAT:
        raise JournalTooNew(
            f"journal segment {path} was written by a newer Hookline (format {version}, this one knows"
            f" {SEGMENT_FORMAT}); start that version again, or restore a backup made by this one"
        )
    return bool(offset == first_offset)


def refuse_newer(journal: Path) -> None:
    """Raise JournalTooNew when the newest segment of a partition is of a newer version."""
    for folder in sorted(journal.glob("[0-9]*")):
        with suppress(OSError):  # whoever opens it says so
            for first_offset in list_segments(folder)[-1:]:
                path = folder / segment_name(first_offset)
                with path.open("rb", buffering=0) as file:
                    is_segment_header(path, file.read(SEGMENT_HEADER_BYTES), first_offset)


def encode_groups(records: Sequence[Record], first_offset: int, bytes_max: int) -> Iterator[EncodedGroup]:
    """Yield the records as groups of at most GROUP_RECORDS records and, where records allow it, ``bytes_max`` bytes."""
    for start in range(0, len(records), GROUP_RECORDS):
        yield from _encode_within(records[start : start + GROUP_RECORDS], first_offset + start, bytes_max)


def encode_damage(payload: bytes | memoryview, record_count: int, first_offset: int) -> bytes:
    """Return a header for what is damaged: it says which offsets are lost and where the next group begins, and its
    checksum does not fit."""
    checked = _GROUP_CHECKED.pack(len(payload), record_count, first_offset, 0)
    return struct.pack("<I", crc32(payload, crc32(checked)) ^ 0xFFFFFFFF) + checked


def decode_header(data: bytes | bytearray | memoryview, at: int = 0) -> GroupHeader:
    """Return the group header at this place."""
    return GroupHeader._make(_GROUP_HEADER.unpack_from(data, at))


def is_intact(group: bytes | bytearray | memoryview, crc: int) -> bool:
    """Return whether a whole group, header included, has this checksum."""
    return crc32(memoryview(group)[CHECKSUM_BYTES:]) == crc


def decode_records(payload: bytes | memoryview) -> list[Record]:
    """Return the records of one intact group; raise JournalTooNew when they were written by a newer version."""
    try:
        records = _decode(payload)
    except msgspec.ValidationError as error:
        raise JournalTooNew(f"a journal record has a shape this version does not know ({error}): upgrade") from None
    if records[-1].format_version > FORMAT_VERSION:
        raise JournalTooNew(f"journal records have format {records[-1].format_version}: upgrade to read them")
    return records


def _encode_within(records: Sequence[Record], first_offset: int, bytes_max: int) -> Iterator[EncodedGroup]:
    payload = _encode(records)
    if len(payload) + GROUP_HEADER_BYTES > bytes_max and len(records) > 1:
        half = len(records) // 2
        yield from _encode_within(records[:half], first_offset, bytes_max)
        yield from _encode_within(records[half:], first_offset + half, bytes_max)
        return
    if len(payload) + GROUP_HEADER_BYTES > bytes_max:
        raise ValueError(f"a record of {len(payload)} bytes is larger than the journal takes")
    received_at_last = max(0, journal_ms(records[-1]))
    checked = _GROUP_CHECKED.pack(len(payload), len(records), first_offset, received_at_last)
    header = struct.pack("<I", crc32(payload, crc32(checked))) + checked
    yield EncodedGroup(header, payload, len(records), received_at_last)


TEMPORARY_NAME = "next.tmp"
FULL_RETRY_SECONDS = 1.0
"""How long a full disk is left alone before it is asked again."""

_CHUNK_BYTES = 512 * 1024
"""Filled and synchronised at a time: the commits beside it never queue behind a whole segment."""
_PAUSE_SECONDS = 0.002
"""Between chunks, so that filling takes a part of the disk only, unless the segment is needed soon."""


class OpenSegment(NamedTuple):
    """A segment open for writing."""

    fd: int
    first_offset: int
    size_bytes: int


class NextSegment:
    """The next segment of one partition: ``begin`` it ahead of time, ``take`` it when the current one is full."""

    def __init__(
        self, folder: Path, disk: Disk, threads: ThreadPoolExecutor, reserve_bytes: int, clock: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._threads = threads
        self._reserve_bytes = reserve_bytes
        self._clock = clock
        self._filling: Future[int] | None = None
        self._size_bytes = 0
        self._full_until = 0.0
        self._closing = False
        self._wanted = threading.Event()

    @property
    def is_ready(self) -> bool:
        """Return whether ``take`` would answer at once, were it with a refusal."""
        return self._filling is not None and self._filling.done() and not self._may_retry()

    def begin(self, size_bytes: int) -> None:
        """Start filling unless that is under way, done, or was refused for want of room a moment ago."""
        if self._filling is not None and not self._may_retry():
            return
        self._size_bytes = size_bytes
        self._wanted.clear()
        self._filling = self._threads.submit(self._fill, size_bytes)

    def prepare_soon(self) -> None:
        """Fill as quickly as the disk allows: the segment is needed soon."""
        self._wanted.set()

    def wait(self, size_bytes: int) -> int:
        """Wait until the next segment is filled; raise JournalFull when there is no room for it."""
        self.begin(size_bytes)
        self.prepare_soon()
        assert self._filling is not None
        return self._filling.result()

    def take(self, first_offset: int, size_bytes: int) -> OpenSegment:
        """Give the filled file its header and its name, durably, and hand it over."""
        fd = self.wait(size_bytes)
        self._filling = None
        try:
            write_all(self._disk, fd, [encode_segment_header(first_offset)], 0)
            self._disk.fdatasync(fd)
            crash_point("journal.segment_created_before_rename")
            (self._folder / TEMPORARY_NAME).rename(self._folder / segment_name(first_offset))
        except OSError as error:
            os.close(fd)
            (self._folder / TEMPORARY_NAME).unlink(missing_ok=True)
            raise _error(self._folder, error) from error
        crash_point("journal.segment_renamed_before_sync")
        try:
            self._disk.sync_folder(self._folder)
        except OSError as error:
            os.close(fd)
            raise JournalFailed(f"cannot synchronise {self._folder} ({error}): check the disk") from error
        return OpenSegment(fd, first_offset, self._size_bytes)

    def close(self) -> None:
        """Stop filling, and remove what was prepared and not taken."""
        self._closing = True
        self.prepare_soon()
        if self._filling is not None and self._filling.exception() is None:
            os.close(self._filling.result())
            (self._folder / TEMPORARY_NAME).unlink(missing_ok=True)
        self._filling = None

    def _may_retry(self) -> bool:
        """Return whether filling was refused for want of room, long enough ago to ask again."""
        if self._filling is None or not self._filling.done():
            return False
        return isinstance(self._filling.exception(), JournalFull) and self._clock() >= self._full_until

    def _fill(self, size_bytes: int) -> int:
        try:
            if self._disk.free_bytes(self._folder) - size_bytes < self._reserve_bytes:
                raise _full(self._folder)
            fd = self._write_zeros(size_bytes)
        except JournalFull:
            self._full_until = self._clock() + FULL_RETRY_SECONDS
            raise
        except OSError as error:
            self._full_until = self._clock() + FULL_RETRY_SECONDS
            raise _error(self._folder, error) from error
        crash_point("journal.segment_filled")
        return fd

    def _write_zeros(self, size_bytes: int) -> int:
        path = self._folder / TEMPORARY_NAME
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        try:
            zeros = memoryview(bytes(_CHUNK_BYTES))
            for position in range(0, size_bytes, _CHUNK_BYTES):
                if self._closing:
                    raise _full(self._folder)
                write_all(self._disk, fd, [zeros[: size_bytes - position]], position)
                self._disk.fdatasync(fd)
                self._wanted.wait(_PAUSE_SECONDS)
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return fd


def _error(folder: Path, error: OSError) -> JournalError:
    if is_full(error):
        return _full(folder, f" ({error.strerror})")
    return JournalFailed(f"cannot create a journal segment in {folder} ({error}): check the disk, then start again")


def _full(folder: Path, why: str = "") -> JournalFull:
    next_step = "free disk space or lower retention.bytes"
    return JournalFull(f"no room for another journal segment in {folder}{why}: {next_step}")
