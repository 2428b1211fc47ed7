"""What the data folder takes of the disk, part by part, and what is still free."""

from __future__ import annotations

from collections.abc import Iterator
from os import DirEntry, scandir
from pathlib import Path
from typing import NamedTuple

from hookline.control.conditions.disk import free_bytes

FILES_MAX = 100_000
"""Looked at in one part: more than any retention leaves there."""
PARTS = {
    "journal": "Stored events",
    "index": "Index of duplicates and look-ups",
    "deliver.db": "Places, retries, dead letters, results",
    "control.db": "Connections, people, audit log",
    "insights.db": "Time series and schemas",
    "profiles.db": "People and what they did",
    "privacy.db": "Deletion requests, suppression, evidence",
}


class StoragePart(NamedTuple):
    """One file or folder of the data folder."""

    name: str
    title: str
    bytes: int


class Storage(NamedTuple):
    """All parts, and what an ordinary user may still write on that disk."""

    parts: list[StoragePart]
    free_bytes: int


def storage_of(data_path: Path) -> Storage:
    """Look it up; reads folders, so not on an event loop."""
    parts = [StoragePart(name, title, _bytes_of(data_path / name)) for name, title in PARTS.items()]
    return Storage(parts, free_bytes(data_path))


def _bytes_of(path: Path) -> int:
    """Blocks that are really taken; of a database also those of its log. What is not there takes nothing."""
    if path.suffix == ".db":
        return sum(_taken(path.with_name(path.name + suffix)) for suffix in ("", "-wal", "-shm"))
    return sum(taken for taken, _ in zip(_taken_below(path), range(FILES_MAX), strict=False))


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


def _taken(file: Path | DirEntry[str]) -> int:
    try:
        return file.stat().st_blocks * 512
    except OSError:
        return 0
