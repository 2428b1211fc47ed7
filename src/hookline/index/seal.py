"""Writing a sealed run from recent records, in short steps."""

from __future__ import annotations

import os
from collections.abc import Generator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from hookline.events.fingerprint import FINGERPRINT_BYTES
from hookline.index.recent import Recent
from hookline.index.run import ENTRY_BYTES, FANOUT, USER_BYTES, Header, Run
from hookline.index.sorted_chunks import sorted_chunks
from hookline.index.user_hash import USER_HASH_BYTES

TEMPORARY_SUFFIX = ".tmp"

SYNC_BYTES = 128 * 1024
"""Written between two synchronisations: many short ones stall the loop less than one of the whole file."""


def seal(recent: Recent, folder: Path) -> Generator[None, None, Run]:
    """Write the run; each step takes about a millisecond, and the file appears under its name only when complete.

    ``recent`` must not change meanwhile. Raise OSError when the disk refuses; nothing is left behind then.
    """
    entries = bytearray()
    for chunk in recent.entries():
        entries += chunk
        yield
    counts = len(recent.times), len(entries) // ENTRY_BYTES, len(recent.users) // USER_BYTES
    header = Header(recent.first_offset, recent.next_offset, *counts)
    path = folder / header.name
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.seek(header.entries_at)
            entry_fanout = yield from _write_section(file, entries, ENTRY_BYTES, FINGERPRINT_BYTES)
            user_fanout = yield from _write_section(file, recent.users, USER_BYTES, USER_HASH_BYTES)
            file.seek(0)
            file.write(header.to_bytes() + recent.times.to_bytes() + entry_fanout + user_fanout)
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


def _write_section(file: BinaryIO, entries: bytearray, width: int, key_bytes: int) -> Generator[None, None, bytes]:
    """Write the entries sorted; return how many there are below each first byte."""
    counts = [0] * 256
    unsynced = 0
    for chunk in sorted_chunks(entries, width, key_bytes):
        if chunk:
            counts[chunk[0]] += len(chunk) // width
            file.write(chunk)
            unsynced += len(chunk)
        if unsynced >= SYNC_BYTES:
            file.flush()
            os.fdatasync(file.fileno())
            unsynced = 0
        yield
    return FANOUT.pack(0, *accumulate(counts))
