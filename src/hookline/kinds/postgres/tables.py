"""The tables as they are in the database, what rows need that they do not have, and the statements that change them.

Changes are made before the rows are written, in a transaction of their own, by one process at a time. They only ever
add and widen, so a process that ends in the midst leaves nothing to be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hookline.kinds.model import Json
from hookline.kinds.postgres.names import OTHER_COLUMN, STANDARD_TABLES
from hookline.kinds.postgres.rows import TEXT_COLUMNS, Batch, Row, TableName, TableRows
from hookline.kinds.postgres.types import Converted, Type, convert, type_of, widened
from hookline.kinds.sink import SinkFailed

if TYPE_CHECKING:
    from psycopg import Connection

COLUMNS_MAX = 300
"""Of a table: with so many, a row of short values still fits on a page of PostgreSQL (8 KB)."""
EVENT_TABLES_MAX = 500
"""Of a schema."""
SCHEMAS_MAX = 1_000
NAMES_IN_NOTICE_MAX = 20
LOCK_NUMBER = 1_212_896_075
"""The first number of the advisory locks; the second is made from the schema's name."""

Notice = Callable[[str, str], None]


class KnownTable(NamedTuple):
    """A table, view or the like as the database has it."""

    columns: dict[str, str]
    """Names and types."""
    is_usable: bool
    """Whether rows can be written into it: it is a table with a unique ``id``."""


class Ready(NamedTuple):
    """Rows in the form that a table takes."""

    table: TableName
    is_latest: bool
    columns: list[str]
    types: list[str]
    texts: list[Sequence[str]]
    """By column."""


class TableChange(NamedTuple):
    """Hold what a table lacks."""

    table: TableName
    is_new: bool
    added: dict[str, Type]
    widened: dict[str, tuple[str, Type]]


