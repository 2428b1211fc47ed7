"""Many rows at once: whatever their number, on both backends, the table holds what row by row would have brought."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from hookline.database.connect import ROWS_PER_STATEMENT, insert_many
from hookline.database.connection import Connection, overwriting
from hookline.database.open import open_profiles
from hookline.database.postgres.connection import COPY_ROWS_MIN
from hookline.database.sqlite import IntegrityError
from tests.unit.conftest import LocationOf

COUNTS = [0, 1, COPY_ROWS_MIN - 1, COPY_ROWS_MIN, 2 * ROWS_PER_STATEMENT, 2 * ROWS_PER_STATEMENT + 1]
HISTORY = ("feature", "chunk", "bucket", "entries", "entry_values")
BEHIND = (
    "ON CONFLICT (feature, chunk, bucket) DO UPDATE SET entries = CAST(history.entries || excluded.entries AS BLOB)"
)


@pytest.fixture
def connection(location_of: LocationOf) -> Iterator[Connection]:
    """An empty database of people."""
    with closing(open_profiles(location_of("profiles"))) as opened:
        yield opened


def write(
    connection: Connection, table: str, columns: tuple[str, ...], rows: list[tuple[object, ...]], conflict: str = ""
) -> None:
    """Write in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        insert_many(connection, table, columns, rows, conflict)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


@pytest.mark.parametrize("conflict", ["", overwriting(("id",), ("first_seen", "user_id", "traits"))])
@pytest.mark.parametrize("count", COUNTS)
def test_new_rows_are_there_as_they_were_given(connection: Connection, count: int, conflict: str) -> None:
    """Text with every odd character, bytes with all values, numbers of 64 bits and nothing."""
    texts = ["\0", "\\u0000", "\\N", "a\tb\nc\\", "\ue000\ue001", "'\"", "ü🙂", ""]
    rows = [(id, 2**62 + id, texts[id % len(texts)], bytes(range(256)) if id % 2 else None) for id in range(count)]
    write(connection, "persons", ("id", "first_seen", "user_id", "traits"), rows, conflict)
    assert connection.execute("SELECT id, first_seen, user_id, traits FROM persons ORDER BY id").fetchall() == rows


@pytest.mark.parametrize("count", COUNTS)
def test_rows_that_are_there_are_changed_as_the_clause_says(connection: Connection, count: int) -> None:
    """Twice in one transaction too: bytes grow by what comes."""
    rows = [(1, 1, bucket, bytearray(b"%d" % bucket), None) for bucket in range(count)]
    write(connection, "history", HISTORY, rows[: count // 2], BEHIND)
    write(connection, "history", HISTORY, rows, BEHIND)
    found = dict(connection.execute("SELECT bucket, entries FROM history"))
    assert found == {bucket: bytes(entries) * (2 if bucket < count // 2 else 1) for _, _, bucket, entries, _ in rows}


@pytest.mark.parametrize("count", COUNTS[1:])
def test_it_is_all_or_nothing(connection: Connection, count: int) -> None:
    """What has a key that is there fails as a whole; the connection goes on."""
    columns = ("group_id", "person", "since", "place")
    rows = [(f"g{number}", 1, 2, 3) for number in range(count)]
    write(connection, "memberships", columns, rows[-1:])
    with pytest.raises(IntegrityError):
        write(connection, "memberships", columns, rows)
    assert connection.execute("SELECT count(*) FROM memberships").fetchone() == (1,)
    write(connection, "memberships", columns, rows, overwriting(columns[:2], columns[2:]))
    assert connection.execute("SELECT count(*) FROM memberships").fetchone() == (count,)
