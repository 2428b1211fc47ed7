"""The features that are kept: numbers for them, how far back each is needed, and which still have to be read up.

A feature that is new, or is needed further back than before, is backfilled: everything the journal still has up to
where it was read is read again for it. A feature that nobody needs any more goes with its history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hookline.profiles.feature import Feature
from hookline.profiles.store import ProfileStore


class Span(NamedTuple):
    """The part of a partition that a backfill has to read."""

    next_offset: int
    end_offset: int


class Registry:
    """Used by the one writer."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store

    def features(self) -> dict[int, Feature]:
        """Every feature by its number."""
        rows = self._store.connection.execute("SELECT id, type, name, condition, value FROM features ORDER BY id")
        return {id: Feature(*what) for id, *what in rows}

    def windows(self) -> dict[int, int | None]:
        """How many milliseconds back each feature is needed; None for as far as there is anything."""
        return dict(self._store.connection.execute("SELECT id, window_ms FROM features").fetchall())

    def unready(self) -> set[int]:
        """The features whose history is not complete yet."""
        return {feature for (feature,) in self._store.connection.execute("SELECT DISTINCT feature FROM backfills")}

    def keep(self, wanted: Mapping[Feature, int | None], spans: Mapping[int, Span]) -> None:
        """Keep exactly these features, with the window of each in milliseconds (None: no end).

        ``spans`` is what of each partition was read already; new features are read up over it.
        """
        known = {feature: id for id, feature in self.features().items()}
        windows = self.windows()
        with self._store.transaction() as execute:
            for feature in known.keys() - wanted.keys():
                for table, column in (("features", "id"), ("backfills", "feature"), ("history", "feature")):
                    execute(f"DELETE FROM {table} WHERE {column} = ?", (known[feature],))
            for feature, window_ms in wanted.items():
                id = known.get(feature)
                if id is None:
                    query = "INSERT INTO features (type, name, condition, value, window_ms) VALUES (?, ?, ?, ?, ?)"
                    id = execute(query, (*feature, window_ms)).lastrowid
                elif windows[id] == window_ms:
                    continue
                else:
                    execute("UPDATE features SET window_ms = ? WHERE id = ?", (window_ms, id))
                    if not _reaches_further(window_ms, windows[id]):
                        continue
                for partition, span in spans.items():
                    if span.next_offset < span.end_offset:
                        query = "INSERT OR REPLACE INTO backfills (feature, partition, next_offset, end_offset)"
                        execute(f"{query} VALUES (?, ?, ?, ?)", (id, partition, *span))


def _reaches_further(window_ms: int | None, before_ms: int | None) -> bool:
    return before_ms is not None and (window_ms is None or window_ms > before_ms)
