"""The connections as the other roles follow them: loaded once, then only what changed.

Reads the control database without SQLAlchemy and never writes it. Start-up order does not matter: as long as it is
missing, or not yet of this version, the feed is empty and not ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hookline.connections.history import ROUTED_KINDS, Kind
from hookline.connections.model import Snapshot
from hookline.connections.state import State
from hookline.database.connect import change_mark, connect
from hookline.database.connection import Connection
from hookline.database.open import is_current
from hookline.database.place import Place
from hookline.database.sqlite import DatabaseAway, OperationalError


class Feed:
    """A view of the configured objects; for one thread. ``kinds`` are those that the role has a use for."""

    def __init__(self, place: Place, kinds: Sequence[Kind] = ROUTED_KINDS) -> None:
        self._place = place
        self._kinds = tuple(kinds)
        self._connection: Connection | None = None
        self._state = State(kinds)
        self._seen: Any = None

    def load(self) -> Snapshot:
        """Everything in force now, read anew."""
        self._state = State(self._kinds)
        self._seen = None
        return self.poll() or self._state.snapshot()

    def poll(self) -> Snapshot | None:
        """Everything in force if it changed since the last answer, else None. Costs next to nothing if it did not."""
        connection = self._open()
        if connection is None:
            return None
        # Before the version is read: a commit between the two is then seen by the next poll.
        seen = change_mark(connection)
        if seen == self._seen:
            return None
        changed = self._state.refresh(connection)
        self._seen = seen
        return self._state.snapshot() if changed else None

    def at(self, version: int) -> Snapshot:
        """Everything as it was in force at ``version``."""
        state = State(self._kinds)
        connection = self._open()
        if connection is not None:
            state.load(connection, version)
        return state.snapshot()

    def ready(self, boot_id: str | None = None) -> bool:
        """Whether control has finished start-up, the ``--connections`` file included.

        With ``boot_id``: in this boot; a marker that an earlier one left does not count.
        """
        connection = self._open()
        if connection is None:
            return False
        row = connection.execute("SELECT boot_id FROM control_ready").fetchone()
        return row is not None and (boot_id is None or row[0] == boot_id)

    def close(self) -> None:
        """Let go of the file; idempotent, and a later call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._seen = None

    def _open(self) -> Connection | None:
        if self._connection is not None:
            return self._connection
        if isinstance(self._place, Path) and not self._place.exists():
            return None
        try:
            connection = connect(self._place, read_only=True)
        except DatabaseAway:
            raise  # it is there: what was in force stays so
        except OperationalError:
            return None
        try:
            current = is_current(connection, "control")
        except BaseException:
            connection.close()
            raise
        if not current:
            connection.close()
            return None
        self._connection = connection
        return connection
