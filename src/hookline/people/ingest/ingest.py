"""Applies the journal's records to people, batch by batch, from the place where the last batch ended.

Nothing here depends on the time, on how the records fall into batches, or on which process has read them. A batch that
could not be written is written before anything newer is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from hookline.journal.port import Reader
from hookline.people.definitions.feature import Feature
from hookline.people.ingest.ahead import Ahead
from hookline.people.ingest.extraction import CallDetails, Extracted, Matcher, Page, place_in, turn
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.history import pack_person
from hookline.people.store.identities import Identities
from hookline.people.store.store import ProfileStore

BATCH_RECORDS = 75_000
"""Read for one transaction, rounded up to a group."""


class Ingest:
    """Used from one thread."""

    def __init__(self, journal: Reader, store: ProfileStore, batch_records: int = BATCH_RECORDS) -> None:
        self.applied = 0
        """Records of people applied since the start."""
        self.last_received_at = 0
        """When the last record that was read had been received."""
        self.person_count = store.person_count()
        self.places = store.places()
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

    def place(self, partition: int) -> ReadPosition:
        """Return how far a partition was read."""
        return place_in(self._journal, self.places, partition)

    def ends(self) -> dict[int, int]:
        """Return where each partition ends right now."""
        return {partition: self._journal.end(partition) for partition in self._journal.partitions()}

    def lag(self, ends: Mapping[int, int] | None = None) -> int:
        """Records that were not read yet, those before ``ends`` where that is given."""
        ends = self.ends() if ends is None else ends
        return sum(max(0, end - self.place(partition).next_offset) for partition, end in ends.items())

    @property
    def reads_ahead(self) -> bool:
        """Return whether another process reads."""
        return self._ahead is not None

    def read_ahead(self, folder: Path) -> None:
        """Have another process read the journal of this folder, until it has come to the end; raise OSError where there
        can be none."""
        if self._ahead is None and self._unwritten is None:
            self._ahead = Ahead(folder, self.places, self._features, self._batch_records)

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
                self._identities.forget()  # some of them are those of a batch that will not be written
                self.read_alone()
                raise
            if batch.is_empty:
                return False
            self.places |= batch.places
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
        self.places = self._store.places()
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
        yield from turn(self._journal, self.places, self._matcher, self._batch_records)

    def _apply(self, page: Page, batch: Batch) -> None:
        self._identities.load(_who(page.said))
        person_of, add_entry = self._identities.person_of, batch.add_entry
        for said in page.said:
            person = person_of(said.user_id, said.anonymous_id, said.received_at, said.place)
            if said.matched:
                add_entry(person, pack_person(person) + said.entry, said.matched)
            elif said.given is not None:
                self._take(said, said.given, person, batch)
        batch.records += len(page.said)
        batch.places[page.partition] = page.place
        self.last_received_at = page.last_received_at or self.last_received_at

    def _take(self, said: Extracted, given: CallDetails, person: int, batch: Batch) -> None:
        if said.type == "alias":
            self._identities.alias(said.user_id, given.id, said.received_at, said.place)
        elif said.type == "identify":
            batch.add_traits(person, given.traits)
        elif said.type == "group":
            batch.add_group(given.id, person, given.traits, given.at_ms, said.place)


def _who(all_said: Collection[Extracted]) -> list[tuple[str, str]]:
    """Return the user ids and anonymous ids that records have together; the previous id of an alias may be either."""
    who = [(said.user_id, said.anonymous_id) for said in all_said]
    for said in all_said:
        if said.type == "alias" and said.given is not None:
            who += ((said.user_id, said.given.id), (said.given.id, ""))
    return who
