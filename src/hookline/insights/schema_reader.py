"""Reads the journal behind everybody else, a moment at a time; notes what sources send, and how many users they have.

It has a reader and places of its own and waits for nobody, nor anybody for it. What it has noted and the places up to
which it has read are saved together, so nothing is counted twice or left out by a restart; what retention took before
it was read is counted as missed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec

from hookline.insights.schema import NAME_CHARACTERS_MAX, OTHERS, Distinct, Name, NameSchema, SchemaPlace, SchemaStore
from hookline.journal.opening import open_reader
from hookline.journal.port import Group, JournalCorrupt, OffsetExpired
from hookline.journal.record import Record

NAMES_MAX = 1_000
"""Per source."""
SAVE_SECONDS = 2.0
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


_values = msgspec.json.Decoder(_Values).decode
_named = msgspec.json.Decoder(_Named).decode


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

    def close(self) -> None:
        """Save, and let go of the journal; idempotent."""
        self.save()
        self._journal.close()

    def _read_partition(self, partition: int, deadline: float) -> bool:
        place = self._places.get(partition) or SchemaPlace(self._journal.start(partition))
        try:
            # A journal that was put away and begun anew ends before the place: there is nothing to read until then.
            for group in self._journal.read(partition, min(place.next_offset, self._journal.end(partition))):
                self._note_group(group)
                place = SchemaPlace(group.next_offset, place.missed)
                self._moved = True
                self._places[partition] = place
                if self._clock() > deadline:
                    return True
        except (OffsetExpired, JournalCorrupt) as lost:
            self._skip(partition, place, lost.next_offset)
            return True
        return False

    def _skip(self, partition: int, place: SchemaPlace, next_offset: int) -> None:
        passed = max(0, next_offset - place.next_offset)
        self._places[partition] = SchemaPlace(max(next_offset, place.next_offset + 1), place.missed + passed)
        self._moved = True

    def _note_group(self, group: Group) -> None:
        for record in group.records:
            if record.rejection is None and not record.erased and record.origin == "sdk":
                self._note(record)

    def _note(self, record: Record) -> None:
        source = record.source
        names = self._sources.get(source)
        if names is None:
            names = self._sources[source] = self._store.names(source)
        name = Name(record.type, _name_of(record))
        schema = names.get(name)
        if schema is None:
            if len(names) >= NAMES_MAX:
                name = OTHERS
            schema = names.setdefault(name, NameSchema(properties={}))
        schema.see(record.received_at)
        if name is not OTHERS and schema.to_examine:
            schema.examine(_properties_of(record))
        self._changed[source, name] = schema
        self._note_user(record)

    def _note_user(self, record: Record) -> None:
        key = self._month(record.received_at), record.source
        users = self._users.get(key)
        if users is None:
            users = self._users[key] = self._changed_users.get(key) or self._store.users(*key)
        if users.add(record.user_key):
            self._changed_users[key] = users

    def _month(self, at_ms: int) -> str:
        day = at_ms // DAY_MS
        found = self._months.get(day)
        if found is None:
            self._months = {day: datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m")}
            found = self._months[day]
        return found


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
