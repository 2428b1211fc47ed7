"""What the journal's records say of people, matched with the features that are kept, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from hookline.events import timestamps
from hookline.events.untyped import Scalar, read_number, scalar, text
from hookline.events.view import EVENT_FIELDS, EventView
from hookline.expressions.compile import Condition, Operand, compile_condition, compile_operand
from hookline.expressions.parse import parse
from hookline.expressions.tree import Path, parse_path
from hookline.journal.port import Group, JournalCorrupt, OffsetExpired, Reader
from hookline.journal.record import Record
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.people.definitions.feature import Feature
from hookline.people.store.batch import ReadPosition
from hookline.people.store.history import ENTRY_BYTES, pack_undecided, pack_value
from hookline.people.store.traits import packed_given

_NOTHING = msgspec.Raw()


class RecordView(msgspec.Struct, gc=False):
    """The caller's ids and names as they were written: collect has checked the types of all but ``name``."""

    # Any: so that numbers are read by ``read_number``.
    userId: Any = None
    anonymousId: Any = None
    event: Any = None
    groupId: Any = None
    previousId: Any = None
    name: Any = None
    traits: msgspec.Raw = _NOTHING
    properties: msgspec.Raw = _NOTHING


class _RawView(msgspec.Struct, gc=False):
    """The same fields, whatever they are; of one that is repeated the last, as collect takes it."""

    userId: msgspec.Raw = _NOTHING
    anonymousId: msgspec.Raw = _NOTHING
    event: msgspec.Raw = _NOTHING
    groupId: msgspec.Raw = _NOTHING
    previousId: msgspec.Raw = _NOTHING
    name: msgspec.Raw = _NOTHING
    traits: msgspec.Raw = _NOTHING
    properties: msgspec.Raw = _NOTHING


_NAMED = ("userId", "anonymousId", "event", "groupId", "previousId", "name")
_decode_view = msgspec.json.Decoder(RecordView, float_hook=read_number).decode
_decode_raw_view = msgspec.json.Decoder(_RawView).decode
_decode_properties = msgspec.json.Decoder(dict[str, Any], float_hook=read_number).decode


def is_of_a_person(record: Record) -> bool:
    """Return whether the record is something that a person did: accepted, still there, and not one of our own
    messages."""
    return record.origin == "sdk" and record.rejection is None and not record.erased


def view_of(record: Record) -> RecordView:
    """Return what a record says; of a body that cannot be read, no more than the user key, as an anonymous id: it may
    be one, and would outlive its person's deletion as a user id."""
    try:
        view = _decode_view(record.body)
    except (ValueError, RecursionError):
        try:
            raw = _decode_raw_view(record.body)
        except (ValueError, RecursionError):
            return RecordView(anonymousId=record.user_key)
        view = RecordView(traits=raw.traits, properties=raw.properties)
        for field in _NAMED:
            setattr(view, field, _scalar_or_none(getattr(raw, field)))
        return view
    if isinstance(view.name, dict | list):
        view.name = None
    return view


def _scalar_or_none(written: msgspec.Raw) -> Scalar:
    """Return an id or a name; None for what cannot be read, as a name beyond any range that collect lets be."""
    try:
        return scalar(written)
    except (ValueError, RecursionError):
        return None


def at_ms_of(record: Record) -> int:
    """Return the event's own time."""
    at_ms = timestamps.parse(record.timestamp)
    return record.received_at if at_ms is None else at_ms


class RecordFields:
    """The fields that conditions and paths see: those of ``EventView``, the commonest read straight from the record."""

    __slots__ = ("_properties", "_raw", "_record", "_view")

    def __init__(self, record: Record, doing: RecordView) -> None:
        self._record = record
        self._raw = doing.properties
        self._properties: dict[str, Any] | None = None
        self._view: EventView | None = None

    def get(self, name: str, default: Any, /) -> Any:
        """Return a field's value, or the default when the event has none."""
        if name == "properties":
            found = self._properties
            if found is None:
                try:
                    found = _decode_properties(self._raw)
                except (ValueError, RecursionError):
                    found = {}
                self._properties = found
            if found:
                return found
        return self._viewed(name, default)

    def _viewed(self, name: str, default: Any) -> Any:
        if self._view is None:
            self._view = EventView(self._record)
        return self._view.get(name, default)


