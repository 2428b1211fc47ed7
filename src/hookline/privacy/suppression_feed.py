"""The suppression list as collect follows it: read again only when control changed it. Never writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hookline.database.connect import change_mark
from hookline.database.connection import Connection
from hookline.database.open import is_current
from hookline.database.place import Place
from hookline.database.read_only import ReadOnly
from hookline.privacy import shared_key
from hookline.privacy.suppressed import Suppressed

CHANGES = "suppressions"
"""The list's name in ``privacy_changes``."""


class SuppressionFeed:
    """A view of the list; for one thread. The key of its hashes is in the data folder, or in PostgreSQL."""

    def __init__(self, place: Place, data_path: Path) -> None:
        self._place = place
        self._data_path = data_path
        self._database = ReadOnly(place)
        self._seen: Any = None
        self._changes = -1
        self.current: Suppressed | None = None
        """Who is suppressed as of the last ``poll``; None for nobody."""

    def poll(self) -> bool:
        """Look; return whether the list changed. Costs next to nothing if it did not."""
        connection = self._open()
        if connection is None:
            return False
        # Before the list is read: a commit between the two is then seen by the next poll.
        seen = change_mark(connection)
        if seen == self._seen:
            return False
        row = connection.execute("SELECT next FROM privacy_changes WHERE name = ?", (CHANGES,)).fetchone()
        changes = int(row[0]) if row else 0
        if changes != self._changes:
            digests = [digest for (digest,) in connection.execute("SELECT digest FROM suppressions")]
            of = shared_key.read(self._place, connection, self._data_path) if digests else None
            self.current = Suppressed(digests, of) if of else None
            self._seen, self._changes = seen, changes
            return True
        self._seen = seen
        return False

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()

    def _open(self) -> Connection | None:
        connection = self._database.open()
        if connection is not None and self._seen is None and not is_current(connection, "privacy"):
            self._database.close()
            return None
        return connection
