"""What an installation takes of disks, part by part, and what is still free on that of the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from os import DirEntry, scandir
from pathlib import Path
from typing import NamedTuple

from hookline.database.installation import BLOCK_BYTES, bytes_taken
from hookline.database.location import Which, location_of
from hookline.features.notices.conditions.machine import free_bytes
from hookline.settings import Settings

FILES_MAX = 100_000
"""Looked at in one part: more than any retention leaves there. Of ``files``, which has none, those beyond are not
counted."""
FOLDERS = {
    "journal": "Stored events",
    "index": "Index of duplicates and look-ups",
    "files": "Events that destinations of the kind files wrote",
}
DATABASES: dict[Which, str] = {
    "deliver": "Positions, retries, dead letters, results",
    "control": "Connections, people, audit log",
    "insights": "Time series and schemas",
    "profiles": "People and what they did",
    "privacy": "Deletion requests, suppression, evidence",
}


class StoragePart(NamedTuple):
    """One file or folder of the data folder, or one schema in PostgreSQL."""

    name: str
    title: str
    bytes: int


class Storage(NamedTuple):
    """All parts, and what an ordinary user may still write on the disk of the data folder."""

    parts: list[StoragePart]
    free_bytes: int


def storage_of(settings: Settings) -> Storage:
    """Look it up; reads folders and asks PostgreSQL, so not on an event loop."""
    data = settings.data_path
    parts = [StoragePart(name, title, _bytes_below(data / name)) for name, title in FOLDERS.items()]
    for which, title in DATABASES.items():
        place = location_of(settings, which)
        parts.append(StoragePart(place.name, title, bytes_taken(place)))
    return Storage(parts, free_bytes(data))


def _bytes_below(folder: Path) -> int:
    """Blocks that are really taken; what is not there takes nothing."""
    return sum(taken for taken, _ in zip(_taken_below(folder), range(FILES_MAX), strict=False))


def _taken_below(folder: Path | DirEntry[str]) -> Iterator[int]:
    try:
        with scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _taken_below(entry)
                else:
                    yield _taken(entry)
    except OSError:
        return


def _taken(file: DirEntry[str]) -> int:
    try:
        return file.stat().st_blocks * BLOCK_BYTES
    except OSError:
        return 0
