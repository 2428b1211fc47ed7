"""The connections as the other roles follow them: loaded once, then only what changed.

Reads the control database and never writes it. Start-up order does not matter: as long as it is missing, too old or of
a version whose tables are not known here, every question is answered by DatabaseUnreadable, for connections that cannot
be read are not "no connections".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.connections.history import ROUTED_KINDS, Kind
from hookline.connections.model import Snapshot
from hookline.connections.state import State
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import Followed


class Feed:
    """A view of the configured objects; for one thread. ``kinds`` are those that the role has a use for.

    All methods raise DatabaseUnreadable, or DatabaseAway, when they cannot look.
    """

    def __init__(self, location: DatabaseLocation, kinds: Sequence[Kind] = ROUTED_KINDS) -> None:
        self._kinds = tuple(kinds)
        self._database = Followed(location, "control")
        self._state = State(kinds)
        self._seen: Any = None

    def load(self) -> Snapshot:
        """Everything in force now, read anew."""
        self._state = State(self._kinds)
        self._seen = None
        return self.poll() or self._state.snapshot()

    def poll(self) -> Snapshot | None:
        """Everything in force if it changed since the last answer, else None. Costs next to nothing if it did not."""
        with self._database.reading() as connection:
            # Before the version is read: a commit between the two is then seen by the next poll.
            seen = self._database.mark(connection)
            if seen == self._seen:
                return None
            changed = self._state.refresh(connection)
            self._seen = seen
            return self._state.snapshot() if changed else None

    def at(self, version: int) -> Snapshot:
        """Everything as it was in force at ``version``; before the first, and without a database, nothing was."""
        state = State(self._kinds)
        if version:
            with self._database.reading() as connection:
                state.load(connection, version)
        return state.snapshot()

    def ready(self, boot_id: str | None = None) -> bool:
        """Return whether control has finished start-up, the ``--connections`` file included.

        With ``boot_id``: in this boot; a marker that an earlier one left does not count.
        """
        with self._database.reading() as connection:
            row = connection.execute("SELECT boot_id FROM control_ready").fetchone()
            return row is not None and (boot_id is None or row[0] == boot_id)

    def close(self) -> None:
        """Let go of the file; idempotent, and a later call opens it again."""
        self._database.close()
