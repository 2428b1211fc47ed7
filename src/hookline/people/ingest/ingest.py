"""Apply the journal's records to people, batch by batch from where the last ended, and read again from the start for
features that came later.

Whose an event was is known by then: an anonymous id that changed hands belongs, for each event, to whoever had it at
that position. History is a set, so what is read twice changes nothing.

Nothing here depends on the time, on how the records fall into batches, or on which process has read them. A batch that
could not be written is written before anything newer is read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from hookline.journal.port import Group, Reader, partition_of
from hookline.journal.reading import read_on
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.people.definitions.feature import Feature
from hookline.people.ingest.ahead import Ahead
from hookline.people.ingest.extraction import CallDetails, Extracted, Matcher, Page, extracted_in, position_in, turn
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.history import pack_person
from hookline.people.store.identities import Identities
from hookline.people.store.store import ProfileStore

Owners = dict[str, list[tuple[int, int]]]
"""Of anonymous ids: up to which position they were whose, in order; none where they never changed hands."""
_UNTIL: Callable[[tuple[int, int]], int] = itemgetter(0)

BACKFILL_RECORDS = 10_000
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
        """Read on for the features that stand at the same position; return whether there was anything to read. What
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
        before: Owners = {}
        for group in read_on(self._journal, partition, span.next_offset, span.end_offset):
            self._apply_group(partition, group, matcher, batch, before)
            if group.next_offset - span.next_offset >= BACKFILL_RECORDS:
                return group.next_offset
        return span.end_offset

    def _apply_group(self, partition: int, group: Group, matcher: Matcher, batch: Batch, before: Owners) -> None:
        """``before``: whose anonymous ids of earlier groups were, asked once: one may have changed hands very often."""
        matched = [said for said in extracted_in(partition, group, matcher) if said.matched]
        users = self._store.users({said.user_id for said in matched if said.user_id})
        alone = {said.anonymous_id for said in matched if not said.user_id}
        anonymous = self._store.anonymous(alone)
        if unasked := alone.difference(before):
            before |= {id: [] for id in unasked} | self._store.owners_before(unasked)
        for said in matched:
            person = users.get(said.user_id) if said.user_id else _owner(said, anonymous, before)
            if person is not None:
                batch.add_entry(person, pack_person(person) + said.entry, said.matched)


def _owner(said: Extracted, anonymous: dict[str, int], before: Owners) -> int | None:
    owners = before[said.anonymous_id]
    index = bisect_right(owners, said.position, key=_UNTIL)
    return owners[index][1] if index < len(owners) else anonymous.get(said.anonymous_id)


BATCH_RECORDS = 75_000
"""Read for one transaction, rounded up to a group, if they do not say more of people than ``BYTES_PER_TURN``."""


