"""Make rows of events: into which tables of its source's schema an event goes, and with which values in which columns.

Properties, traits and context are flattened: an object in an object becomes columns that begin with its name, a list
becomes JSON in one column. Values stay as they are until the types of the columns are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hookline.kinds.answers import ACCEPTED, Verdict
from hookline.kinds.model import Json
from hookline.kinds.postgres.names import OTHER_COLUMN, ColumnNames, schema_name, table_name
from hookline.kinds.postgres.types import cleaned
from hookline.kinds.sink import SinkEvent
from hookline.remembered import Remembered

Row: TypeAlias = dict[str, Json]
DEPTH_MAX = 8
"""Objects within objects that become columns; what is deeper becomes JSON."""
ID_CHARACTERS_MAX = 512
"""Of what a table has an index on: PostgreSQL puts at most 2,704 bytes there."""
NAMES_BYTES_MAX = 1024 * 1024
"""Of the names of sources, and of those of events, that are remembered."""
NAME_BYTES_MAX = 1_024
"""A longer name is worked on each time."""

BASE_COLUMNS = frozenset({"id", "received_at", "uuid_ts", "timestamp", "user_id", "anonymous_id"})
"""A property whose column would have one of these names is left out."""
TEXT_COLUMNS = frozenset(
    {"id", "user_id", "anonymous_id", "event", "event_text", "group_id", "previous_id", "name", "category"}
)
"""Ids and names stay text even while all of them look like numbers or times."""

_ONE_TABLE = {
    "identify": ("identifies", "traits"),
    "page": ("pages", "properties"),
    "screen": ("screens", "properties"),
    "group": ("groups", "traits"),
    "alias": ("aliases", "traits"),
}
_LATEST = {"identify": ("users", "userId"), "group": ("accounts", "groupId")}
"""Tables with one row for each id, which has what came last."""
_OWN_FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "track": (("event", "event"), ("event", "event_text")),
    "identify": (),
    "page": (("name", "name"), ("category", "category")),
    "screen": (("name", "name"), ("category", "category")),
    "group": (("groupId", "group_id"),),
    "alias": (("previousId", "previous_id"),),
}


class TableName(NamedTuple):
    """A table by the schema that it is in."""

    schema: str
    name: str


class TableRows:
    """The rows for one table; ``is_latest``: of a table that has one row for each id."""

    __slots__ = ("is_latest", "of_event", "received_ms", "rows", "table")

    def __init__(self, table: TableName, is_latest: bool = False, of_event: bool = False) -> None:
        self.table = table
        self.is_latest = is_latest
        self.of_event = of_event
        """Whether it is an event's own table; the same events are in ``tracks``."""
        self.rows: dict[str, Row] = {}
        """By their ids."""
        self.received_ms: dict[str, int] = {}


class Batch:
    """The rows of some events, by table."""

    def __init__(self) -> None:
        self.tables: dict[TableName, TableRows] = {}

    def of(self, table: TableName, is_latest: bool = False, of_event: bool = False) -> TableRows:
        """Return the rows for a table."""
        found = self.tables.get(table)
        if found is None:
            found = self.tables[table] = TableRows(table, is_latest, of_event)
        return found

    def move_to_tracks(self, table: TableName) -> None:
        """Take an event's own table out: what it would have had is kept as JSON in ``tracks``."""
        taken = self.tables.pop(table)
        tracks = self.tables[TableName(table.schema, "tracks")].rows
        for id, row in taken.rows.items():
            track = tracks[id]
            own = {name: value for name, value in row.items() if name not in track and name != OTHER_COLUMN}
            track.setdefault(OTHER_COLUMN, {}).update({**own, **row.get(OTHER_COLUMN, {})})


