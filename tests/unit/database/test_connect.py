"""What a connection promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from hookline.database.connect import (
    CACHE_KIB,
    change_mark,
    connect,
    empty_log,
    is_file,
    keep_few_pages,
    overwrite_deleted,
)
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.sqlite import IntegrityError, OperationalError
from tests.unit.conftest import LocationOf

INSERT = "INSERT INTO source_activity (source, last_event_at) VALUES (?, ?)"
ALL = "SELECT source, last_event_at FROM source_activity ORDER BY source"
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\0\ue000\ue001\ue002"))
WHOLE = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """An empty control database."""
    ensure(location_of("control"), "control")
    return location_of("control")


@pytest.fixture
def connection(location: DatabaseLocation) -> Iterator[Connection]:
    """A connection to it."""
    with closing(connect(location)) as opened:
        yield opened


def test_a_statement_by_itself_is_written(location: DatabaseLocation, connection: Connection) -> None:
    """Another connection sees it at once, and each statement says how many rows it changed."""
    assert connection.execute(INSERT, ("a", 1)).rowcount == 1
    assert connection.executemany(INSERT, [("b", 2), ("c", 3)]).rowcount == 2
    assert connection.execute("UPDATE source_activity SET last_event_at = 9 WHERE source > ?", ("a",)).rowcount == 2
    with closing(connect(location, read_only=True)) as other:
        assert other.execute(ALL).fetchall() == [("a", 1), ("b", 9), ("c", 9)]
    assert not connection.in_transaction


def test_a_transaction_is_seen_as_a_whole(location: DatabaseLocation, connection: Connection) -> None:
    """Nothing before its end; nothing at all when it is undone."""
    with closing(connect(location, read_only=True)) as other:
        for end, count in (("ROLLBACK", 0), ("COMMIT", 2)):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(INSERT, ("a", 1))
            connection.cursor().executemany(INSERT, [("b", 2)])
            assert connection.in_transaction
            assert other.execute(ALL).fetchall() == []
            connection.execute(end)
            assert not connection.in_transaction
            assert len(other.execute(ALL).fetchall()) == count


def test_one_moment_is_read(location: DatabaseLocation, connection: Connection) -> None:
    """Between BEGIN and COMMIT a reader sees nothing of what others write."""
    with closing(connect(location, read_only=True)) as other:
        other.execute("BEGIN")
        assert other.execute(ALL).fetchall() == []
        connection.execute(INSERT, ("a", 1))
        assert other.execute(ALL).fetchall() == []
        other.execute("COMMIT")
        assert other.execute(ALL).fetchall() == [("a", 1)]


def test_a_failed_statement_undoes_itself(connection: Connection) -> None:
    """By itself it leaves nothing open, and the connection goes on."""
    connection.execute(INSERT, ("a", 1))
    with pytest.raises(IntegrityError):
        connection.execute(INSERT, ("a", 2))
    with pytest.raises(IntegrityError):
        connection.executemany(INSERT, [("b", 1), ("a", 2)])
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM source_activity WHERE source = 'a'").fetchone() == (1,)


def test_a_reader_cannot_write(location: DatabaseLocation) -> None:
    """Nor can it begin to."""
    with closing(connect(location, read_only=True)) as reader, pytest.raises(OperationalError):
        reader.execute(INSERT, ("a", 1))


def test_rows_are_read_one_by_one_or_together(connection: Connection) -> None:
    """``fetchone``, iteration and ``fetchall`` go on where the last one ended."""
    connection.executemany(INSERT, [(name, 1) for name in "abcd"])
    found = connection.execute(ALL)
    assert found.fetchone() == ("a", 1)
    assert next(iter(found)) == ("b", 1)
    assert found.fetchall() == [("c", 1), ("d", 1)]
    assert found.fetchone() is None


def test_a_mark_tells_of_commits_of_others(location: DatabaseLocation, connection: Connection) -> None:
    """It stays while nothing is written, and moves with every commit."""
    with closing(connect(location, read_only=True)) as reader:
        before = change_mark(reader)
        assert change_mark(reader) == before
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, ("a", 1))
        assert change_mark(reader) == before or not reader.execute(ALL).fetchall()
        seen = change_mark(reader)
        connection.execute("COMMIT")
        assert change_mark(reader) not in (before, seen)


def test_text_is_ordered_by_its_bytes(connection: Connection) -> None:
    """As SQLite does, whatever the language of the server is."""
    names = ["a", "B", "ä", "Z", "z", "_", "é", "😀", "\ufffd"]
    connection.executemany(INSERT, [(name, 1) for name in names])
    found = [name for name, _ in connection.execute(ALL)]
    assert found == sorted(names, key=lambda name: name.encode())


@given(text=TEXTS, number=WHOLE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_come_back_as_they_were(connection: Connection, text: str, number: int) -> None:
    """Any text, U+0000 included, and any number of 64 bits; a text is found by itself."""
    connection.execute("DELETE FROM source_activity")
    connection.execute(INSERT, (text, number))
    assert connection.execute(ALL).fetchall() == [(text, number)]
    assert connection.execute("SELECT last_event_at FROM source_activity WHERE source = ?", (text,)).fetchone() == (
        number,
    )


@given(values=st.lists(st.integers(min_value=0, max_value=2**61), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_a_sum_is_a_whole_number(connection: Connection, values: list[int]) -> None:
    """Not a decimal one, as PostgreSQL would have it."""
    connection.execute("DELETE FROM source_activity")
    connection.executemany(INSERT, [(str(place), value) for place, value in enumerate(values)])
    ((total,),) = connection.execute("SELECT coalesce(sum(last_event_at / 4), 0) FROM source_activity").fetchall()
    assert (type(total), total) == (int, sum(value // 4 for value in values))


def test_bytes_and_nothing(connection: Connection) -> None:
    """Digests and absent values keep their types."""
    row = (bytes(range(256)), None, b"", 1, 2, None, "")
    connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    assert connection.execute("SELECT * FROM sessions").fetchall() == [row]


def test_closing_undoes_what_is_open(location: DatabaseLocation) -> None:
    """A connection that is let go in the middle leaves nothing, and may be closed twice."""
    opened = connect(location)
    opened.execute("BEGIN IMMEDIATE")
    opened.execute(INSERT, ("a", 1))
    opened.close()
    opened.close()
    with closing(connect(location)) as other:
        assert other.execute(ALL).fetchall() == []
        other.execute(INSERT, ("a", 1))


def test_what_only_files_need(connection: Connection) -> None:
    """Overwriting, emptying the log and keeping less in memory can be asked of both."""
    overwrite_deleted(connection)
    keep_few_pages(connection)
    if is_file(connection):
        assert connection.execute("PRAGMA cache_size").fetchone() == (-CACHE_KIB,)
    connection.execute(INSERT, ("a", 1))
    assert empty_log(connection)
