"""Reads the journal again, from its start to where it was read, for features that came later.

Whose an event was is known by then: an anonymous id that changed hands belongs, for each event, to whoever had it at
that place. History is a set, so what is read twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Container

from hookline.journal.port import Group, Reader
from hookline.journal.reading import read_on
from hookline.people.ingest.extraction import Extracted, Matcher, extracted_in
from hookline.people.store.batch import Batch
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.history import pack_person
from hookline.people.store.store import ProfileStore

BATCH_RECORDS = 10_000
"""Read for one transaction, rounded up to a group: what is new does not wait long for what is old."""


class Backfill:
    """Used from the thread of the one writer, between the batches of ``Ingest``."""

    def __init__(self, journal: Reader, store: ProfileStore, registry: FeatureCatalog) -> None:
        self._journal = journal
        self._store = store
        self._registry = registry

    def left(self, features: Container[int] | None = None) -> int:
        """Records that are still to be read, once for all features that share a pass; for these features or all."""
        rows = self._store.connection.execute("SELECT feature, partition, next_offset, end_offset FROM backfills")
        passes = {tuple(span) for feature, *span in rows if features is None or feature in features}
        return sum(end - next for _, next, end in passes)

    def step(self) -> bool:
        """Read on for the features that stand at the same place; return whether there was anything to read. What
        definitions wait for comes before what previews wait for."""
        query = (
            "SELECT b.partition, b.next_offset, b.end_offset FROM backfills b JOIN features f ON f.id = b.feature"
            " ORDER BY f.purpose, b.partition, b.next_offset LIMIT 1"
        )
        row = self._store.connection.execute(query).fetchone()
        if row is None:
            return False
        partition, span = row[0], Span(*row[1:])
        query = "SELECT feature FROM backfills WHERE partition = ? AND next_offset = ? AND end_offset = ?"
        features = [feature for (feature,) in self._store.connection.execute(query, row)]
        known = self._registry.features()
        batch = Batch(self._store.chunks.shift())
        next_offset = self._read(partition, span, Matcher({id: known[id] for id in features}), batch)
        batch.backfilled = {(feature, partition): next_offset for feature in features}
        self._store.write(batch)
        return True

    def _read(self, partition: int, span: Span, matcher: Matcher, batch: Batch) -> int:
        for group in read_on(self._journal, partition, span.next_offset, span.end_offset):
            self._apply_group(partition, group, matcher, batch)
            if group.next_offset - span.next_offset >= BATCH_RECORDS:
                return group.next_offset
        return span.end_offset

    def _apply_group(self, partition: int, group: Group, matcher: Matcher, batch: Batch) -> None:
        matched = [said for said in extracted_in(partition, group, matcher) if said.matched]
        users = self._store.users({said.user_id for said in matched if said.user_id})
        alone = {said.anonymous_id for said in matched if not said.user_id}
        anonymous, before = self._store.anonymous(alone), self._store.owners_before(alone)
        for said in matched:
            person = users.get(said.user_id) if said.user_id else _owner(said, anonymous, before)
            if person is not None:
                batch.add_entry(person, pack_person(person) + said.entry, said.matched)


def _owner(said: Extracted, anonymous: dict[str, int], before: dict[str, list[tuple[int, int]]]) -> int | None:
    for until, person in before.get(said.anonymous_id, ()):
        if said.place < until:
            return person
    return anonymous.get(said.anonymous_id)
