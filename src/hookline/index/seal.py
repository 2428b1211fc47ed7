"""Writing a sealed run from recent records, in short steps."""

from __future__ import annotations

import os
from collections.abc import Generator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from hookline.index.recent import Recent
from hookline.index.run import FANOUT, Header, Run
from hookline.index.sorted_chunks import ENTRY_BYTES, sorted_chunks

TEMPORARY_SUFFIX = ".tmp"

SYNC_BYTES = 128 * 1024
"""Written between two synchronisations: many short ones stall the loop less than one of the whole file."""

WRITE_BYTES = 64 * 1024


def seal(recent: Recent, folder: Path) -> Generator[None, None, Run]:
    """Write the run; each step takes about a millisecond, and the file appears under its name only when complete.

    ``recent`` must not change meanwhile. Raise OSError when the disk refuses; nothing is left behind then.
    """
    draft = Header(recent.first_offset, recent.next_offset, len(recent.times), 0)
    path = folder / draft.name
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.seek(draft.entries_at)
            counts = yield from _write_entries(file, recent)
            yield from _write_users(file, recent.users)
            file.seek(0)
            header = draft._replace(entries=sum(counts)).to_bytes()
            file.write(header + recent.times.to_bytes() + FANOUT.pack(0, *accumulate(counts)))
            file.flush()
            os.fsync(file.fileno())
            yield
        temporary.rename(path)
        sync_folder(folder)
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


def _write_entries(file: BinaryIO, recent: Recent) -> Generator[None, None, list[int]]:
    """Write the entries sorted; return how many there are with each first byte."""
    counts = [0] * 256
    unsynced = 0
    for chunk in sorted_chunks(recent.entries()):
        if chunk:
            counts[chunk[0]] += len(chunk) // ENTRY_BYTES
            unsynced = _write(file, chunk, unsynced)
        yield
    return counts


def _write_users(file: BinaryIO, users: bytearray) -> Generator[None, None, None]:
    unsynced = 0
    for start in range(0, len(users), WRITE_BYTES):
        unsynced = _write(file, users[start : start + WRITE_BYTES], unsynced)
        yield


def _write(file: BinaryIO, data: bytes | bytearray, unsynced: int) -> int:
    file.write(data)
    if unsynced + len(data) < SYNC_BYTES:
        return unsynced + len(data)
    file.flush()
    os.fdatasync(file.fileno())
    return 0
