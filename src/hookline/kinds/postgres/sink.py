"""The sink of the kind postgres: events in, rows in the tables of their source's schema out.

Each batch is one transaction, with the erasures in it at their place. The tables get what the rows need before. An
event that the database refuses for what it holds is found by halving the batch, and refused alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hookline.extras import install_extra
from hookline.kinds.answers import ACCEPTED, Verdict
from hookline.kinds.model import Json
from hookline.kinds.postgres.erasure import Erased, erase
from hookline.kinds.postgres.rows import Batch, RowMaker, pieces_of
from hookline.kinds.postgres.tables import Ready, Tables
from hookline.kinds.postgres.writing import copy_rows, insert_rows, keep_latest
from hookline.kinds.sink import SinkContext, SinkEvent, SinkFailed, counted
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    import psycopg

    from hookline.kinds.postgres.connection import Server

CHANGES_MAX = 3
"""How often tables are changed for one batch: once, unless somebody else changes them meanwhile."""
ERROR_CHARACTERS_MAX = 300


def place_of(destination: str, settings: Mapping[str, Json]) -> str:
    """Return the server and the database."""
    host = f"[{settings['host']}]" if ":" in str(settings["host"]) else settings["host"]
    return f"postgres://{host}:{settings['port']}/{settings['database']}"


def check_sink(context: SinkContext, settings: Mapping[str, Json]) -> None:
    """Connect, and ask whether tables may be made; raise SinkFailed."""
    sink = open_sink(context, settings)
    try:
        sink.check()
    finally:
        sink.close()


def open_sink(context: SinkContext, settings: Mapping[str, Json]) -> PostgresSink:
    """Return the sink of a destination; raise SinkFailed where the driver is not installed."""
    if find_spec("psycopg") is None:
        raise SinkFailed(f"the driver for PostgreSQL is missing: {install_extra('postgres')}")
    from hookline.kinds.postgres.connection import Server

    return PostgresSink(context, Server(context, settings), str(settings.get("schemaPrefix") or ""))


class PostgresSink:
    """Writes the events of one destination."""

    def __init__(self, context: SinkContext, server: Server, schema_prefix: str) -> None:
        self._context = context
        self._server = server
        self._prefix = schema_prefix
        self._maker = RowMaker(schema_prefix)
        self._tables = Tables(context.notice)

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        """Write events in one transaction, or in several where one of them is refused; raise SinkFailed."""
        import psycopg

        connection = self._server.connection()
        try:
            return self._write(connection, events)
        except psycopg.Error as error:
            raise self._server.failure(error) from error

    def check(self) -> None:
        """Find out that tables could be made, and make none; raise SinkFailed."""
        import psycopg

        try:
            row = self._server.connection().execute(_MAY_WRITE, (self._prefix,)).fetchone()
        except psycopg.Error as error:
            raise self._server.failure(error) from error
        assert row is not None
        is_read_only, may_create = row
        if is_read_only:
            raise SinkFailed("this server only reads; set host to the primary")
        if not may_create:
            raise SinkFailed(
                f"the user {self._server.user} may make no schema; run GRANT CREATE ON DATABASE {self._server.database}"
                f" TO {self._server.user} as an administrator"
            )

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _write(self, connection: psycopg.Connection[tuple[object, ...]], events: Sequence[SinkEvent]) -> list[Verdict]:
        import psycopg

        try:
            return self._write_together(connection, events)
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded) as error:
            if len(events) == 1:
                said = str(error)[: 2 * ERROR_CHARACTERS_MAX]
                return [Verdict(False, of_event=True, error=" ".join(said.split())[:ERROR_CHARACTERS_MAX])]
        middle = len(events) // 2
        return [*self._write(connection, events[:middle]), *self._write(connection, events[middle:])]

    def _write_together(
        self, connection: psycopg.Connection[tuple[object, ...]], events: Sequence[SinkEvent]
    ) -> list[Verdict]:
        import psycopg

        from hookline.kinds.postgres.connection import BOUNDS

        changed_elsewhere = (
            *(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.DatatypeMismatch),
            *(psycopg.errors.InvalidTextRepresentation, psycopg.errors.InvalidDatetimeFormat),
            psycopg.errors.InvalidSchemaName,
        )
        is_careful, has_forgotten = False, False
        while True:
            verdicts, work, deletes = self._prepare(connection, events)
            erased: list[Erased] = []
            try:
                with connection.transaction():
                    connection.execute(BOUNDS)
                    for piece in work:
                        piece(connection, is_careful, erased)
                    crash_point("warehouse.before_commit")
                break
            except psycopg.errors.UniqueViolation:
                if is_careful:
                    raise
                is_careful = True
            except changed_elsewhere:
                if has_forgotten:
                    raise
                has_forgotten = True
                self._tables.forget()
        crash_point("warehouse.after_commit")
        if erased:
            rows, tables = sum(each.rows for each in erased), max(each.tables for each in erased)
            logger().info("warehouse_erased", destination=self._context.destination, rows=rows, tables=tables)
        for numbers, found in zip(deletes, erased, strict=True):
            remarked = Verdict(True, remark=_remark(found, len(numbers)))
            verdicts[numbers.start : numbers.stop] = [remarked] * len(numbers)
        return verdicts

    def _prepare(
        self, connection: psycopg.Connection[tuple[object, ...]], events: Sequence[SinkEvent]
    ) -> tuple[list[Verdict], list[Work], list[range]]:
        """Return what becomes of the events, what is to be done for it in one transaction, in its order, and which of
        the events ask for erasures, by erasure."""
        verdicts: list[Verdict] = []
        work: list[Work] = []
        deletes: list[range] = []
        for is_delete, piece in pieces_of(events):
            if is_delete:
                work.append(_erasing(piece, self._prefix))
                deletes.append(range(len(verdicts), len(verdicts) + len(piece)))
                verdicts.extend([ACCEPTED] * len(piece))
                continue
            batch = Batch()
            verdicts.extend(self._maker.add(batch, event) for event in piece)
            work.append(_writing(self._fitted(connection, batch)))
        return verdicts, work, deletes

    def _fitted(self, connection: psycopg.Connection[tuple[object, ...]], batch: Batch) -> list[Ready]:
        """Return the rows as the tables take them, once the tables have all that they need."""
        schemas = {table.schema for table in batch.tables}
        for _ in range(CHANGES_MAX):
            self._tables.read(connection, schemas)
            ready, changes = self._tables.fit(batch)
            if not changes:
                return sorted(ready, key=lambda each: each.table)
            self._tables.change(connection, batch)
        raise SinkFailed("the tables are changed by somebody else again and again; end that")


Work = Callable[["psycopg.Connection[tuple[object, ...]]", bool, list[Erased]], None]
"""A part of a transaction; the second argument is whether rows may be there already."""


def _writing(ready: list[Ready]) -> Work:
    def write(connection: psycopg.Connection[tuple[object, ...]], is_careful: bool, _: list[Erased]) -> None:
        for each in ready:
            if each.is_latest:
                keep_latest(connection, each)
            elif is_careful:
                insert_rows(connection, each)
            else:
                copy_rows(connection, each)

    return write


def _remark(erased: Erased, messages: int) -> str:
    """Return what delete messages that were carried out together came to."""
    rows, tables = erased
    said = f"{counted(rows, 'row')} of {counted(tables, 'table')} deleted" if rows else "no rows were there"
    return said if messages == 1 else f"{said}, for {messages} delete messages together"


def _erasing(events: Sequence[SinkEvent], schema_prefix: str) -> Work:
    def run(connection: psycopg.Connection[tuple[object, ...]], _: bool, erased: list[Erased]) -> None:
        erased.append(erase(connection, events, schema_prefix))

    return run


_MAY_WRITE = """
SELECT current_setting('transaction_read_only')::boolean,
       has_database_privilege(current_database(), 'CREATE') OR EXISTS (
         SELECT 1 FROM pg_namespace n
         WHERE starts_with(n.nspname::text, %s) AND NOT starts_with(n.nspname::text, 'pg_')
           AND n.nspname NOT IN ('public', 'information_schema') AND has_schema_privilege(n.oid, 'CREATE'))
"""
"""Schemas may also have been made for the user, one for each source."""
