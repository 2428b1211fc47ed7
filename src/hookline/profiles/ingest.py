"""Applies the journal's records to people, batch by batch, from the place where the last batch ended.

Nothing here depends on the time or on how the records fall into batches. A batch that could not be written is written
before anything newer is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from hookline.journal.port import Group, JournalCorrupt, OffsetExpired, Reader
from hookline.journal.record import Record
from hookline.outcomes.progress import PLACE_SHIFT
from hookline.profiles import traits
from hookline.profiles.batch import Batch, Place
from hookline.profiles.doing import Doing, DoingFields, at_ms_of, doing_of, is_of_a_person, text
from hookline.profiles.entries import pack, pack_value
from hookline.profiles.identities import Identities
from hookline.profiles.matching import NAMED_TYPES, Matcher, Rule
from hookline.profiles.store import ProfileStore

BATCH_RECORDS = 75_000
"""Read for one transaction, rounded up to a group."""
RECORDS_PER_LOOK = 4_000
"""Whose ids are looked up together, rounded up to a group: queries for few ids are dear."""
MARK_BYTES = 8

_RecordOfAPerson = tuple[int, Record, Doing, str, str]
"""With its place, what it says, its user id and its anonymous id."""


class Ingest:
    """Used from one thread."""

    def __init__(self, journal: Reader, store: ProfileStore, batch_records: int = BATCH_RECORDS) -> None:
        self.applied = 0
        """Records of people applied since the start."""
        self.last_received_at = 0
        """When the last record that was read had been received."""
        self.person_count = store.person_count()
        self.matcher = Matcher({})
        self.places = store.places()
        self._journal = journal
        self._store = store
        self._batch_records = batch_records
        self._identities = Identities(store, store.next_person())
        self._unwritten: Batch | None = None

    def place(self, partition: int) -> Place:
        """How far a partition was read."""
        return self.places.get(partition) or Place(self._journal.start(partition))

    def ends(self) -> dict[int, int]:
        """Where each partition ends right now."""
        return {partition: self._journal.end(partition) for partition in self._journal.partitions()}

    def lag(self, ends: Mapping[int, int] | None = None) -> int:
        """Records that were not read yet, those before ``ends`` where that is given."""
        ends = self.ends() if ends is None else ends
        return sum(max(0, end - self.place(partition).next_offset) for partition, end in ends.items())

    def step(self) -> bool:
        """Read and write one batch; return whether there was anything to read."""
        if self._unwritten is None:
            batch = Batch(self._store.chunks.shift())
            self._identities.begin(batch)
            try:
                for partition in self._journal.partitions():
                    self._read(partition, batch)
            except BaseException:
                self._identities.forget()  # some of them are those of a batch that will not be written
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
        self._unwritten = None
        self.places = self._store.places()
        self.person_count = self._store.person_count()
        self._identities.forget()

    def _read(self, partition: int, batch: Batch) -> None:
        place, read, held = self.place(partition), 0, 0
        waiting: list[Group] = []
        try:
            # A journal that was put away and begun anew ends before the place: there is nothing to read until then.
            for group in self._journal.read(partition, min(place.next_offset, self._journal.end(partition))):
                waiting.append(group)
                place = Place(group.next_offset, place.missed)
                read += len(group.records)
                held += len(group.records)
                if held >= RECORDS_PER_LOOK:
                    self._apply_groups(partition, waiting, batch)
                    waiting, held = [], 0
                if read >= self._batch_records:
                    break
        except OffsetExpired as expired:
            place = passed_over(place, expired.start)
        except JournalCorrupt as damaged:
            place = passed_over(place, damaged.next_offset)
        self._apply_groups(partition, waiting, batch)
        if place != self.place(partition):
            batch.places[partition] = place

    def _apply_groups(self, partition: int, groups: Sequence[Group], batch: Batch) -> None:
        doings = [each for group in groups for each in doings_of(partition, group)]
        self._identities.load(*_ids_of(doings))
        person_of, rules_of = self._identities.person_of, self.matcher.rules
        for place, record, doing, user_id, anonymous_id in doings:
            person = person_of(user_id, anonymous_id, record.received_at, place)
            type = record.type
            if type in NAMED_TYPES:
                rules = rules_of(type, text(doing.event if type == "track" else doing.name))
                if rules:
                    add_entries(batch, rules, person, place, record, doing)
            elif type == "alias":
                self._identities.alias(user_id, text(doing.previousId), record.received_at, place)
            else:
                self._apply(place, record, doing, person, batch)
        batch.records += len(doings)
        if groups:
            self.last_received_at = groups[-1].records[-1].received_at

    def _apply(self, place: int, record: Record, doing: Doing, person: int, batch: Batch) -> None:
        if record.type == "identify":
            if given := _traits(doing.traits, record, place):
                batch.add_traits(person, given)
        elif record.type == "group":
            given = _traits(doing.traits, record, place)
            batch.add_group(text(doing.groupId), person, given, at_ms_of(record), place)


def doings_of(partition: int, group: Group) -> Iterator[_RecordOfAPerson]:
    """The records of people in a group."""
    first = partition << PLACE_SHIFT | group.first_offset
    for place, record in enumerate(group.records, first):
        if is_of_a_person(record):
            doing = doing_of(record)
            yield place, record, doing, text(doing.userId), text(doing.anonymousId)


def add_entries(batch: Batch, rules: tuple[Rule, ...], person: int, place: int, record: Record, doing: Doing) -> None:
    """Add an event to the features whose condition holds for it."""
    fields = DoingFields(record, doing)
    entry = b""
    for feature, condition, value in rules:
        if condition is None or condition(fields):
            entry = entry or pack(person, at_ms_of(record), record.fingerprint, place)
            batch.add_entry(feature, person, entry, None if value is None else pack_value(value(fields)))


def _ids_of(doings: Collection[_RecordOfAPerson]) -> tuple[set[str], set[str], set[tuple[str, str]]]:
    """The user ids, the anonymous ids, and those that records have together."""
    user_ids, anonymous_ids, pairs = set(), set(), set()
    for _, record, doing, user_id, anonymous_id in doings:
        user_ids.add(user_id)
        anonymous_ids.add(anonymous_id)
        if user_id and anonymous_id:
            pairs.add((user_id, anonymous_id))
        if record.type == "alias":
            previous_id = text(doing.previousId)
            user_ids.add(previous_id)
            anonymous_ids.add(previous_id)
            pairs.add((user_id, previous_id))
    return user_ids - {""}, anonymous_ids - {""}, pairs


def passed_over(place: Place, next_offset: int) -> Place:
    """The place after records that are gone."""
    next_offset = max(next_offset, place.next_offset + 1)
    return Place(next_offset, place.missed + next_offset - place.next_offset)


def _traits(raw: msgspec.Raw, record: Record, place: int) -> traits.Traits:
    mark = int.from_bytes(record.fingerprint[:MARK_BYTES], "little")
    return traits.given(raw, at_ms_of(record), mark, place, record.source)
