"""Overwrite what deleted rows left in the gaps of a database file's pages.

``PRAGMA secure_delete`` zeroes a row where it stands. But rows move between pages as a table grows, and a copy may stay
behind in the gap of a page: the bytes between its list of rows and its rows, which no statement reads. Here the gaps
are zeroed in the file itself. No other byte is written, so a crash or a torn write in the middle harms nothing: SQLite
relies in the same way on disks that leave alone what is next to the bytes they write.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from hookline.database.connection import transaction
from hookline.database.sqlite import Connection, DatabaseFailing, DatabaseLocked, connect
from hookline.telemetry.log import logger

PAGES_PER_SLICE = 4_096
"""Of one transaction: others cannot write meanwhile."""
PAGES_PER_READ = 256
TRIES_MAX = 20
"""Of a slice, as long as others write or check-point just before it."""
TRY_REST_SECONDS = 0.05
PASSES_MAX = 3
"""While others write: they may move a page from the part that is still to come into the part that is done."""
PAGES_MAX = 2**25
"""From so many on, the first byte of a page that continues a long row or lists free pages, which is a page's number,
may look like the type of a page with rows."""

_MAGIC = b"SQLite format 3\0"
_FILE_HEADER = struct.Struct(">16sHBBB31xI44x")
"""Magic, page size, version to write, version to read, bytes reserved in each page, and the largest root page of a file
whose pages are moved to vacuum it."""
_WAL_VERSION = 2
_PAGE_HEADER = struct.Struct(">BHHH")
"""Type, first free block, number of rows, and where the rows begin."""
_HEADER_BYTES = {2: 12, 5: 12, 10: 8, 13: 8}
"""By the type of a page with rows or keys; the list of them follows."""
_LARGEST_PAGE = 65_536


def overwrite_gaps(path: Path) -> bool:
    """Zero the gaps of a file in write-ahead mode and empty its log; return whether all of it was done: False when
    readers or writers were in the way for too long, or another file has its place by now.

    To be called after the deletion is committed, from a thread with no open transaction there. Other connections may
    read and write meanwhile. Files of more than ``PAGES_MAX`` pages (128 GiB) are left as they are, which is logged.
    """
    real = Path(os.path.realpath(path))
    try:
        before = os.stat(real)
        with closing(connect(real)) as connection:
            descriptor = _DESCRIPTORS.of(real)
            if not os.path.samestat(before, os.fstat(descriptor)):
                return False
            return _Overwriting(connection, descriptor, real).run()
    except DatabaseLocked:
        return False
    except OSError as error:
        raise DatabaseFailing(f"{path.name}: {error}") from error


class _Descriptors:
    """Keep a descriptor of each file open for as long as the file is there.

    If any descriptor of a file is closed, the system drops all locks that the process has on it, SQLite's too. Another
    process could then take itself for the last one and remove the write-ahead log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[int, int], int] = {}

    def of(self, path: Path) -> int:
        """Return the descriptor of the file that is there now."""
        with self._lock:
            for key, descriptor in list(self._open.items()):
                if not os.fstat(descriptor).st_nlink:  # removed: its locks mean nothing, and its room is given back
                    os.close(self._open.pop(key))
            found = os.stat(path)
            known = self._open.get((found.st_dev, found.st_ino))
            if known is not None:
                return known
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            opened = os.fstat(descriptor)
            return self._open.setdefault((opened.st_dev, opened.st_ino), descriptor)


_DESCRIPTORS = _Descriptors()


class _Layout(NamedTuple):
    page_bytes: int
    usable_bytes: int
    """Of a page: without those that extensions reserve at its end."""


