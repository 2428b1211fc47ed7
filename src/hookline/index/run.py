"""Hold a sealed run: an immutable file with the keys and users of a range of offsets, written in a thread of its own.

Layout: header; times of the spans; then, with 32-bit numbers in the machine's byte order: the head of each bucket; the
entry of each number (key, newest repeat, link) from 0 on, which stays empty; the user hash of each offset. It is read
by single calls instead of a memory map: what was touched of a map counts as the process's memory, and with time that
is all of every run. Writing is ``seal``'s.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from errno import EIO
from pathlib import Path
from sys import byteorder
from typing import BinaryIO, NamedTuple, ParamSpec
from weakref import finalize
from zlib import crc32

from hookline.index.chains import SPAN_RECORDS, Chains, Entry, Times
from hookline.index.keys import KEY_BYTES, USER_HASH_BYTES
from hookline.index.mem_table import ENTRY_BYTES, NUMBER_BYTES, MemTable

P = ParamSpec("P")

Step = Future[None] | None
"""What a step of long work yields: None after working, or the future it waits for."""

_threads: list[ThreadPoolExecutor] = []


def in_background(function: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> Generator[Step, None, None]:
    """Run a function that waits for the disk; yield its future until it is done, then raise what it raised."""
    if not _threads:
        _threads.append(ThreadPoolExecutor(1, thread_name_prefix="index"))
    future = _threads[0].submit(function, *args, **kwargs)
    try:
        while not future.done():
            yield future
    finally:  # nothing writes to the folder any more once the work was given up
        if not future.cancel():
            wait([future])
    future.result()


SUFFIX = ".run"
MAGIC = b"HKLNRUN\0"
FORMAT_VERSION = 2
"""Version 1 was sorted; such files are removed and their events read from the journal again."""

_HEADER = struct.Struct("=8sIIQQIII")  # then the checksum of it
_CHECKSUM = struct.Struct("=I")
_SPAN_BYTES = 16
_NUMBER = struct.Struct("=I")
_ENTRY = struct.Struct("=16sII")


USERS_SEARCHED_FOR = 16
"""With more of them at once, every number is looked at instead."""


class RunDamaged(ValueError):
    """The file is not a whole run of a version that can be read; it counts as absent."""

    code = "index_run_damaged"


class Header(NamedTuple):
    """The fixed part of a run: its range, how many spans follow, and how keys fall into buckets."""

    first_offset: int
    next_offset: int
    spans: int
    bucket_bits: int
    salt: int

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"{self.first_offset:020d}-{self.next_offset:020d}{SUFFIX}"

    @property
    def times_at(self) -> int:
        """Return where the times begin."""
        return _HEADER.size + _CHECKSUM.size

    @property
    def heads_at(self) -> int:
        """Return where the heads of the buckets begin."""
        return self.times_at + self.spans * _SPAN_BYTES

    @property
    def entries_at(self) -> int:
        """Return where the entries begin."""
        return self.heads_at + (NUMBER_BYTES << self.bucket_bits)

    @property
    def users_at(self) -> int:
        """Return where the user hashes begin."""
        return self.entries_at + (self.next_offset - self.first_offset + 1) * ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole file."""
        return self.users_at + (self.next_offset - self.first_offset) * USER_HASH_BYTES

    def to_bytes(self) -> bytes:
        """Write the header with its checksum."""
        head = _HEADER.pack(MAGIC, FORMAT_VERSION, SPAN_RECORDS, *self)
        return head + _CHECKSUM.pack(crc32(head))

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """Read a header; raise RunDamaged when it is none, or of another version or machine."""
        if len(data) < _HEADER.size + _CHECKSUM.size:
            raise RunDamaged("too short for a run")
        magic, version, span, *numbers = _HEADER.unpack_from(data)
        if magic != MAGIC or version != FORMAT_VERSION or span != SPAN_RECORDS:
            raise RunDamaged("not a run of this version")
        if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
            raise RunDamaged("the header's checksum is wrong")
        return cls(*numbers)


