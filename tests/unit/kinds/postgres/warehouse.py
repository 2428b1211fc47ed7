"""A database as a destination of the kind postgres has it, and the events that are written into it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from hookline.connections.kinds import usual_settings
from hookline.connections.model import Destination
from hookline.kinds.answers import Verdict
from hookline.kinds.model import KindSettings
from hookline.kinds.postgres.sink import PostgresSink, open_sink
from hookline.kinds.sink import SinkContext, SinkEvent
from tests.postgres import OWNER, PostgresServer

FIRST_MS = 1_795_000_000_000
_numbers = itertools.count(1)


def event(kind: str = "track", *, source: str = "site", at_ms: int | None = None, **fields: Any) -> SinkEvent:
    """An event as sinks get it, received a millisecond after the one before."""
    number = next(_numbers)
    received_ms = FIRST_MS + number if at_ms is None else at_ms
    iso = datetime.fromtimestamp(received_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    made = {"type": kind, "source": source, "messageId": f"m-{number}", "timestamp": iso, "receivedAt": iso, **fields}
    if kind == "track":
        made.setdefault("event", "Order Completed")
    return SinkEvent(0, number, received_ms, made, b"")


class Warehouse:
    """One database; ``notices`` are what the sinks said."""

    def __init__(self, server: PostgresServer, url: str, folder: Path) -> None:
        self.server = server
        self.url = url
        self.name = url.partition("?")[0].rpartition("/")[2]
        self.folder = folder
        self.notices: list[tuple[str, str]] = []
        self.allowed = {"127.0.0.1", "::1"}

    def settings(self, **given: Any) -> KindSettings:
        """The settings of a destination that writes here."""
        own = {"host": "127.0.0.1", "port": self.server.port, "database": self.name, "user": OWNER}
        settings = KindSettings({**own, "sslMode": "disable", **given})
        return usual_settings(Destination(id="warehouse", name="W", kind="postgres", sources=(), settings=settings))

    def sink(self, **given: Any) -> PostgresSink:
        """A sink that writes here."""

        def refusal(address: str) -> str | None:
            return None if address in self.allowed else f"{address} is in a network that is not allowed"

        context = SinkContext("warehouse", self.folder, refusal, lambda *notice: self.notices.append(notice))
        return open_sink(context, self.settings(**given))

    @contextmanager
    def open(self, **given: Any) -> Iterator[PostgresSink]:
        """A sink that is closed afterwards."""
        with closing(self.sink(**given)) as sink:
            yield sink

    def write(self, *events: SinkEvent, **given: Any) -> Sequence[Verdict]:
        """Write events with a sink of their own."""
        with self.open(**given) as sink:
            return sink.write(events)

    def run(self, statement: str) -> list[Any]:
        """What a statement answers."""
        return self.server.run(self.url, statement)

    def rows(self, table: str, *columns: str, where: str = "true") -> list[Any]:
        """Columns of a table's rows, in the order of their receipt; all of them as dictionaries where none is named."""
        with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as connection:
            connection.execute("SET timezone = 'UTC'")
            found = connection.execute(f"SELECT * FROM {table} WHERE {where} ORDER BY received_at, id".encode())
            rows = found.fetchall()
        return [tuple(row[name] for name in columns) for row in rows] if columns else rows

    def types(self, table: str) -> dict[str, str]:
        """The columns of a table with their types."""
        schema, _, name = table.partition(".")
        return dict(
            self.run(
                "SELECT column_name, data_type FROM information_schema.columns"
                f" WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
            )
        )

    def tables(self, schema: str = "site") -> set[str]:
        """The names of a schema's tables."""
        return {name for (name,) in self.run(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")}

    def everything(self) -> dict[str, list[Any]]:
        """All rows of the source's tables."""
        return {name: self.rows(f'site."{name}"') for name in sorted(self.tables())}
