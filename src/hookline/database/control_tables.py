"""The tables of ``control.db``: the configured objects with their whole history. Written by control only.

An object's row is valid for the versions ``[since, until)``; the row in force has no ``until``. So a change costs one
row per changed object, and what was in force at any version can be read back. Times are milliseconds since the epoch.
Read by migrations and their tests; the roles write plain SQL and never import this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text

metadata = MetaData()

# SQLite makes a key the row id only if its type is spelled INTEGER.
big_key = BigInteger().with_variant(Integer, "sqlite")

versions = Table(
    "versions",
    metadata,
    Column("version", big_key, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("ends", Text, nullable=False),
)

objects = Table(
    "objects",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("since", BigInteger, primary_key=True),
    Column("until", BigInteger),
    Column("document", Text, nullable=False),
    Column("owner", Text),
    Column("lane", Text),
)
Index(
    "objects_in_force",
    objects.c.kind,
    objects.c.id,
    unique=True,
    sqlite_where=text("until IS NULL"),
    postgresql_where=text("until IS NULL"),
)
Index("objects_since", objects.c.since)
Index(
    "objects_until",
    objects.c.until,
    sqlite_where=text("until IS NOT NULL"),
    postgresql_where=text("until IS NOT NULL"),
)

lane_numbers = Table(
    "lane_numbers",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("next", BigInteger, nullable=False),
)

control_ready = Table(
    "control_ready",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("boot_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
