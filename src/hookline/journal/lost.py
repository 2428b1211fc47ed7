"""What a local journal once held, or somebody thought so, and holds no more: noted when it is opened, for those who ask
later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from hookline.whole_file import write_whole

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
    write_whole(journal / NAME, msgspec.json.encode((*read_lost(journal), *lost)[-KEPT_MAX:]))
