"""Writing a sealed run from recent records, in short steps."""

from __future__ import annotations

import os
from collections.abc import Generator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from hookline.index.background import Step, in_background
from hookline.index.recent import Recent
from hookline.index.run import FANOUT, Header, Run
from hookline.index.sorted_chunks import ENTRY_BYTES, sorted_chunks

TEMPORARY_SUFFIX = ".tmp"

WRITE_BYTES = 64 * 1024


def seal(recent: Recent, folder: Path) -> Generator[Step, None, Run]:
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
            yield from in_background(os.fsync, file.fileno())
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


def _write_entries(file: BinaryIO, recent: Recent) -> Generator[Step, None, list[int]]:
    """Write the entries sorted; return how many there are with each first byte."""
    counts = [0] * 256
    for chunk in sorted_chunks(recent.entries()):
        if chunk:
            counts[chunk[0]] += len(chunk) // ENTRY_BYTES
            file.write(chunk)
        yield None
    return counts


def _write_users(file: BinaryIO, users: bytearray) -> Generator[Step, None, None]:
    for start in range(0, len(users), WRITE_BYTES):
        file.write(users[start : start + WRITE_BYTES])
        yield None
