"""The suppression list as collect follows it: read again only when control changed it. Never writes it.

A list that cannot be read is not "nobody": DatabaseUnreadable says so, before control has made the database, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import Followed
from hookline.database.sqlite import DatabaseUnreadable
from hookline.privacy import shared_key
from hookline.privacy.id_digest import PrivacyKeyError
from hookline.privacy.suppressed import Suppressed

CHANGES = "suppressions"
"""The list's name in ``privacy_changes``."""


class SuppressionFeed:
    """A view of the list; for one thread. The key of its hashes is in the data folder, or in PostgreSQL."""

    def __init__(self, location: DatabaseLocation, data_path: Path) -> None:
        self._location = location
        self._data_path = data_path
        self._database = Followed(location, "privacy")
        self._seen: Any = None
        self._changes = -1
        self.current: Suppressed | None = None
        """Who is suppressed as of the last ``poll`` that could look; None for nobody."""

    def poll(self) -> bool:
        """Look; return whether the list changed. Costs next to nothing if it did not.

        Raise DatabaseUnreadable, or DatabaseAway, when it cannot be read.
        """
        with self._database.reading() as connection:
            # Before the list is read: a commit between the two is then seen by the next poll.
            seen = self._database.mark(connection)
            if seen == self._seen:
                return False
            row = connection.execute("SELECT next FROM privacy_changes WHERE name = ?", (CHANGES,)).fetchone()
            changes = int(row[0]) if row else 0
            if changes == self._changes:
                self._seen = seen
                return False
            digests = [digest for (digest,) in connection.execute("SELECT digest FROM suppressions")]
            try:
                of = shared_key.read(self._location, connection, self._data_path) if digests else None
            except (OSError, PrivacyKeyError) as error:
                raise DatabaseUnreadable(f"whose hashes are on the suppression list cannot be told: {error}") from error
        self.current = Suppressed(digests, of) if of else None
        self._seen, self._changes = seen, changes
        return True

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()
