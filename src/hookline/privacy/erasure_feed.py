"""The erasures as deliver and profiles follow them: read again only when control changed one.

Never writes the privacy database.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import Followed
from hookline.replays.offset_set import OffsetSet, decode_offset_sets

CHANGES = "erasures"
"""Their name in ``privacy_changes``."""

_decode = msgspec.json.Decoder(tuple[str, ...]).decode


class Erasure(NamedTuple):
    """One round of a request: what a role keeps about these places is to go. The journal's bytes are gone already."""

    request: int
    asked_ms: int
    round: int
    places: dict[int, OffsetSet]

    @property
    def key(self) -> tuple[int, int, int]:
        """Return what a role answers by; the time tells requests of a lost database from those of the next one."""
        return self.request, self.asked_ms, self.round


class ErasureFeed:
    """A view of the erasures that wait for the roles; for one thread.

    All methods raise DatabaseUnreadable, or DatabaseAway, when they cannot look.
    """

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = Followed(location, "privacy")
        self._seen: Any = None
        self._changes = -1

    def poll(self) -> list[Erasure] | None:
        """Return all that wait if something about them changed since the last answer, else None."""
        with self._database.reading() as connection:
            seen = self._database.mark(connection)
            if seen == self._seen:
                return None
            row = connection.execute("SELECT next FROM privacy_changes WHERE name = ?", (CHANGES,)).fetchone()
            changes = int(row[0]) if row else 0
            if changes == self._changes:
                self._seen = seen
                return None
            rows = connection.execute(
                "SELECT id, at, round, places FROM deletion_requests WHERE state = 'clearing' ORDER BY id"
            ).fetchall()
        self._seen, self._changes = seen, changes
        return [Erasure(id, at, round, decode_offset_sets(places) if places else {}) for id, at, round, places in rows]

    def ids(self, request: int) -> list[str]:
        """Everybody's ids in a request; none once they are forgotten."""
        query = "SELECT identities FROM deletion_people WHERE request = ? AND identities IS NOT NULL"
        with self._database.reading() as connection:
            return [id for (text,) in connection.execute(query, (request,)) for id in _decode(text)]

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()
