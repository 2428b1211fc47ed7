"""The features that are kept: numbers for them, how far back each is needed, and which still have to be read up.

A feature that is new, or is needed further back than before, is backfilled: everything the journal still has up to
where it was read is read again for it. What previews need beyond what definitions keep is kept beside it, as features
of their own, so that no definition waits for a preview. A feature that nobody needs any more goes, and its history with
it in steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from hookline.database.connection import replacing
from hookline.people.definitions.feature import Feature, Purpose
from hookline.people.store.history import ROW_BYTES, rows_for
from hookline.people.store.store import ProfileStore

BYTES_PER_STEP = 2 << 20
"""Of entries and values of a history that goes, rounded up to a row."""


class Span(NamedTuple):
    """The part of a partition that a backfill has to read."""

    next_offset: int
    end_offset: int


Windows = Mapping[Feature, int | None]
"""How many milliseconds back each feature is needed; None for as far as there is anything."""

_NOTHING: Windows = MappingProxyType({})


class _StoredFeature(NamedTuple):
    id: int
    window_ms: int | None


class FeatureCatalog:
    """Used by the one writer."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store

    def features(self) -> dict[int, Feature]:
        """Return every feature that is kept, by its number; one may be there for definitions and for previews."""
        return {id: feature for id, feature, _ in self._all()}

    def windows(self) -> dict[int, int | None]:
        """Return how many milliseconds back each feature is needed; None for as far as there is anything."""
        return dict(self._store.connection.execute("SELECT id, window_ms FROM features").fetchall())

    def unready(self) -> set[int]:
        """Return the features whose history is not complete yet."""
        return {feature for (feature,) in self._store.connection.execute("SELECT DISTINCT feature FROM backfills")}

    def for_definitions(self) -> dict[Feature, int]:
        """Return the numbers of the features that definitions are judged by."""
        return {feature: id for id, feature, purpose in self._all() if purpose == Purpose.DEFINITIONS}

    def for_previews(self) -> dict[Feature, int]:
        """Return the numbers of the features that previews are judged by: their own before the definitions'."""
        own = {feature: id for id, feature, purpose in self._all() if purpose == Purpose.PREVIEWS}
        return self.for_definitions() | own

    def wanted(self) -> Windows:
        """Return what definitions asked for until now."""
        return {
            feature: kept.window_ms
            for (feature, purpose), kept in self._known().items()
            if purpose == Purpose.DEFINITIONS
        }

    def keep(self, wanted: Windows, spans: Mapping[int, Span], previewed: Windows = _NOTHING) -> None:
        """Keep exactly these features, with the window of each in milliseconds (None: no end).

        ``spans`` is what of each partition was read already; new features are read up over it. ``previewed`` are those
        that previews need.
        """
        asked = {(feature, Purpose.DEFINITIONS): window_ms for feature, window_ms in wanted.items()}
        for feature, window_ms in previewed.items():
            if feature not in wanted or _reaches_further(window_ms, wanted[feature]):
                asked[feature, Purpose.PREVIEWS] = window_ms
        known = self._known()
        with self._store.transaction() as execute:
            for what in known.keys() - asked.keys():
                self._give_up(what, known, asked)
            for (feature, purpose), window_ms in asked.items():
                kept = known.get((feature, purpose))
                if kept is None:
                    query = (
                        "INSERT INTO features (type, name, condition, value, window_ms, purpose)"
                        " VALUES (?, ?, ?, ?, ?, ?) RETURNING id"
                    )
                    ((id,),) = execute(query, (*feature, window_ms, purpose)).fetchall()
                elif kept.window_ms == window_ms:
                    continue
                else:
                    id = kept.id
                    execute("UPDATE features SET window_ms = ? WHERE id = ?", (window_ms, id))
                    if not _reaches_further(window_ms, kept.window_ms):
                        continue
                for partition, span in spans.items():
                    if span.next_offset < span.end_offset:
                        query = replacing("backfills", ("feature", "partition"), ("next_offset", "end_offset"))
                        execute(query, (id, partition, *span))

    def let_go(self) -> bool:
        """Take one step of deleting the history that nobody needs; return whether there was any."""
        execute = self._store.connection.execute
        row = execute("SELECT id FROM features WHERE purpose = ? LIMIT 1", (Purpose.NOBODY,)).fetchone()
        if row is None:
            return False
        following = self._beyond_a_step(row[0])
        with self._store.transaction():
            if following is not None:
                execute("DELETE FROM history WHERE feature = ? AND (chunk, bucket) < (?, ?)", (row[0], *following))
            else:
                execute("DELETE FROM history WHERE feature = ?", row)
                execute("DELETE FROM features WHERE id = ?", row)
        return True

    def _beyond_a_step(self, feature: int) -> tuple[int, int] | None:
        """Chunk and bucket of the first row that does not go with the next step, None when there is none."""
        left = BYTES_PER_STEP
        query = f"SELECT chunk, bucket, {ROW_BYTES} FROM history WHERE feature = ? ORDER BY chunk, bucket LIMIT ?"
        for chunk, bucket, length in self._store.connection.execute(query, (feature, rows_for(BYTES_PER_STEP))):
            if left <= 0:
                return chunk, bucket
            left -= length
        return None

    def _give_up(
        self,
        what: tuple[Feature, Purpose],
        known: dict[tuple[Feature, Purpose], _StoredFeature],
        asked: Mapping[tuple[Feature, Purpose], int | None],
    ) -> None:
        """Nobody asks for it under this purpose; what a preview has read up serves a definition that asks for it."""
        feature, purpose = what
        execute, kept = self._store.connection.execute, known.pop(what)
        as_definition = (feature, Purpose.DEFINITIONS)
        if purpose == Purpose.PREVIEWS and as_definition in asked and as_definition not in known:
            execute("UPDATE features SET purpose = ? WHERE id = ?", (Purpose.DEFINITIONS, kept.id))
            known[as_definition] = kept
            return
        execute("UPDATE features SET purpose = ? WHERE id = ?", (Purpose.NOBODY, kept.id))
        execute("DELETE FROM backfills WHERE feature = ?", (kept.id,))

    def _known(self) -> dict[tuple[Feature, Purpose], _StoredFeature]:
        windows = self.windows()
        return {(feature, purpose): _StoredFeature(id, windows[id]) for id, feature, purpose in self._all()}

    def _all(self) -> list[tuple[int, Feature, Purpose]]:
        query = "SELECT id, purpose, type, name, condition, value FROM features WHERE purpose <> ? ORDER BY id"
        rows = self._store.connection.execute(query, (Purpose.NOBODY,))
        return [(id, Feature(*what), Purpose(purpose)) for id, purpose, *what in rows]


def _reaches_further(window_ms: int | None, before_ms: int | None) -> bool:
    return before_ms is not None and (window_ms is None or window_ms > before_ms)