class Tables:
    """Hold what is known of the tables of a database; ``frozen`` are columns that could not be widened."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._known: dict[str, dict[str, KnownTable]] = {}
        self._frozen: set[tuple[TableName, str]] = set()
        self._reported: set[tuple[str, TableName | str]] = set()

    def forget(self) -> None:
        """Read everything anew: somebody else has changed it."""
        self._known.clear()

    def read(self, connection: Connection[tuple[object, ...]], schemas: Iterable[str]) -> None:
        """Read the tables of schemas that are not known yet."""
        wanted = list(schemas)
        if len(self._known.keys() | set(wanted)) > SCHEMAS_MAX:
            self._known.clear()
        for schema in [each for each in wanted if each not in self._known]:
            found: dict[str, KnownTable] = {}
            for name, is_usable, columns, types in connection.execute(_TABLES, (schema,)):
                assert isinstance(columns, list)
                assert isinstance(types, list)
                found[str(name)] = KnownTable(dict(zip(columns, types, strict=True)), bool(is_usable))
            self._known[schema] = found

    def fit(self, batch: Batch) -> tuple[list[Ready], list[TableChange]]:
        """Return the rows as the tables take them, and what the tables lack for it; both or one of them are empty."""
        self._bound_tables(batch)
        ready: list[Ready] = []
        changes: list[TableChange] = []
        for rows in batch.tables.values():
            known = self._known[rows.table.schema].get(rows.table.name)
            if known is not None and not known.is_usable:
                raise SinkFailed(
                    f"{rows.table.schema}.{rows.table.name} is no table with a unique column id; rename it, and"
                    " Hookline makes its own"
                )
            made = self._fit_table(rows, known)
            if isinstance(made, Ready):
                ready.append(made)
            else:
                changes.append(made)
        return ready, changes

    def change(self, connection: Connection[tuple[object, ...]], batch: Batch) -> None:
        """Make what the rows need, in one transaction; raise psycopg's errors."""
        made: list[TableChange] = []
        new_schemas: list[str] = []
        schemas = sorted({table.schema for table in batch.tables})
        with connection.transaction():
            connection.execute(_BOUNDS_OF_CHANGES)
            for schema in schemas:
                connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_NUMBER, schema))
                self._known.pop(schema, None)  # somebody else may have made it meanwhile
            self.read(connection, schemas)
            for schema in schemas:
                if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
                    connection.execute(f"CREATE SCHEMA {quoted(schema)}".encode())
                    new_schemas.append(schema)
            for change in self.fit(batch)[1]:
                for statement in _statements(change):
                    connection.execute(statement.encode())
                made.append(change._replace(widened=self._widen(connection, change)))
        for schema in schemas:
            self._known.pop(schema, None)
        self._report(new_schemas, made)

    def _fit_table(self, rows: TableRows, known: KnownTable | None) -> Ready | TableChange:
        columns = known.columns if known is not None else {}
        names, given = _by_shape(list(rows.rows.values()))
        lacking = [name for name in names if name not in columns]
        if lacking:
            taken = (columns.keys() | _ALWAYS.keys() | _OF_EVENTS.keys()) - {OTHER_COLUMN}
            beyond = [name for name in lacking if name not in taken and name != OTHER_COLUMN]
            beyond = beyond[max(0, COLUMNS_MAX - 1 - len(taken)) :]  # one is for the rest
            if beyond:
                self._move_to_other(rows, beyond)
                return self._fit_table(rows, known)
        added: dict[str, Type] = {} if known is not None or rows.is_latest else dict(_OF_EVENTS)
        wider: dict[str, tuple[str, Type]] = {}
        converted: dict[str, Sequence[str]] = {}
        for name, values in _columns_of(names, given):
            column = columns.get(name)
            if column is None:
                added[name] = _first_type(name, values)
                continue
            if name in _OURS and column == Type.TIMESTAMP:  # written by ourselves, in the one form
                converted[name] = values
                continue
            found = convert(values, column)
            if found.misfits:
                if (rows.table, name) in self._frozen:
                    self._keep_misfits(given, name, found)
                    return self._fit_table(rows, known)
                wider[name] = column, widened(column, values)
                continue
            converted[name] = found.texts
        if known is None or added or wider:
            return TableChange(rows.table, known is None, added, wider)
        types = [columns[name] for name in names]
        return Ready(rows.table, rows.is_latest, list(names), types, list(converted.values()))

    def _bound_tables(self, batch: Batch) -> None:
        """Move the rows of event tables that cannot be had to ``tracks``."""
        events: dict[str, int] = {}
        for table in [each.table for each in batch.tables.values() if each.of_event]:
            found = self._known[table.schema]
            known = found.get(table.name)
            if known is not None and known.is_usable:
                continue
            if known is None:
                count = events.get(table.schema)
                if count is None:
                    count = sum(each.is_usable for name, each in found.items() if name not in STANDARD_TABLES)
                if count < EVENT_TABLES_MAX:
                    events[table.schema] = count + 1
                    continue
                self._report_once(
                    "tables_not_created",
                    table.schema,
                    f"The schema {table.schema} has {EVENT_TABLES_MAX} tables; further events go into its tracks alone,"
                    f" with their properties as JSON in {OTHER_COLUMN}. Send fewer event names.",
                )
            else:
                self._report_once(
                    "table_not_usable",
                    table,
                    f"{table.schema}.{table.name} is no table with a unique column id, so its events go into tracks"
                    f" alone, with their properties as JSON in {OTHER_COLUMN}. Rename it, and Hookline makes its own.",
                )
            batch.move_to_tracks(table)

    def _move_to_other(self, rows: TableRows, names: list[str]) -> None:
        """Keep values that can have no column as JSON."""
        beyond = frozenset(names)  # looked up for each name of a row: each row may have thousands of its own
        for row in rows.rows.values():
            moved = {name: row.pop(name) for name in [each for each in row if each in beyond]}
            if moved:
                row.setdefault(OTHER_COLUMN, {}).update(moved)
        table = rows.table
        self._report_once(
            "columns_not_added",
            table,
            f"{table.schema}.{table.name} has {COLUMNS_MAX} columns; further properties go into {OTHER_COLUMN} as JSON."
            f" The first of them is {names[0]}. Send fewer property names.",
        )

    def _keep_misfits(self, given: list[Row], name: str, found: Converted) -> None:
        for index in found.misfits:
            given[index].setdefault(OTHER_COLUMN, {})[name] = given[index].pop(name)

    def _widen(self, connection: Connection[tuple[object, ...]], change: TableChange) -> dict[str, tuple[str, Type]]:
        """Widen columns, each by itself: one that a view, an index or a constraint uses may not be, and then stays as
        it is."""
        import psycopg

        made: dict[str, tuple[str, Type]] = {}
        table = change.table
        for name, (before, after) in change.widened.items():
            try:
                with connection.transaction():
                    connection.execute(_widening(table, name, before, after).encode())
                made[name] = before, after
            except (
                psycopg.errors.InsufficientPrivilege,
                psycopg.errors.UndefinedColumn,
                psycopg.errors.UndefinedTable,
            ):
                raise  # somebody has to grant it, or it is looked for anew
            except (
                psycopg.errors.FeatureNotSupported,
                psycopg.errors.DependentObjectsStillExist,
                psycopg.errors.QueryCanceled,
                psycopg.ProgrammingError,
            ) as error:
                self._frozen.add((table, name))
                reason = error.diag.message_detail or error.diag.message_primary or "it took too long"
                self._notice(
                    "column_not_widened",
                    f"{table.schema}.{table.name}.{name} stays {before}: {reason}. Values that need {after} go into"
                    f" {OTHER_COLUMN} as JSON. Widen it yourself, then disable and enable the destination.",
                )
        return made

    def _report(self, schemas: list[str], changes: list[TableChange]) -> None:
        """Announce what was made."""
        for schema in schemas:
            self._notice("schema_created", f"The schema {schema} was created.")
        new = [f"{each.table.schema}.{each.table.name}" for each in changes if each.is_new]
        if new:
            self._notice("tables_created", f"Tables were created: {_listed(new)}.")
        for change in changes:
            table = f"{change.table.schema}.{change.table.name}"
            if change.added and not change.is_new:
                names = [f"{name} ({kind})" for name, kind in change.added.items()]
                self._notice("columns_added", f"{table} has new columns: {_listed(names)}.")
            if change.widened:
                names = [f"{name} from {before} to {after}" for name, (before, after) in change.widened.items()]
                self._notice("columns_widened", f"Columns of {table} were widened: {_listed(names)}.")

    def _report_once(self, name: str, about: TableName | str, sentence: str) -> None:
        if (name, about) not in self._reported:
            self._reported.add((name, about))
            self._notice(name, sentence)


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def qualified(table: TableName) -> str:
    """Return a table's name as SQL has it."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def _by_shape(rows: list[Row]) -> tuple[dict[str, None], list[Row]]:
    """Return the names of all columns, and the rows so that those with the same columns stand together."""
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        shape = tuple(row)
        alike = shapes.get(shape)
        if alike is None:
            shapes[shape] = [row]
        else:
            alike.append(row)
    return dict.fromkeys(chain.from_iterable(shapes)), list(chain.from_iterable(shapes.values()))


def _columns_of(names: Iterable[str], rows: list[Row]) -> Iterator[tuple[str, Sequence[Json]]]:
    """Yield the columns with their values; of rows that are all alike in a third of the time."""
    first = tuple(rows[0]) if rows else ()
    if rows and first == tuple(rows[-1]):  # rows of one shape stand together, so all between these two have it as well
        yield from zip(first, zip(*map(dict.values, rows), strict=True), strict=True)
    else:
        for name in names:
            yield name, [row.get(name) for row in rows]


def _first_type(name: str, values: Sequence[Json]) -> Type:
    if name in _OURS:
        return Type.TIMESTAMP
    if name == OTHER_COLUMN:
        return Type.JSONB
    return Type.TEXT if name in TEXT_COLUMNS else type_of(values)


def _statements(change: TableChange) -> list[str]:
    name = qualified(change.table)
    columns = [f"{quoted(column)} {kind}" for column, kind in change.added.items() if column not in _ALWAYS]
    if not change.is_new:
        if not columns:
            return []
        return [f"ALTER TABLE {name} {', '.join(f'ADD COLUMN IF NOT EXISTS {column}' for column in columns)}"]
    always = [f"{quoted(column)} {definition}" for column, definition in _ALWAYS.items()]
    # Events come about in the order of their receipt: this index is tiny, and enough for ranges of time.
    return [
        f"CREATE TABLE {name} ({', '.join([*always, *columns])})",
        f"CREATE INDEX ON {name} USING brin (received_at)",
    ]


def _widening(table: TableName, column: str, before: str, after: Type) -> str:
    name = quoted(column)
    value = f"{name}::{after}"
    if before in _TIMES and after is Type.TEXT:  # as it was sent, and not in PostgreSQL's own form
        value = f'to_char({name}, \'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\')'
    return f"ALTER TABLE {qualified(table)} ALTER COLUMN {name} TYPE {after} USING {value}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_IN_NOTICE_MAX])
    return shown if len(names) <= NAMES_IN_NOTICE_MAX else f"{shown} and {len(names) - NAMES_IN_NOTICE_MAX} more"


_OURS = frozenset({"received_at", "timestamp"})
_TIMES = ("timestamp with time zone", "timestamp without time zone")
_ALWAYS: Mapping[str, str] = {
    "id": "text PRIMARY KEY",
    "received_at": "timestamp with time zone",
    "uuid_ts": "timestamp with time zone NOT NULL DEFAULT now()",
}
_OF_EVENTS: Mapping[str, Type] = {"timestamp": Type.TIMESTAMP, "user_id": Type.TEXT, "anonymous_id": Type.TEXT}
"""Columns that every table of events is made with, so that queries and erasures find them."""
_BOUNDS_OF_CHANGES = (
    "SET LOCAL statement_timeout = '300s'; SET LOCAL lock_timeout = '10s'; SET LOCAL timezone = 'UTC';"
    " SET LOCAL search_path = pg_catalog"
)
_TABLES = """
SELECT c.relname::text,
       c.relkind IN ('r', 'p') AND EXISTS (
         SELECT 1 FROM pg_index i JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = 'id'
         WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL AND i.indnkeyatts = 1
           AND i.indkey[0] = k.attnum),
       array_agg(a.attname::text), array_agg(format_type(a.atttypid, a.atttypmod))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c', 'S', 'i')
  AND a.attnum > 0 AND NOT a.attisdropped
GROUP BY c.oid
"""
