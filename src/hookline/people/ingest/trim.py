"""Takes out of the history what no definition can ask for any more: entries older than their feature's longest window,
and those beyond what is kept of one person and feature.

It goes through the whole history in small steps, a few times a day; so an entry outlives its window by hours, which
judging does not notice.
"""

from __future__ import annotations

from collections import defaultdict

from hookline.people.definitions.feature import Entry
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.history import ENTRIES_MAX, ENTRY_BYTES, ordered, unpack, write
from hookline.people.store.store import ProfileStore

ROWS_PER_STEP = 2_000
BYTES_PER_STEP = 2 << 20
"""Of entries that are looked at in one step, rounded up to a row."""
PASS_MS = 6 * 3_600_000
"""From the start of one pass to that of the next."""

_Key = tuple[int, int, int]
"""Feature, chunk and bucket of a row."""


class Trim:
    """Used from the thread of the one writer, while there is nothing else to do."""

    def __init__(self, store: ProfileStore, registry: FeatureCatalog) -> None:
        self._store = store
        self._registry = registry
        self._key: _Key | None = None
        self._next_pass_ms = 0

    def step(self, now_ms: int) -> bool:
        """Look at some rows; return whether a pass is under way."""
        if self._key is None:
            if now_ms < self._next_pass_ms:
                return False
            self._next_pass_ms = now_ms + PASS_MS
            self._key = (0, 0, 0)
        last = self._last_of_step(self._key)
        if last is None:
            self._key = None
            return False
        query = (
            "SELECT feature, chunk, bucket, entries, entry_values FROM history"
            " WHERE (feature, chunk, bucket) > (?, ?, ?) AND (feature, chunk, bucket) <= (?, ?, ?)"
        )
        rows = self._store.connection.execute(query, (*self._key, *last)).fetchall()
        windows = self._registry.windows()
        changed = [change for row in rows if (change := _trimmed(row, windows, now_ms)) is not None]
        if changed:
            self._write(changed)
        self._key = last
        return True

    def _last_of_step(self, key: _Key) -> _Key | None:
        """Return the last row behind a key that is looked at in this step, None when there is none left."""
        query = (
            "SELECT feature, chunk, bucket, length(entries) FROM history"
            " WHERE (feature, chunk, bucket) > (?, ?, ?) ORDER BY feature, chunk, bucket LIMIT ?"
        )
        last, left = None, BYTES_PER_STEP
        for *row, length in self._store.connection.execute(query, (*key, ROWS_PER_STEP)):
            last = (row[0], row[1], row[2])
            left -= length
            if left <= 0:
                break
        return last

    def _write(self, changed: list[tuple[bytes, bytes | None, int, int, int]]) -> None:
        with self._store.transaction():
            many = self._store.connection.executemany
            many(
                "UPDATE history SET entries = ?, entry_values = ? WHERE feature = ? AND chunk = ? AND bucket = ?",
                [change for change in changed if change[0]],
            )
            many(
                "DELETE FROM history WHERE feature = ? AND chunk = ? AND bucket = ?",
                [change[2:] for change in changed if not change[0]],
            )


def _trimmed(
    row: tuple[int, int, int, bytes, bytes | None], windows: dict[int, int | None], now_ms: int
) -> tuple[bytes, bytes | None, int, int, int] | None:
    """Return the row as it should be, None when it is so already."""
    feature, chunk, bucket, entries, values = row
    window_ms = windows.get(feature)
    if window_ms is None and len(entries) <= ENTRIES_MAX * ENTRY_BYTES:
        return None
    known = unpack(entries, values)
    people: defaultdict[int, list[Entry]] = defaultdict(list)
    for person, entry in known:
        people[person].append(entry)
    kept = [
        (person, entry)
        for person, theirs in people.items()
        for entry in (
            theirs
            if window_ms is None and len(theirs) <= ENTRIES_MAX
            else ordered(theirs, None if window_ms is None else now_ms - window_ms)
        )
    ]
    if len(kept) == len(known):
        return None
    return *write(kept, values is not None), feature, chunk, bucket
