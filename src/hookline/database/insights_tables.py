"""The tables of ``insights.db``: what control works out from what others write down. Written by control only.

Nothing here is needed to deliver anything, and a lost file costs the charts of the past. A row of the series is the
sum (``waiting`` and ``lag``: the highest value) over the ``resolution`` seconds from ``at`` on, in seconds since the
epoch; rows of one moment lie together, because they are written together. Read by migrations and their tests; the
roles write plain SQL and never import this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

BUCKETS = 13
"""Of a histogram of times (``telemetry.metrics.DURATION_BUCKETS_MS`` and one above)."""


def _counts(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger) for name in names]


def _histogram(name: str) -> list[Column[int]]:
    return _counts(*(f"{name}_{index}" for index in range(BUCKETS)))


total_series = Table(
    "total_series",
    metadata,
    Column("resolution", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    *_counts("accepted", "rejected", "delivered", "failures", "retries", "given_up", "waiting", "lag"),
    *_histogram("response"),
    *_histogram("latency"),
    sqlite_with_rowid=False,
)

destination_series = Table(
    "destination_series",
    metadata,
    Column("resolution", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("destination", Text, primary_key=True),
    *_counts("delivered", "attempted", "failures", "retries", "given_up", "filtered", "waiting"),
    *_histogram("response"),
    sqlite_with_rowid=False,
)

source_series = Table(
    "source_series",
    metadata,
    Column("resolution", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),
    *_counts("events", "filtered"),
    sqlite_with_rowid=False,
)

series_place = Table(
    "series_place",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last_slot", BigInteger, nullable=False),
)

schema_names = Table(
    "schema_names",
    metadata,
    Column("source", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("examined", BigInteger, nullable=False),
    Column("properties", Text, nullable=False),
    sqlite_with_rowid=False,
)

tracked_users = Table(
    "tracked_users",
    metadata,
    Column("month", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("registers", LargeBinary, nullable=False),
)

schema_places = Table(
    "schema_places",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),
)
