"""What a data folder says of its journal: that it is on Kafka, and where, or that it was moved away.

The mark of a folder that was moved lets no role work there: writing it is the one step by which the new installation
becomes the one that counts, taking it away the one back.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from hookline.journal.port import JournalUnusable
from hookline.whole_file import write_whole

NAME = "moved"
NOTE_FILE = "kafka"
"""In the journal's folder: the ``journal.url`` in the first line, and what brokers are met with in the second."""


def read_note(journal: Path) -> str | None:
    """Return what the journal's folder notes of a topic; None where it is the journal itself."""
    try:
        return (journal / NOTE_FILE).read_text()
    except FileNotFoundError:
        return None


def write_note(journal: Path, note: str) -> None:
    """Note it, for this user alone; durable on return."""
    journal.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(journal / NOTE_FILE, note.encode())


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Say where to, and where each partition ended then; ``at`` is milliseconds since the epoch."""

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