class RowMaker:
    """Makes rows; remembers the names that it has made."""

    def __init__(self, schema_prefix: str) -> None:
        self._schemas: Remembered[str, str] = Remembered(
            lambda source: schema_name(source, schema_prefix), NAMES_BYTES_MAX, NAME_BYTES_MAX
        )
        self._tables: Remembered[str, str] = Remembered(table_name, NAMES_BYTES_MAX, NAME_BYTES_MAX)
        self._context = ColumnNames("context_")
        self._own = {
            kind: ColumnNames("", BASE_COLUMNS | {column for _, column in fields})
            for kind, fields in _OWN_FIELDS.items()
        }

    def add(self, batch: Batch, event: SinkEvent) -> Verdict:
        """Add an event's rows to a batch; return why it has none, ACCEPTED where it has."""
        fields = event.fields
        id = fields["messageId"]
        if not id or len(id) > ID_CHARACTERS_MAX:
            text = f"a row's id has 1 to {ID_CHARACTERS_MAX} characters, this messageId has {len(id)}"
            return Verdict(False, of_event=True, error=text)
        kind = fields["type"]
        schema = self._schemas[fields["source"]]
        base: Row = {"id": id, "received_at": fields["receivedAt"], "timestamp": fields["timestamp"]}
        if "userId" in fields:
            base["user_id"] = fields["userId"]
        if "anonymousId" in fields:
            base["anonymous_id"] = fields["anonymousId"]
        context = fields.get("context")
        if context.__class__ is dict:
            _flatten(context, self._context, base)
        if kind == "track":
            self._add_track(batch, schema, base, fields)
        elif kind in _ONE_TABLE:
            self._add_call(batch, schema, base, event, kind)
        else:
            return Verdict(False, of_event=True, error=f"events of the type {kind!r} have no table")
        return ACCEPTED

    def _add_track(self, batch: Batch, schema: str, base: Row, fields: Mapping[str, Json]) -> None:
        name = fields.get("event") or ""
        table = self._tables[name]
        base["event"], base["event_text"] = table, name
        id = base["id"]
        tracks = batch.of(TableName(schema, "tracks")).rows
        if id in tracks:
            return
        tracks[id] = base
        row = batch.of(TableName(schema, table), of_event=True).rows[id] = _copied(base)
        properties = fields.get("properties")
        if properties.__class__ is dict:
            _flatten(properties, self._own["track"], row)

    def _add_call(self, batch: Batch, schema: str, base: Row, event: SinkEvent, kind: str) -> None:
        fields = event.fields
        for field, column in _OWN_FIELDS[kind]:
            if field in fields:
                base[column] = fields[field]
        table, own = _ONE_TABLE[kind]
        inner = fields.get(own)
        if inner.__class__ is dict:
            _flatten(inner, self._own[kind], base)
        rows = batch.of(TableName(schema, table)).rows
        if base["id"] in rows:
            return
        rows[base["id"]] = base
        latest = _LATEST.get(kind)
        if latest is not None:
            id = fields.get(latest[1])
            if id and len(id) <= ID_CHARACTERS_MAX:
                table_of_latest = batch.of(TableName(schema, latest[0]), is_latest=True)
                # As it will stand there: of two ids that become the same, one statement may write one row only.
                _keep_latest(table_of_latest, str(cleaned(id)), base, event.received_at_ms)


def pieces_of(events: Sequence[SinkEvent]) -> Iterator[tuple[bool, Sequence[SinkEvent]]]:
    """Yield the events in runs, in their order: those that are written, and those that ask for an erasure (True)."""
    begin = 0
    for index in range(1, len(events) + 1):
        is_delete = events[begin].fields["type"] == "delete"
        if index == len(events) or (events[index].fields["type"] == "delete") is not is_delete:
            yield is_delete, events[begin:index]
            begin = index


def _keep_latest(table: TableRows, id: str, row: Row, received_ms: int) -> None:
    """Put what an event says of a user or group over what is known from the same batch, by the time of receipt."""
    left_out = ("user_id", "anonymous_id", "group_id", "timestamp")
    own = {name: value for name, value in _copied(row).items() if name not in left_out}
    own["id"] = id
    before = table.rows.get(id)
    if before is None:
        table.rows[id], table.received_ms[id] = own, received_ms
    elif received_ms >= table.received_ms[id]:
        before.update(own)  # in place: a user may have new traits in each event of a batch
        table.received_ms[id] = received_ms
    else:
        for name, value in own.items():
            before.setdefault(name, value)


def _copied(row: Row) -> Row:
    made = row.copy()
    if OTHER_COLUMN in made:
        made[OTHER_COLUMN] = dict(made[OTHER_COLUMN])
    return made


def _flatten(values: Mapping[str, Json], names: ColumnNames, row: Row, depth: int = 0) -> None:
    """Put values into a row; of two that have the same column the first is put there, the other among those without."""
    for key, value in values.items():
        if value is None:
            continue
        if value.__class__ is dict and depth < DEPTH_MAX:
            _flatten(value, names.inner(key), row, depth + 1)
            continue
        name = names[key]
        if not name:
            continue
        if name in row:
            row.setdefault(OTHER_COLUMN, {})[key] = value
        else:
            row[name] = value
