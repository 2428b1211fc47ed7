"""What a move that is under way knows of itself: a file in the new data folder, until the move has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import msgspec

from hookline.whole_file import write_whole

NAME = "moving"
_LOCKS = {"run", "lock"}
"""What taking a folder makes in it."""


class State(msgspec.Struct, kw_only=True):
    """``topic`` is the id of the topic that is being filled, empty before there is one.

    ``seen`` says when each segment of the old journal was last written, by partition and first offset, as it was
    before anything of it was copied: one that was written later may hold records that were erased since.
    """

    folder: str
    journal: str
    installation: str
    mark: str
    topic: str = ""
    seen: dict[int, dict[int, int]] = {}

    @classmethod
    def begun(cls, old: Path, journal: str) -> State:
        """That of a move that has done nothing yet."""
        return cls(folder=str(old), journal=journal, installation=uuid4().hex, mark=uuid4().hex)

    def save(self, folder: Path) -> None:
        """Write it down; durable on return."""
        write_whole(folder / NAME, msgspec.json.encode(self))


def load(folder: Path, old: Path, journal: str) -> State:
    """Return the state of the move of ``old`` into ``folder``, a new one where none was begun; raise MoveFailed when
    what is there is not this move's."""
    try:
        state = msgspec.json.decode((folder / NAME).read_bytes(), type=State)
    except FileNotFoundError:
        return _begin(folder, old, journal)
    except msgspec.MsgspecError:
        raise MoveFailed(
            f"{folder / NAME} cannot be read: remove {folder}, the topic and the schemas, and run it again"
        ) from None
    if (state.folder, state.journal) != (str(old), journal):
        raise MoveFailed(
            f"{folder} is where {state.folder} is being moved to, with its journal at {state.journal}: continue"
            " that move, or name another data_dir"
        )
    return state


def _begin(folder: Path, old: Path, journal: str) -> State:
    if folder.exists() and {path.name for path in folder.iterdir()} - _LOCKS:
        raise MoveFailed(f"{folder} is not empty: name a data_dir that is not there yet")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = State.begun(old, journal)
    state.save(folder)
    return state


class MoveFailed(Exception):
    """The move cannot go on; what was copied so far stays, and the old data folder is as it was."""

    code = "move_failed"


Tell = Callable[[str], None]
"""Takes one line for people."""

EVERY_SECONDS = 2.0


class Progress:
    """Counts one kind of thing and tells how far it is, every other second."""

    def __init__(self, tell: Tell, what: str, total: int) -> None:
        self.done = 0
        self.total = total
        self._tell = tell
        self._what = what
        self._began = self._reported = time.monotonic()

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        if time.monotonic() - self._reported >= EVERY_SECONDS:
            self._reported = time.monotonic()
            self._tell(f"{self._what}: {self.done:,} of {max(self.total, self.done):,} ({self.per_second:,.0f}/s)")

    @property
    def per_second(self) -> float:
        """Return how many were done in a second."""
        return self.done / max(time.monotonic() - self._began, 1e-9)

    def end(self) -> None:
        """Tell the sum."""
        if self.done:
            self._tell(f"{self._what}: {self.done:,} copied ({self.per_second:,.0f}/s)")
