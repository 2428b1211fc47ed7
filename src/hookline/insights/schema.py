"""Know the events of each name: how often, since when, and which properties; read from the journal behind everybody
else.

It has a reader and places of its own and waits for nobody, nor anybody for it. What it has noted and the places up to
which it has read are saved together, so nothing is counted twice or left out by a restart; what retention took before
it was read is counted as missed.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, Literal, NamedTuple

import msgspec

from hookline.database.connect import insert_many, overwrite_deleted, overwrite_gaps
from hookline.database.connection import Connection, overwriting, transaction
from hookline.database.location import DatabaseLocation
from hookline.database.open import open_insights
from hookline.database.read_only import ReadOnly
from hookline.events.untyped import read_number
from hookline.journal.opening import open_reader
from hookline.journal.port import Group, JournalCorrupt, OffsetExpired
from hookline.journal.record import Record

PROPERTIES_MAX = 200
"""Per name; what comes later is only noted as left out."""
PROPERTY_CHARACTERS_MAX = 100
NAME_CHARACTERS_MAX = 200
EXAMINED_FIRST = 500
EXAMINED_EVERY = 20
"""The first events of a name are all looked into, then one of so many; all are counted."""

PropertyType = Literal["string", "number", "boolean", "array", "object", "null"]
_TYPES: Mapping[type, PropertyType] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}

Properties = dict[str, dict[PropertyType, int]]
"""By path, how often it had a value of each type."""


class NameSchema(msgspec.Struct):
    """Times are milliseconds since the epoch; ``examined`` is in how many of the events properties were looked for."""

    count: int = 0
    first_seen: int = 0
    last_seen: int = 0
    examined: int = 0
    properties: Properties = {}
    left_out: bool = False
    """Whether there were more properties than are kept."""

    @property
    def to_examine(self) -> bool:
        """Return whether the event just counted is to be looked into."""
        return self.count <= EXAMINED_FIRST or self.count % EXAMINED_EVERY == 0

    def see(self, at_ms: int) -> None:
        """Count one event."""
        if not self.count:
            self.first_seen = at_ms
        self.count += 1
        self.first_seen = min(self.first_seen, at_ms)
        self.last_seen = max(self.last_seen, at_ms)

    def examine(self, values: Mapping[str, Any]) -> None:
        """Note the properties of one event and, one level deep, those of objects in it."""
        self.examined += 1
        for name, value in values.items():
            self._note(name, value)
            if type(value) is dict:
                begin = name[:PROPERTY_CHARACTERS_MAX]
                for inner, each in value.items():
                    self._note(f"{begin}.{inner[:PROPERTY_CHARACTERS_MAX]}", each)

    def forget(self, is_named: Callable[[str], bool]) -> bool:
        """Forget the properties of which that is so; return whether there were any."""
        gone = [path for path in self.properties if is_named(path)]
        for path in gone:
            del self.properties[path]
        return bool(gone)

    def _note(self, path: str, value: Any) -> None:
        path = path[:PROPERTY_CHARACTERS_MAX]
        types = self.properties.get(path)
        if types is None:
            if len(self.properties) >= PROPERTIES_MAX:
                self.left_out = True
                return
            types = self.properties[path] = {}
        kind = _TYPES.get(type(value), "object")
        types[kind] = types.get(kind, 0) + 1


class TrackedUsers(NamedTuple):
    """About how many different users a source had in a month (UTC); ``source`` None for all of them together."""

    month: str
    source: str | None
    users: int


class SchemaPage(NamedTuple):
    """Some names in order, how many there are in all, and the events that came after a source had as many as are
    kept."""

    items: list[tuple[Name, NameSchema]]
    names: int
    other_events: int


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

    def page(
        self, source: str, limit: int, after: Name | None = None, type: str | None = None, name: str | None = None
    ) -> SchemaPage:
        """Return at most so many of the names of a source, behind one; only those of a type, or with a name."""
        where = "WHERE source = ? AND (type, name) <> (?, ?) AND type = coalesce(?, type) AND name = coalesce(?, name)"
        meant = (source, *OTHERS, type, name)
        with self._lock:
            connection = self._database.open()
            if connection is None:
                return SchemaPage([], 0, 0)
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM schema_names {where} AND (type, name) > (?, ?) ORDER BY type, name LIMIT ?",
                (*meant, *(after or OTHERS), limit),
            ).fetchall()
            ((names,),) = connection.execute(f"SELECT count(*) FROM schema_names {where}", meant).fetchall()
            query = "SELECT count FROM schema_names WHERE source = ? AND type = ? AND name = ?"
            others = connection.execute(query, (source, *OTHERS)).fetchone()
        return SchemaPage(list(map(_read, rows)), names, others[0] if others else 0)

    def every_name(self) -> list[tuple[str, str, str]]:
        """Return source, type and name of all events that have one, the latest first."""
        query = (
            "SELECT source, type, name FROM schema_names WHERE name <> '' ORDER BY last_seen DESC, source, type, name"
        )
        return [(source, type, name) for source, type, name in self._rows(query)]

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


_COUNTED = ("count", "first_seen", "last_seen", "examined", "properties")
_COLUMNS = f"type, name, {', '.join(_COUNTED)}"


class Name(NamedTuple):
    """Hold what schemas are kept by; both empty for what came after a source had as many names as are kept."""

    type: str
    name: str


OTHERS = Name("", "")


class SchemaPlace(NamedTuple):
    """The next offset of a partition to read, and how many events had gone before they were read."""

    next_offset: int
    missed: int = 0


class _StoredSchema(msgspec.Struct):
    properties: Properties = {}
    left_out: bool = False


_kept = msgspec.json.Decoder(_StoredSchema).decode


class SchemaStore:
    """The one writer of the schemas; used from one thread at a time."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._location = location
        self._connection = open_insights(location)
        overwrite_deleted(self._connection)

    def places(self) -> dict[int, SchemaPlace]:
        """Return the saved places."""
        rows = self._connection.execute("SELECT partition, next_offset, missed FROM schema_places")
        return {partition: SchemaPlace(next_offset, missed) for partition, next_offset, missed in rows}

    def names(self, sources: Collection[str]) -> dict[str, dict[Name, NameSchema]]:
        """Everything known of some sources."""
        found: dict[str, dict[Name, NameSchema]] = {source: {} for source in sources}
        query = f"SELECT source, {_COLUMNS} FROM schema_names WHERE source IN (%s) ORDER BY source, type, name"
        for source, *columns in self._of(query, (), sources):
            name, schema = _read(columns)
            found[source][name] = schema
        return found

    def users(self, month: str, sources: Collection[str]) -> dict[str, Distinct]:
        """Return the users of some sources in a month."""
        query = "SELECT source, registers FROM tracked_users WHERE month = ? AND source IN (%s)"
        found = dict(self._of(query, (month,), sources))
        return {source: Distinct(found.get(source, b"")) for source in sources}

    def _of(self, query: str, values: tuple[str, ...], sources: Collection[str]) -> Iterator[Any]:
        wanted = sorted(sources)
        for first in range(0, len(wanted), SOURCES_TOGETHER):
            some = wanted[first : first + SOURCES_TOGETHER]
            yield from self._connection.execute(query % ",".join("?" * len(some)), (*values, *some)).fetchall()

    def save(
        self,
        names: Iterable[tuple[str, Name, NameSchema]],
        users: Mapping[tuple[str, str], Distinct],
        places: Mapping[int, SchemaPlace],
    ) -> None:
        """Replace what has changed, in one transaction with the places."""
        rows = [
            (source, *name, s.count, s.first_seen, s.last_seen, s.examined, _json(s.properties, s.left_out))
            for source, name, s in names
        ]
        with transaction(self._connection):
            self._put("schema_names", ("source", "type", "name"), _COUNTED, rows)
            registers = [(*key, bytes(each.registers)) for key, each in users.items()]
            self._put("tracked_users", ("month", "source"), ("registers",), registers)
            reached = [(partition, *place) for partition, place in places.items()]
            self._put("schema_places", ("partition",), ("next_offset", "missed"), reached)

    def _put(
        self, table: str, key: tuple[str, ...], others: tuple[str, ...], rows: Sequence[tuple[object, ...]]
    ) -> None:
        insert_many(self._connection, table, (*key, *others), rows, overwriting(key, others))

    def forget(self, is_named: Callable[[str], bool]) -> bool:
        """Leave no name, and no property, of which that is so: in rows, free pages and the log. Return whether the log
        could be emptied; until then they stand there."""
        query = (
            f"SELECT source, {_COLUMNS} FROM schema_names WHERE (source, type, name) > (?, ?, ?)"
            " ORDER BY source, type, name LIMIT ?"
        )
        after: tuple[str, ...] = ("", *OTHERS)
        while rows := self._connection.execute(query, (*after, NAMES_MAX)).fetchall():
            gone: list[tuple[str, ...]] = []
            changed: list[tuple[str, Name, NameSchema]] = []
            for source, *columns in rows:
                name, schema = _read(columns)
                after = (source, *name)
                if is_named(name.name):
                    gone.append(after)
                elif schema.forget(is_named):
                    changed.append((source, name, schema))
            self.save(changed, {}, {})
            with transaction(self._connection):
                self._connection.executemany("DELETE FROM schema_names WHERE (source, type, name) = (?, ?, ?)", gone)
        return overwrite_gaps(self._location)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._connection.close()


