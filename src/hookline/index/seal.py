"""Writing a mem table into a sealed run, behind the event loop's back."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from hookline.index.background import Step, in_background
from hookline.index.mem_table import MemTable
from hookline.index.run import Header, Run

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
