"""Reads the schemas of sources and the numbers of their users; the writer is ``schema_store``."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.insights.distinct import Distinct
from hookline.insights.schema import NameSchema
from hookline.insights.schema_store import Name, read_names


class TrackedUsers(NamedTuple):
    """About how many different users a source had in a month (UTC); ``source`` None for all of them together."""

    month: str
    source: str | None
    users: int


class SchemaLog:
    """Safe to share between threads; before control's first start everything is empty."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)
        self._lock = threading.Lock()

    def names(self, source: str) -> dict[Name, NameSchema]:
        """Return what a source sends, by type and name."""
        with self._lock:
            connection = self._database.open()
            return {} if connection is None else read_names(connection, source)

    def missed(self) -> int:
        """Return how many events had gone before they were looked at."""
        rows = self._rows("SELECT coalesce(sum(missed), 0) FROM schema_places")
        return int(rows[0][0]) if rows else 0

    def places(self) -> dict[int, int]:
        """Up to which offset each partition was looked at."""
        return dict(self._rows("SELECT partition, next_offset FROM schema_places"))

    def users(self, months: int) -> list[TrackedUsers]:
        """Return the users of the newest months that had any: newest month first, of each all sources together
        first."""
        query = "SELECT DISTINCT month FROM tracked_users ORDER BY month DESC LIMIT ?"
        found: list[TrackedUsers] = []
        for (month,) in self._rows(query, months):
            together = Distinct()
            of_sources = []
            for source, registers in self._rows(
                "SELECT source, registers FROM tracked_users WHERE month = ? ORDER BY source", month
            ):
                own = Distinct(registers)
                together.merge(own)
                of_sources.append(TrackedUsers(month, source, own.count()))
            found += [TrackedUsers(month, None, together.count()), *of_sources]
        return found

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._database.close()

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            connection = self._database.open()
            return [] if connection is None else connection.execute(query, values).fetchall()
