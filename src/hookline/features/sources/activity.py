"""When each source was last heard, as ``control.db`` remembers it across restarts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation


class SourceActivity:
    """The table ``source_activity``; used from one thread at a time."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._connection = connect(location)

    def load(self) -> dict[str, int]:
        """Milliseconds since the epoch by source."""
        return dict(self._connection.execute("SELECT source, last_event_at FROM source_activity").fetchall())

    def of(self, ids: Sequence[str]) -> dict[str, int]:
        """As ``load``, of these sources."""
        marks = ",".join("?" * len(ids))
        query = f"SELECT source, last_event_at FROM source_activity WHERE source IN ({marks})"
        return dict(self._connection.execute(query, tuple(ids)).fetchall())

    def save(self, moved: Mapping[str, int], gone: Iterable[str] = ()) -> None:
        """Remember later times, and forget sources, in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                "INSERT INTO source_activity (source, last_event_at) VALUES (?, ?)"
                " ON CONFLICT (source) DO UPDATE SET last_event_at = excluded.last_event_at"
                " WHERE source_activity.last_event_at < excluded.last_event_at",
                list(moved.items()),
            )
            self._connection.executemany("DELETE FROM source_activity WHERE source = ?", [(id,) for id in gone])
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._connection.close()
