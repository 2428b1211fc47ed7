"""The mark on a data folder whose journal and databases were moved to Kafka and PostgreSQL: no role works there.

Writing it is the one step by which the new installation becomes the one that counts, taking it away the one back.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from hookline.journal.port import JournalUnusable

NAME = "moved"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Where to, and where each partition ended then; ``at`` is milliseconds since the epoch."""

    folder: str
    journal: str
    at: int
    ends: dict[int, int]


def read_moved(folder: Path) -> Moved | None:
    """Return what the mark of a data folder says; None for one that was not moved."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Moved)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        raise JournalUnusable(f"{folder / NAME} cannot be read: put it back from a backup") from None


def write_moved(folder: Path, moved: Moved) -> None:
    """Mark the data folder; durable on return."""
    temporary = folder / f"{NAME}.new"
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(moved) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / NAME)
    _sync(folder)


def remove_moved(folder: Path) -> None:
    """Take the mark away; durable on return."""
    (folder / NAME).unlink()
    _sync(folder)


def refuse_moved(folder: Path) -> None:
    """Raise JournalUnusable for a data folder that was moved."""
    moved = read_moved(folder)
    if moved is not None:
        raise JournalUnusable(
            f"what was in {folder} was moved to {moved.folder} and {moved.journal}: start Hookline with the settings it"
            " was moved to; `hookline migrate-to SETTINGS --back` makes this folder count again"
        )


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
