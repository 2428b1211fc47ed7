"""Which column of which filter file belongs to which run, and which columns are surely on the disk.

What a process wrote to a filter outlives the process, not the machine: after another boot only flushed columns count.
"""

from __future__ import annotations

import os
from pathlib import Path
from sys import byteorder

import msgspec

from hookline.index.run import TEMPORARY_SUFFIX, sync_folder

NAME = "manifest.json"
FORMAT_VERSION = 3
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class FilterEntry(msgspec.Struct):
    """One filter file: its rows, the run that each column was filled from, and how many columns are flushed."""

    name: str
    rows: int
    columns: list[str]
    flushed: int = 0


class Manifest(msgspec.Struct):
    """All filter files of one partition, oldest first."""

    version: int = FORMAT_VERSION
    byteorder: str = byteorder
    boot: str = ""
    filters: list[FilterEntry] = []

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest; what is absent, unreadable or of another kind is as none: filters are filled again."""
        try:
            found = msgspec.json.decode((folder / NAME).read_bytes(), type=cls)
        except (OSError, ValueError):
            found = cls()
        if (found.version, found.byteorder) != (FORMAT_VERSION, byteorder):
            found = cls()
        boot = _boot()
        if not boot or found.boot != boot:
            for entry in found.filters:
                del entry.columns[entry.flushed :]
        found.boot = boot
        return found

    def save(self, folder: Path) -> None:
        """Replace the manifest on the disk at once and durably."""
        temporary = folder / (NAME + TEMPORARY_SUFFIX)
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(self))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / NAME)
        sync_folder(folder)


def _boot() -> str:
    """Name the present boot of the machine; empty where that cannot be told."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
