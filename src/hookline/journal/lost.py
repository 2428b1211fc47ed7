"""What a local journal once held, or somebody thought so, and holds no more: noted when it is opened, for those who ask
later."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

NAME = "lost.json"
"""In the journal's folder."""
KEPT_MAX = 100
"""The newest of them are kept."""


class Lost(msgspec.Struct, frozen=True):
    """The offsets ``[first, next_offset)`` of a partition: the journal ended before them when it was opened at this
    time, and goes on behind. ``known_by`` are the parts of the data folder that knew them."""

    partition: int
    first: int
    next_offset: int
    at_ms: int
    known_by: tuple[str, ...] = ()


def read_lost(journal: Path) -> tuple[Lost, ...]:
    """Return what was noted in a journal's folder, oldest first; nothing where that cannot be read."""
    try:
        return msgspec.json.decode((journal / NAME).read_bytes(), type=tuple[Lost, ...])
    except (OSError, msgspec.MsgspecError):
        return ()


def note_lost(journal: Path, lost: Sequence[Lost]) -> None:
    """Add to what is noted."""
    scratch = journal / f"{NAME}.new"
    file = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(msgspec.json.encode((*read_lost(journal), *lost)[-KEPT_MAX:]))
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(journal / NAME)