NAMED_TYPES = frozenset({"track", "page", "screen"})
"""The types of events that features are made of."""


class Rule(NamedTuple):
    """One feature, compiled."""

    feature: int
    condition: Condition | None
    value: Operand | None


class Matcher:
    """The rules of all features by type and name; raises ExpressionError for a feature that was never checked."""

    def __init__(self, features: Mapping[int, Feature]) -> None:
        rules = {id: rule_of(id, feature) for id, feature in features.items()}
        self._any: dict[str, tuple[Rule, ...]] = {
            type: _rules(rules, features, type, {""}) for type in NAMED_TYPES if features
        }
        self._named: dict[tuple[str, str], tuple[Rule, ...]] = {
            (each.type, each.name): _rules(rules, features, each.type, {"", each.name}) for each in features.values()
        }

    def rules(self, type: str, name: str) -> tuple[Rule, ...]:
        """Return the rules that look at an event of this type and name."""
        found = self._named.get((type, name))
        return self._any.get(type, ()) if found is None else found


def rule_of(id: int, feature: Feature) -> Rule:
    """Return a feature's rule."""
    condition = compile_condition(parse(feature.where, EVENT_FIELDS)) if feature.where else None
    value = compile_operand(Path(parse_path(feature.value))) if feature.value else None
    return Rule(id, condition, value)


def _rules(
    rules: Mapping[int, Rule], features: Mapping[int, Feature], type: str, names: Iterable[str]
) -> tuple[Rule, ...]:
    return tuple(rules[id] for id, each in features.items() if each.type == type and each.name in names)


RECORDS_PER_PAGE = 4_000
"""Whose ids are looked up together, rounded up to a group: queries for few ids are dear."""
BYTES_PER_PAGE = 4 << 20
"""Of the groups of a page, as they are in the journal, and of what they say of people."""
BYTES_PER_TURN = 48 << 20
"""Of traits and entries of people, rounded up to a group: traits that take six bytes in the journal take sixty as they
are stored. Ordinary records come to a quarter of it before there are enough of them for a transaction."""
JOURNAL_SHARE = 3
"""This part of a group's bytes counts too: ids may be as long as records."""
MARK_BYTES = 8

Matched = tuple[int, bytes | None]
"""A feature that an event belongs to, and the line of its value there."""


class CallDetails(msgspec.Struct, array_like=True, gc=False):
    """Hold what an identify, group or alias call says beside the ids: the previous id or the group's, the traits as
    they are stored, and the event's own time.
    """

    id: str
    traits: bytes
    at_ms: int


class Extracted(msgspec.Struct, array_like=True, gc=False):
    """Hold what one record says of a person: whose ids it has, and an event's entry but for the person, with its
    features, or what another call gives.
    """

    type: str
    position: int
    received_at: int
    user_id: str
    anonymous_id: str
    entry: bytes = b""
    matched: tuple[Matched, ...] = ()
    given: CallDetails | None = None


class Page(NamedTuple):
    """Some records of a partition that follow each other: what they say, where the next one is, and when the last had
    been received (0 when there was none)."""

    partition: int
    position: ReadPosition
    last_received_at: int
    said: list[Extracted]


def turn(
    journal: Reader, positions: Mapping[int, ReadPosition], matcher: Matcher, batch_records: int
) -> Iterator[Page]:
    """Yield what is read for one transaction: of each partition so many records from its position on, fewer where they
    say very much, rounded up to a group."""
    partitions = journal.partitions()
    bytes_max = BYTES_PER_TURN // max(1, len(partitions))
    for partition in partitions:
        begin = position_in(journal, positions, partition)
        yield from _pages(journal, partition, begin, matcher, batch_records, bytes_max)


