"""The history in rows of many persons: an entry says whose it is, and a row has those of a bucket of persons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "profiles_0008"
down_revision = "profiles_0007"

ROWS_PER_CHUNK = 16_384
SHIFT_MAX = 12
ENTRY_BYTES = 24
"""Of an entry as it was until now."""
PERSON_BYTES = 4


def upgrade() -> None:
    """Write every row anew, each chunk as it is; what was there is overwritten."""
    op.add_column("chunks", sa.Column("shift", sa.Integer(), nullable=False, server_default="0"))
    if op.get_context().dialect.name != "sqlite":  # nobody has kept people in PostgreSQL before this version
        op.drop_table("history")
        _make_history()
        return
    connection = op.get_bind()
    connection.exec_driver_sql("PRAGMA secure_delete = ON")
    op.rename_table("history", "history_of_persons")
    _make_history()
    query = "SELECT (SELECT max(id) FROM persons) * (SELECT count(*) FROM features)"
    pairs = connection.exec_driver_sql(query).scalar() or 0
    shift = min(SHIFT_MAX, int(pairs // ROWS_PER_CHUNK).bit_length())
    connection.exec_driver_sql("UPDATE chunks SET shift = ?", (shift,))
    _move(connection, shift)
    op.drop_table("history_of_persons")


def _make_history() -> None:
    op.create_table(
        "history",
        sa.Column("feature", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bucket", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("entries", sa.LargeBinary(), nullable=False),
        sa.Column("entry_values", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("feature", "chunk", "bucket"),
        sqlite_with_rowid=False,
    )


def _move(connection: sa.Connection, shift: int) -> None:
    driver: Any = connection.connection.driver_connection
    rows = driver.execute(
        "SELECT feature, chunk, person, entries, entry_values FROM history_of_persons ORDER BY feature, chunk, person"
    )
    query = "INSERT INTO history (feature, chunk, bucket, entries, entry_values) VALUES (?, ?, ?, ?, ?)"
    driver.executemany(query, _buckets(rows, shift))


def _buckets(rows: Iterable[tuple[Any, ...]], shift: int) -> Iterator[tuple[Any, ...]]:
    """The rows as they are written now, those of persons in a row with the same bucket as one."""
    for key, found in groupby(rows, lambda row: (row[0], row[1], row[2] >> shift)):
        written, lines = bytearray(), bytearray()
        has_values = False
        for _, _, person, entries, values in found:
            number = person.to_bytes(PERSON_BYTES, "little")
            for at in range(0, len(entries), ENTRY_BYTES):
                written += number + entries[at : at + ENTRY_BYTES]
            has_values = values is not None
            lines += values or b""
        yield *key, written, lines if has_values else None