class Run(Chains):
    """One sealed run, open for look-ups; they raise OSError when the disk refuses."""

    def __init__(self, path: Path) -> None:
        """Open the file; raise RunDamaged when it is not a whole run, OSError when it cannot be read."""
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._close = finalize(self, os.close, self._descriptor)
        head = Header.from_bytes(os.pread(self._descriptor, _HEADER.size + _CHECKSUM.size, 0))
        if os.fstat(self._descriptor).st_size != head.size_bytes:
            raise RunDamaged("not the length that its header says")
        self.first_offset, self.next_offset, _, self.bucket_bits, self.salt = head
        self.size_bytes = head.size_bytes
        self.times = Times.from_bytes(head.first_offset, self._read(head.times_at, head.spans * _SPAN_BYTES))
        self.latest = self.times.high or 0
        self._heads_at, self._entries_at, self._users_at = head.heads_at, head.entries_at, head.users_at

    def head(self, bucket: int) -> int:
        """Return the number at which the chain of a bucket starts."""
        head: int = _NUMBER.unpack(self._read(self._heads_at + bucket * NUMBER_BYTES, NUMBER_BYTES))[0]
        return head

    def entry(self, number: int) -> Entry:
        """Return what is known of a number."""
        return Entry(number, *_ENTRY.unpack(self._entries(number, 1)))

    def newest(self, start: int, count: int) -> Sequence[int]:
        """Return the newest repeats of the keys at so many numbers."""
        return memoryview(self._entries(start, count)).cast("I")[4::6].tolist()

    def keys(self, start: int, count: int) -> bytes:
        """Return the keys at so many numbers, fewer at the end."""
        count = min(count, len(self) + 1 - start)
        entries = memoryview(self._entries(start, count)).cast("Q")
        keys = bytearray(count * KEY_BYTES)
        with memoryview(keys).cast("Q") as halves:
            halves[0::2], halves[1::2] = entries[0::3], entries[1::3]
        return bytes(keys)

    def offsets_of_user(self, user_hash: bytes) -> list[int]:
        """Return every offset in the run whose record may be of the user, ascending."""
        return self.offsets_of_users((user_hash,))

    def offsets_of_users(self, user_hashes: Collection[bytes]) -> list[int]:
        """Return every offset in the run whose record may be of one of the users, ascending."""
        users = self._read(self._users_at, len(self) * USER_HASH_BYTES)
        if len(user_hashes) <= USERS_SEARCHED_FOR:
            numbers = sorted({number for user_hash in user_hashes for number in _numbers_of(user_hash, users)})
        else:
            wanted = {int.from_bytes(user_hash, byteorder) for user_hash in user_hashes}
            numbers = [number for number, user in enumerate(memoryview(users).cast("I")) if user in wanted]
        return [self.first_offset + number for number in numbers]

    def forget_users(self, offsets: Sequence[int]) -> None:
        """Overwrite whose records these are, durably; a user is no longer found by them."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for offset in offsets:
                at = self._users_at + (offset - self.first_offset) * USER_HASH_BYTES
                os.pwrite(descriptor, bytes(USER_HASH_BYTES), at)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def is_forgotten(self, offset: int) -> bool:
        """Return whether a record's user was overwritten; so it seems, very seldom, of another record too."""
        at = self._users_at + (offset - self.first_offset) * USER_HASH_BYTES
        return not any(self._read(at, USER_HASH_BYTES))

    def close(self) -> None:
        """Give the file back."""
        self._close()

    def _entries(self, start: int, count: int) -> bytes:
        return self._read(self._entries_at + start * ENTRY_BYTES, count * ENTRY_BYTES)

    def _read(self, at: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, at)
        if len(data) < size:
            raise OSError(EIO, "the file of a run was cut", str(self.path))
        return data


def _numbers_of(user_hash: bytes, users: bytes) -> Iterator[int]:
    place = users.find(user_hash)
    while place >= 0:
        number, astray = divmod(place, USER_HASH_BYTES)
        if not astray:
            yield number
        place = users.find(user_hash, place + 1)


TEMPORARY_SUFFIX = ".tmp"


def seal(mem_table: MemTable, folder: Path) -> Generator[Step, None, Run]:
    """Write the run; the file appears under its name only when it is complete.

    ``mem_table`` must not change meanwhile. Raise OSError when the disk refuses; nothing is left behind then.
    """
    header = Header(
        mem_table.first_offset, mem_table.next_offset, len(mem_table.times), mem_table.bucket_bits, mem_table.salt
    )
    path = folder / header.name
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            yield from in_background(_write, file, header, mem_table)
        temporary.rename(path)
        yield from in_background(sync_folder, folder)
    finally:
        temporary.unlink(missing_ok=True)
    return Run(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(file: BinaryIO, header: Header, mem_table: MemTable) -> None:
    file.write(header.to_bytes() + mem_table.times.to_bytes())
    for part in mem_table.parts():
        file.write(part)
    file.flush()
    os.fsync(file.fileno())