class Ingest:
    """Used from one thread."""

    def __init__(self, journal: Reader, store: ProfileStore, batch_records: int = BATCH_RECORDS) -> None:
        self.applied = 0
        """Records of people applied since the start."""
        self.last_received_at = 0
        """When the last record that was read had been received."""
        self.person_count = store.person_count()
        self.positions = store.positions()
        self._features: Mapping[int, Feature] = {}
        self._matcher = Matcher({})
        self._journal = journal
        self._store = store
        self._batch_records = batch_records
        self._identities = Identities(store, store.next_person())
        self._unwritten: Batch | None = None
        self._ahead: Ahead | None = None

    def keep(self, features: Mapping[int, Feature]) -> None:
        """Add events to these features, by their numbers, from here on; raise ExpressionError for one that was never
        checked."""
        self._matcher = Matcher(features)
        self._features = features
        self.read_alone()

    def position(self, partition: int) -> ReadPosition:
        """Return how far a partition was read."""
        return position_in(self._journal, self.positions, partition)

    def ends(self) -> dict[int, int]:
        """Return where each partition ends right now."""
        return {partition: self._journal.end(partition) for partition in self._journal.partitions()}

    def lag(self, ends: Mapping[int, int] | None = None) -> int:
        """Records that were not read yet, those before ``ends`` where that is given."""
        ends = self.ends() if ends is None else ends
        return sum(max(0, end - self.position(partition).next_offset) for partition, end in ends.items())

    @property
    def reads_ahead(self) -> bool:
        """Return whether another process reads."""
        return self._ahead is not None

    def read_ahead(self, folder: Path) -> None:
        """Have another process read the journal of this folder, until it has come to the end; raise OSError where there
        can be none."""
        if self._ahead is None and self._unwritten is None:
            self._ahead = Ahead(folder, self.positions, self._features, self._batch_records)

    def read_alone(self) -> None:
        """Have no other process read; what it has read and was not applied is read again."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def step(self) -> bool:
        """Read and write one batch; return whether there was anything to read. Raise NotReadAhead when the
        process that reads ahead is of no use: the next step does without."""
        if self._unwritten is None:
            batch = Batch(self._store.chunks.shift())
            self._identities.begin(batch)
            try:
                for page in self._turn():
                    self._apply(page, batch)
            except BaseException:
                self._identities.abandon()
                self.read_alone()
                raise
            if batch.is_empty:
                return False
            self.positions |= batch.positions
            self._unwritten = batch
            self._store.write(batch)
        elif not self._store.has_written(self._unwritten):
            self._store.write(self._unwritten)
        batch, self._unwritten = self._unwritten, None
        self.applied += batch.records
        self.person_count += len(batch.persons) - len(batch.merged)
        return True

    def forget(self) -> None:
        """People were taken out of the store: hold nothing of anybody in memory, and read again what is not written."""
        self.read_alone()
        self._unwritten = None
        self.positions = self._store.positions()
        self.person_count = self._store.person_count()
        self._identities.forget()

    def _turn(self) -> Iterator[Page]:
        if self._ahead is not None:
            came = False
            for page in self._ahead.turn():
                came = True
                yield page
            if came:
                return
            self.read_alone()
        yield from turn(self._journal, self.positions, self._matcher, self._batch_records)

    def _apply(self, page: Page, batch: Batch) -> None:
        self._identities.load(_who(page.said))
        person_of, add_entry = self._identities.person_of, batch.add_entry
        repointed = len(batch.repointed)
        for said in page.said:
            person = person_of(said.user_id, said.anonymous_id, said.received_at, said.position)
            if said.matched:
                add_entry(person, pack_person(person) + said.entry, said.matched)
            elif said.given is not None:
                self._take(said, said.given, person, batch)
        if len(batch.repointed) > repointed:
            batch.repointed[repointed:] = self._where_they_moved(page.partition, batch.repointed[repointed:], batch)
        batch.records += len(page.said)
        batch.positions[page.partition] = page.position
        self.last_received_at = page.last_received_at or self.last_received_at

    def _where_they_moved(
        self, partition: int, repointed: list[tuple[str, int, int]], batch: Batch
    ) -> Iterator[tuple[str, int, int]]:
        """Yield these with a position in the partition that has the anonymous id's own events: from where that was
        read to, they are the new owner's."""
        count = len(self._journal.partitions())
        for id, position, person in repointed:
            theirs = partition_of(id, count)
            if theirs != partition:
                read = batch.positions.get(theirs) or self.position(theirs)
                position = theirs << POSITION_SHIFT | read.next_offset
            yield id, position, person

    def _take(self, said: Extracted, given: CallDetails, person: int, batch: Batch) -> None:
        if said.type == "alias":
            self._identities.alias(said.user_id, given.id, said.received_at, said.position)
        elif said.type == "identify":
            batch.add_traits(person, given.traits)
        elif said.type == "group":
            batch.add_group(given.id, person, given.traits, given.at_ms, said.position)


def _who(all_said: Collection[Extracted]) -> list[tuple[str, str]]:
    """Return the user ids and anonymous ids that records have together; the previous id of an alias may be either."""
    who = [(said.user_id, said.anonymous_id) for said in all_said]
    for said in all_said:
        if said.type == "alias" and said.given is not None:
            who += ((said.user_id, said.given.id), (said.given.id, ""))
    return who
