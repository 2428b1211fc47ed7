"""Writing recent records into a sealed run, behind the event loop's back."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from hookline.index.background import Step, in_background
from hookline.index.recent import Recent
from hookline.index.run import Header, Run

TEMPORARY_SUFFIX = ".tmp"


def seal(recent: Recent, folder: Path) -> Generator[Step, None, Run]:
    """Write the run; the file appears under its name only when it is complete.

    ``recent`` must not change meanwhile. Raise OSError when the disk refuses; nothing is left behind then.
    """
    header = Header(recent.first_offset, recent.next_offset, len(recent.times), recent.bucket_bits, recent.salt)
    path = folder / header.name
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            yield from in_background(_write, file, header, recent)
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


def _write(file: BinaryIO, header: Header, recent: Recent) -> None:
    file.write(header.to_bytes() + recent.times.to_bytes())
    for part in recent.parts():
        file.write(part)
    file.flush()
    os.fsync(file.fileno())