def read_names(connection: Connection, source: str) -> dict[Name, NameSchema]:
    """Everything known of a source, by type and name."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM schema_names WHERE source = ? ORDER BY type, name", (source,))
    return dict(map(_read, rows))


def _read(columns: Sequence[Any]) -> tuple[Name, NameSchema]:
    type, name, count, first_seen, last_seen, examined, text = columns
    kept = _kept(text)
    return Name(type, name), NameSchema(count, first_seen, last_seen, examined, kept.properties, kept.left_out)


def _json(properties: Properties, left_out: bool) -> str:
    return msgspec.json.encode(_StoredSchema(properties, left_out)).decode()


INDEX_BITS = 12
REGISTERS = 1 << INDEX_BITS
_REST_BITS = 64 - INDEX_BITS
_ALPHA = 0.7213 / (1 + 1.079 / REGISTERS)


class Distinct:
    """A set that is only counted: what is in it cannot be had back."""

    __slots__ = ("registers",)

    def __init__(self, registers: bytes = b"") -> None:
        self.registers = bytearray(registers if len(registers) == REGISTERS else REGISTERS)

    def add(self, value: str) -> bool:
        """Add a value; return whether anything changed."""
        digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        hashed = int.from_bytes(digest, "big")
        index, rest = hashed >> _REST_BITS, hashed & ((1 << _REST_BITS) - 1)
        rank = _REST_BITS - rest.bit_length() + 1
        if rank <= self.registers[index]:
            return False
        self.registers[index] = rank
        return True

    def merge(self, other: Distinct) -> None:
        """Add everything that is in another one."""
        self.registers = bytearray(map(max, self.registers, other.registers))

    def count(self) -> int:
        """About how many different values were added."""
        estimate = _ALPHA * REGISTERS**2 / sum(2.0**-rank for rank in self.registers)
        empty = self.registers.count(0)
        if estimate <= 2.5 * REGISTERS and empty:
            estimate = REGISTERS * math.log(REGISTERS / empty)
        return round(estimate)


NAMES_MAX = 1_000
"""Per source."""
SAVE_SECONDS = 2.0
RECORDS_TOGETHER = 200
"""Are noted at a time, in some 4 ms: what is known of their sources is asked for at once."""
SOURCES_TOGETHER = 200
"""In one statement."""
CACHED_MAX = 100_000
"""Properties of all names that are held in memory from one save to the next."""
DAY_MS = 86_400_000


class _Values(msgspec.Struct):
    event: object = None
    name: object = None
    properties: object = None
    traits: object = None


class _Named(msgspec.Struct):
    event: object = None
    name: object = None


_values = msgspec.json.Decoder(_Values, float_hook=read_number).decode
_named = msgspec.json.Decoder(_Named, float_hook=read_number).decode


NEWS_MAX = 10_000
"""What nobody takes, or what comes in faster than it is taken, goes: the oldest first."""


class News(NamedTuple):
    """One thing worth telling people: an event name that a source never sent before, or an item that was rejected."""

    source: str
    at_ms: int
    name: str = ""
    rejected: str = ""


class SchemaReader:
    """Used from one thread."""

    def __init__(self, data_path: Path, store: SchemaStore, clock: Callable[[], float] = monotonic) -> None:
        self._journal = open_reader(data_path / "journal")
        self._store = store
        self._clock = clock
        self._places = store.places()
        self._sources: dict[str, dict[Name, NameSchema]] = {}
        self._users: dict[tuple[str, str], Distinct] = {}
        self._months: dict[int, str] = {}
        self._changed: dict[tuple[str, Name], NameSchema] = {}
        self._changed_users: dict[tuple[str, str], Distinct] = {}
        self._moved = False
        self._saved = self._clock()
        self._readings: dict[int, Iterator[Group]] = {}
        """By partition: what goes on from its place, while there is more to read. On Kafka one that begins costs a
        search and what brokers send ahead, more than is noted in the time of a call."""
        self.news: deque[News] = deque(maxlen=NEWS_MAX)
        """What was read since somebody last took it: names that are new, and items that were rejected."""

    def read(self, seconds: float) -> bool:
        """Read on for about so long; return whether there is more to read."""
        deadline = self._clock() + seconds
        more = False
        for partition in self._journal.partitions():
            more = self._read_partition(partition, deadline) or more
        if self._moved and self._clock() - self._saved >= SAVE_SECONDS:
            self.save()
        return more

    def save(self) -> None:
        """Save what was noted, with the places."""
        if self._moved:
            changed = [(source, name, schema) for (source, name), schema in self._changed.items()]
            self._store.save(changed, self._changed_users, self._places)
            self._changed, self._changed_users, self._moved = {}, {}, False
            if (
                sum(len(schema.properties) for names in self._sources.values() for schema in names.values())
                > CACHED_MAX
            ):
                self._sources = {}
            self._users = {}
        self._saved = self._clock()

    def forget(self, is_named: Callable[[str], bool]) -> bool:
        """Forget the names and properties of which that is so, and what was read ahead: it may be erased since. Return
        False where it is to be done again, because the log could not be emptied."""
        self.save()
        self._readings.clear()
        is_emptied = self._store.forget(is_named)
        self._sources = {}
        for _ in range(len(self.news)):
            with suppress(IndexError):  # others take from it meanwhile
                each = self.news.popleft()
                if not is_named(each.name):
                    self.news.append(each)
        return is_emptied

    def close(self) -> None:
        """Save, and let go of the journal; idempotent."""
        self.save()
        self._readings.clear()
        self._journal.close()

    def _read_partition(self, partition: int, deadline: float) -> bool:
        place = self._places.get(partition) or SchemaPlace(self._journal.start(partition))
        read: list[Group] = []
        records = 0
        reading = self._readings.pop(partition, None)
        goes_on = reading is not None
        try:
            if reading is None:
                # A journal that was put away and begun anew ends before the place: there is nothing to read until then.
                reading = self._journal.read(partition, min(place.next_offset, self._journal.end(partition)))
            for group in reading:
                read.append(group)
                records += len(group.records)
                if records >= RECORDS_TOGETHER:
                    place = self._note_groups(partition, read, place)
                    read, records = [], 0
                    if self._clock() > deadline:
                        self._readings[partition] = reading
                        return True
        except (OffsetExpired, JournalCorrupt) as lost:
            self._skip(partition, self._note_groups(partition, read, place), lost.next_offset)
            return True
        self._note_groups(partition, read, place)
        return goes_on  # to where the journal ended when it began

    def _note_groups(self, partition: int, groups: Sequence[Group], place: SchemaPlace) -> SchemaPlace:
        """Note groups that follow the place, and return the place behind them."""
        if not groups:
            return place
        sent = [record for group in groups for record in group.records if _is_sent(record)]
        self._look_up([record for record in sent if record.rejection is None])
        for group in groups:
            self._note_group(group)
        self._moved = True
        place = self._places[partition] = SchemaPlace(groups[-1].next_offset, place.missed)
        return place

    def _look_up(self, records: Sequence[Record]) -> None:
        """Have at hand what is known of the sources of all these, in a few statements however many they are."""
        missing = {record.source for record in records} - self._sources.keys()
        if missing:
            self._sources |= self._store.names(missing)
        unknown = {(self._month(record.received_at), record.source) for record in records} - self._users.keys()
        for month in {month for month, _ in unknown}:
            found = self._store.users(month, [source for of, source in unknown if of == month])
            self._users |= {(month, source): users for source, users in found.items()}

    def _skip(self, partition: int, place: SchemaPlace, next_offset: int) -> None:
        passed = max(0, next_offset - place.next_offset)
        self._places[partition] = SchemaPlace(max(next_offset, place.next_offset + 1), place.missed + passed)
        self._moved = True

    def _note_group(self, group: Group) -> None:
        for record in group.records:
            if not _is_sent(record):
                continue
            if record.rejection is None:
                self._note(record)
            else:
                self.news.append(News(record.source, record.received_at, rejected=record.rejection.code))

    def _note(self, record: Record) -> None:
        source = record.source
        names = self._sources[source]
        name = Name(record.type, _name_of(record))
        schema = names.get(name)
        if schema is None:
            if len(names) >= NAMES_MAX:
                name = OTHERS
            if name is not OTHERS and name.name:
                self.news.append(News(record.source, record.received_at, name=name.name))
            schema = names.setdefault(name, NameSchema(properties={}))
        schema.see(record.received_at)
        if name is not OTHERS and schema.to_examine:
            schema.examine(_properties_of(record))
        self._changed[source, name] = schema
        self._note_user(record)

    def _note_user(self, record: Record) -> None:
        key = self._month(record.received_at), record.source
        users = self._users[key]
        if users.add(record.user_key):
            self._changed_users[key] = users

    def _month(self, at_ms: int) -> str:
        day = at_ms // DAY_MS
        found = self._months.get(day)
        if found is None:
            self._months = {day: datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m")}
            found = self._months[day]
        return found


def _is_sent(record: Record) -> bool:
    return not record.erased and record.origin == "sdk"


def _name_of(record: Record) -> str:
    """Return a track call's event, a page's or screen's name; the other types have none."""
    if record.type not in ("track", "page", "screen"):
        return ""
    try:
        named = _named(record.body)
    except (ValueError, RecursionError):
        return ""
    name = named.event if record.type == "track" else named.name
    return name[:NAME_CHARACTERS_MAX] if isinstance(name, str) else ""


def _properties_of(record: Record) -> dict[str, object]:
    try:
        values = _values(record.body)
    except (ValueError, RecursionError):  # numbers beyond any range: the event is counted all the same
        return {}
    found = values.traits if record.type in ("identify", "group") else values.properties
    return found if isinstance(found, dict) else {}