class _Overwriting:
    """Work through one file with a connection of its own.

    Each slice is a transaction. It begins with an empty log, so the file holds every page as it is, and others can
    neither write nor fill the log before it ends. Other connections may hold a page of the slice in memory as it was.
    So the slice commits something: whoever writes next, in any process, sees that and reads its pages again first; who
    reads in a transaction that began before cannot write in it.
    """

    def __init__(self, connection: Connection, descriptor: int, path: Path) -> None:
        self._connection = connection
        self._descriptor = descriptor
        self._path = path
        self._log = path.with_name(path.name + "-wal")

    def run(self) -> bool:
        for _ in range(PASSES_MAX):
            version = self._version_of_others()
            if not self._pass():
                return False
            if self._version_of_others() == version:
                break
        return self._empty_log()

    def _version_of_others(self) -> int:
        """Return what is different after somebody else committed."""
        ((version,),) = self._connection.execute("PRAGMA data_version").fetchall()
        return int(version)

    def _pass(self) -> bool:
        layout = self._layout()
        if layout is None:
            return False
        first = 0
        while (count := os.fstat(self._descriptor).st_size // layout.page_bytes) > first:
            if count > PAGES_MAX:
                logger().warning("gaps_not_overwritten", file=str(self._path), pages=count)
                return True
            if not self._slice(layout, first):
                return False
            first += PAGES_PER_SLICE
        return True

    def _layout(self) -> _Layout | None:
        """Return how the file is made up; None when its pages could be other than is assumed here."""
        if not self._empty_log():  # the header of a new file may be in the log alone
            return None
        header = os.pread(self._descriptor, _FILE_HEADER.size, 0)
        if len(header) < _FILE_HEADER.size:
            return None
        magic, page_bytes, *versions, reserved, largest_root = _FILE_HEADER.unpack(header)
        page_bytes = _LARGEST_PAGE if page_bytes == 1 else page_bytes
        is_known = magic == _MAGIC and versions == [_WAL_VERSION, _WAL_VERSION] and not largest_root
        if not is_known or page_bytes < 512 or page_bytes & (page_bytes - 1):
            return None
        return _Layout(page_bytes, page_bytes - reserved)

    def _slice(self, layout: _Layout, first: int) -> bool:
        for _ in range(TRIES_MAX):
            if not self._empty_log():
                return False
            with transaction(self._connection) as execute:
                if not os.path.samestat(os.stat(self._path), os.fstat(self._descriptor)):
                    return False
                if os.stat(self._log).st_size == 0:
                    changed = self._overwrite(layout, first)
                    # In the first slice always: a run that was ended may have zeroed pages that others still hold.
                    if changed or first == 0:
                        ((number,),) = execute("PRAGMA user_version").fetchall()
                        execute(f"PRAGMA user_version = {number}")  # writes page 1, as it was
                    return True
        return False

    def _empty_log(self) -> bool:
        for _ in range(TRIES_MAX):
            busy, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return True
            if pages >= 0:  # a reader or a writer was waited for, and in vain
                return False
            time.sleep(TRY_REST_SECONDS)  # somebody else is check-pointing, for which SQLite does not wait
        return False

    def _overwrite(self, layout: _Layout, first: int) -> bool:
        """Zero the gaps of a slice; return whether one of them held something."""
        changed = False
        for page in range(first, first + PAGES_PER_SLICE, PAGES_PER_READ):
            count = min(PAGES_PER_READ, first + PAGES_PER_SLICE - page)
            start = page * layout.page_bytes
            data = os.pread(self._descriptor, count * layout.page_bytes, start)
            # Page 1 holds names of tables and nothing of people; the commit writes it from memory.
            for at in range(0 if page else layout.page_bytes, len(data) - layout.page_bytes + 1, layout.page_bytes):
                found = _gap(data, at, layout.usable_bytes)
                if found is not None:
                    begin, length = found
                    _write(self._descriptor, bytes(length), start + begin)
                    changed = True
        if changed:
            os.fsync(self._descriptor)
        return changed


def _gap(data: bytes, at: int, usable_bytes: int) -> tuple[int, int] | None:
    """Return where the gap of the page at a position of the data begins, and its length; None where it is zero already,
    or the page is of another kind or does not look right."""
    header_bytes = _HEADER_BYTES.get(data[at])
    if header_bytes is None:
        return None
    _, free_block, rows, content = _PAGE_HEADER.unpack_from(data, at)
    begin, end = header_bytes + 2 * rows, content or _LARGEST_PAGE
    if not begin < end <= usable_bytes or data[at + begin : at + end] == bytes(end - begin):
        return None
    pointers = struct.unpack_from(f">{rows}H", data, at + header_bytes)
    if any(not end <= pointer < usable_bytes for pointer in pointers) or 0 < free_block < end:
        return None  # damaged: something would begin in the gap
    return at + begin, end - begin


def _write(descriptor: int, data: bytes, position: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, position)
        data, position = data[written:], position + written