def position_in(journal: Reader, positions: Mapping[int, ReadPosition], partition: int) -> ReadPosition:
    """Return how far a partition was read: to its start, where it never was."""
    return positions.get(partition) or ReadPosition(journal.start(partition))


def extracted_in(partition: int, group: Group, matcher: Matcher) -> Iterator[Extracted]:
    """Yield what the records of people in a group say."""
    first = partition << POSITION_SHIFT | group.first_offset
    for position, record in enumerate(group.records, first):
        if is_of_a_person(record):
            yield _said(position, record, view_of(record), matcher)


def _bytes_of(said: Iterable[Extracted]) -> int:
    """Return about how much memory traits and entries take until they are written; ids are counted with the group."""
    return sum(
        [
            len(each.given.traits)
            if each.given is not None
            else sum([ENTRY_BYTES if value is None else ENTRY_BYTES + len(value) for _, value in each.matched])
            for each in said
            if each.matched or each.given is not None
        ]
    )


def _pages(
    journal: Reader, partition: int, begin: ReadPosition, matcher: Matcher, batch_records: int, bytes_max: int
) -> Iterator[Page]:
    reported = position = begin
    read, read_bytes, held, held_bytes, received_at = 0, 0, 0, 0, 0
    said: list[Extracted] = []
    try:
        # A journal that was put away and begun anew ends before the position: there is nothing to read until then.
        for group in journal.read(partition, min(begin.next_offset, journal.end(partition))):
            said += (more := list(extracted_in(partition, group, matcher)))
            said_bytes = _bytes_of(more)
            position = ReadPosition(group.next_offset, position.missed)
            received_at = group.records[-1].received_at
            read += len(group.records)
            held += len(group.records)
            held_bytes += group.size_bytes + said_bytes
            read_bytes += said_bytes + group.size_bytes // JOURNAL_SHARE
            if held >= RECORDS_PER_PAGE or held_bytes >= BYTES_PER_PAGE:
                yield Page(partition, position, received_at, said)
                reported, said, held, held_bytes = position, [], 0, 0
            if read >= batch_records or read_bytes >= bytes_max:
                break
    except (OffsetExpired, JournalCorrupt) as lost:
        position = _passed_over(position, lost.next_offset)
    if position != reported:
        yield Page(partition, position, received_at, said)


def _passed_over(position: ReadPosition, next_offset: int) -> ReadPosition:
    """Return the position after records that are gone."""
    next_offset = max(next_offset, position.next_offset + 1)
    return ReadPosition(next_offset, position.missed + next_offset - position.next_offset)


def _said(position: int, record: Record, doing: RecordView, matcher: Matcher) -> Extracted:
    type, user_id, anonymous_id = record.type, text(doing.userId), text(doing.anonymousId)
    if type in NAMED_TYPES:
        rules = matcher.rules(type, text(doing.event if type == "track" else doing.name))
        if rules and (matched := _matched(rules, record, doing)):
            entry = pack_undecided(at_ms_of(record), record.fingerprint, position)
            return Extracted(type, position, record.received_at, user_id, anonymous_id, entry, matched)
        return Extracted(type, position, record.received_at, user_id, anonymous_id)
    id = text(doing.previousId if type == "alias" else doing.groupId if type == "group" else None)
    mark, at_ms = int.from_bytes(record.fingerprint[:MARK_BYTES], "little"), at_ms_of(record)
    given = CallDetails(id, packed_given(doing.traits, at_ms, mark, position, record.source), at_ms)
    return Extracted(type, position, record.received_at, user_id, anonymous_id, given=given)


def _matched(rules: tuple[Rule, ...], record: Record, doing: RecordView) -> tuple[Matched, ...]:
    fields = RecordFields(record, doing)
    return tuple(
        [
            (feature, None if value is None else pack_value(value(fields)))
            for feature, condition, value in rules
            if condition is None or condition(fields)
        ]
    )
