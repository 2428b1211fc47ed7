"""Which column of which filter file belongs to which run; a column is listed only once it is on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from sys import byteorder

import msgspec

from hookline.index.seal import TEMPORARY_SUFFIX, sync_folder

NAME = "manifest.json"
FORMAT_VERSION = 1


class FilterEntry(msgspec.Struct):
    """One filter file: its number of rows and, per column, the name of the run it was filled from."""

    name: str
    rows: int
    columns: list[str]


class Manifest(msgspec.Struct):
    """All filter files of one partition, oldest first."""

    version: int = FORMAT_VERSION
    byteorder: str = byteorder
    filters: list[FilterEntry] = []

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest; what is absent, unreadable or of another kind is as none: filters are filled again."""
        try:
            found = msgspec.json.decode((folder / NAME).read_bytes(), type=cls)
        except (OSError, ValueError):
            return cls()
        return found if (found.version, found.byteorder) == (FORMAT_VERSION, byteorder) else cls()

    def save(self, folder: Path) -> None:
        """Replace the manifest on the disk at once and durably."""
        temporary = folder / (NAME + TEMPORARY_SUFFIX)
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(self))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / NAME)
        sync_folder(folder)
