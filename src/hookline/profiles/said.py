"""What the journal's records say of people, matched with the features that are kept, page by page.

All that can be known without the database of people, so that another process can find it out ahead (``ahead``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from hookline.journal.port import Group, JournalCorrupt, OffsetExpired, Reader
from hookline.journal.record import Record
from hookline.outcomes.progress import PLACE_SHIFT
from hookline.profiles.batch import Place
from hookline.profiles.doing import Doing, DoingFields, at_ms_of, doing_of, is_of_a_person, text
from hookline.profiles.entries import pack_undecided, pack_value
from hookline.profiles.matching import NAMED_TYPES, Matcher, Rule
from hookline.profiles.traits import packed_given

RECORDS_PER_PAGE = 4_000
"""Whose ids are looked up together, rounded up to a group: queries for few ids are dear."""
BYTES_PER_PAGE = 4 << 20
"""Of the groups of a page, as they are in the journal."""
MARK_BYTES = 8

Matched = tuple[int, bytes | None]
"""A feature that an event belongs to, and the line of its value there."""


class Given(msgspec.Struct, array_like=True, gc=False):
    """What an identify, group or alias call says beside the ids: the previous id or the group's, the traits as they
    are stored, and the event's own time."""

    id: str
    traits: bytes
    at_ms: int


class Said(msgspec.Struct, array_like=True, gc=False):
    """What one record says of a person: whose ids it has, and an event's entry but for the person, with its features,
    or what another call gives."""

    type: str
    place: int
    received_at: int
    user_id: str
    anonymous_id: str
    entry: bytes = b""
    matched: tuple[Matched, ...] = ()
    given: Given | None = None


class Page(NamedTuple):
    """Some records of a partition that follow each other: what they say, where the next one is, and when the last had
    been received (0 when there was none)."""

    partition: int
    place: Place
    last_received_at: int
    said: list[Said]


def turn(journal: Reader, places: Mapping[int, Place], matcher: Matcher, batch_records: int) -> Iterator[Page]:
    """What is read for one transaction: of each partition so many records from its place on, rounded up to a group."""
    for partition in journal.partitions():
        yield from _pages(journal, partition, place_in(journal, places, partition), matcher, batch_records)


def place_in(journal: Reader, places: Mapping[int, Place], partition: int) -> Place:
    """How far a partition was read: to its start, where it never was."""
    return places.get(partition) or Place(journal.start(partition))


def said_in(partition: int, group: Group, matcher: Matcher) -> Iterator[Said]:
    """What the records of people in a group say."""
    first = partition << PLACE_SHIFT | group.first_offset
    for place, record in enumerate(group.records, first):
        if is_of_a_person(record):
            yield _said(place, record, doing_of(record), matcher)


def _pages(journal: Reader, partition: int, begin: Place, matcher: Matcher, batch_records: int) -> Iterator[Page]:
    told = place = begin
    read, held, held_bytes, received_at = 0, 0, 0, 0
    said: list[Said] = []
    try:
        # A journal that was put away and begun anew ends before the place: there is nothing to read until then.
        for group in journal.read(partition, min(begin.next_offset, journal.end(partition))):
            said += said_in(partition, group, matcher)
            place = Place(group.next_offset, place.missed)
            received_at = group.records[-1].received_at
            read += len(group.records)
            held += len(group.records)
            held_bytes += group.size_bytes
            if held >= RECORDS_PER_PAGE or held_bytes >= BYTES_PER_PAGE:
                yield Page(partition, place, received_at, said)
                told, said, held, held_bytes = place, [], 0, 0
            if read >= batch_records:
                break
    except (OffsetExpired, JournalCorrupt) as lost:
        place = _passed_over(place, lost.next_offset)
    if place != told:
        yield Page(partition, place, received_at, said)


def _passed_over(place: Place, next_offset: int) -> Place:
    """The place after records that are gone."""
    next_offset = max(next_offset, place.next_offset + 1)
    return Place(next_offset, place.missed + next_offset - place.next_offset)


def _said(place: int, record: Record, doing: Doing, matcher: Matcher) -> Said:
    type, user_id, anonymous_id = record.type, text(doing.userId), text(doing.anonymousId)
    if type in NAMED_TYPES:
        rules = matcher.rules(type, text(doing.event if type == "track" else doing.name))
        if rules and (matched := _matched(rules, record, doing)):
            entry = pack_undecided(at_ms_of(record), record.fingerprint, place)
            return Said(type, place, record.received_at, user_id, anonymous_id, entry, matched)
        return Said(type, place, record.received_at, user_id, anonymous_id)
    id = text(doing.previousId if type == "alias" else doing.groupId if type == "group" else None)
    mark, at_ms = int.from_bytes(record.fingerprint[:MARK_BYTES], "little"), at_ms_of(record)
    given = Given(id, packed_given(doing.traits, at_ms, mark, place, record.source), at_ms)
    return Said(type, place, record.received_at, user_id, anonymous_id, given=given)


def _matched(rules: tuple[Rule, ...], record: Record, doing: Doing) -> tuple[Matched, ...]:
    fields = DoingFields(record, doing)
    return tuple(
        [
            (feature, None if value is None else pack_value(value(fields)))
            for feature, condition, value in rules
            if condition is None or condition(fields)
        ]
    )
