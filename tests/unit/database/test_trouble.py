"""One rule for what a database refuses: each error is of a kind, said once when it begins and when it is over."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hookline.bench.machine import wait_until
from hookline.database import outages, sqlite
from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.open import ensure
from hookline.database.outages import Outages
from hookline.database.postgres.requirements import troubles
from hookline.database.sqlite import (
    DatabaseAway,
    DatabaseBroken,
    DatabaseFailing,
    DatabaseForbidden,
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseSlow,
    FileConnection,
)
from tests.postgres import TEMPLATE, PostgresServer

ADD = "INSERT INTO source_activity (source, last_event_at) VALUES (?, ?)"
CODES: dict[str, type[DatabaseAway]] = {
    "57P01": DatabaseAway,
    "53300": DatabaseAway,
    "55P03": DatabaseLocked,
    "40P01": DatabaseLocked,
    "57014": DatabaseSlow,
    "53100": DatabaseFull,
    "53200": DatabaseFull,
    "25006": DatabaseReadOnly,
    "42501": DatabaseForbidden,
    "42P01": DatabaseForbidden,
    "58030": DatabaseFailing,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the tables of control."""
    ensure(tmp_path / "control.db", "control")
    return tmp_path / "control.db"


def lock(connection: FileConnection) -> FileConnection:
    """Have another program write and never end."""
    connection.execute("PRAGMA busy_timeout = 0")
    holder = sqlite.connect(connection.path)
    holder.execute("BEGIN EXCLUSIVE")
    return holder


def fill(connection: FileConnection) -> None:
    """Have no room for another page, as on a full disk."""
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()


def write_protect(connection: FileConnection) -> None:
    """Take no writes, as with a file whose mode was changed."""
    connection.execute("PRAGMA query_only = ON")


FILE_TROUBLES: dict[type[DatabaseAway], Callable[[FileConnection], FileConnection | None]] = {
    DatabaseLocked: lock,
    DatabaseFull: fill,
    DatabaseReadOnly: write_protect,
}


@pytest.mark.parametrize("kind", FILE_TROUBLES)
def test_what_a_file_refuses_is_of_a_kind(kind: type[DatabaseAway], path: Path) -> None:
    """Whoever writes meets the kind, with the file's name; all of them are DatabaseAway."""
    with closing(sqlite.connect(path)) as connection:
        holder = FILE_TROUBLES[kind](connection)
        with pytest.raises(kind, match=r"control\.db: "):
            connection.cursor().executemany(ADD, [(f"s{n}" * 1_000, n) for n in range(100)])
        if holder is not None:
            holder.close()


def test_a_file_that_cannot_be_opened_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    """Forbidden is what is there: nobody takes that for a database that was not made yet."""
    (tmp_path / "there.db").mkdir()
    with pytest.raises(DatabaseForbidden):
        sqlite.connect(tmp_path / "there.db")
    with pytest.raises(sqlite.OperationalError) as missing:
        sqlite.connect(tmp_path / "missing.db")
    assert not isinstance(missing.value, DatabaseAway)


def test_a_damaged_file_is_broken_and_named(path: Path) -> None:
    """Waiting does not help, and the sentence says which file it is and what to do; also where rows are being read."""
    with closing(sqlite.connect(path)) as connection:
        connection.executemany(ADD, [(f"s{n}" * 100, n) for n in range(1_000)])
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(path.stat().st_size // 2))
    with closing(sqlite.connect(path)) as connection, pytest.raises(DatabaseBroken, match=f"{path} is damaged"):
        list(connection.execute("SELECT * FROM source_activity"))


def test_text_that_is_none_is_damage(path: Path) -> None:
    """SQLite returns what a damaged page has for text, and only Python finds that it is not."""
    with closing(sqlite.connect(path)) as connection:
        connection.execute("INSERT INTO source_activity (source, last_event_at) VALUES (CAST(x'ff' AS TEXT), 1)")
        with pytest.raises(DatabaseBroken, match=f"{path} is damaged .Could not decode"):
            connection.execute("SELECT source FROM source_activity").fetchall()


@pytest.mark.parametrize("code", CODES)
def test_what_a_server_refuses_is_of_a_kind(code: str, postgres: PostgresServer) -> None:
    """By the code of the server's error, inside of a transaction and outside."""
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$"
    with postgres.database(TEMPLATE) as url, closing(connect(Schema(url, "control"))) as connection:
        for begin in ("SELECT 1", "BEGIN IMMEDIATE"):
            connection.execute(begin)
            with pytest.raises(DatabaseAway, match="no") as met:
                connection.execute(raising)
            assert type(met.value) is CODES[code]


def test_who_reads_waits_for_a_lock_a_moment_only(postgres: PostgresServer) -> None:
    """An event loop that polls a locked table goes on: what it met is a lock, not a server that is away."""
    with postgres.database(TEMPLATE) as url, closing(connect(Schema(url, "control"))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("LOCK TABLE versions IN ACCESS EXCLUSIVE MODE")
        with closing(connect(Schema(url, "control"), read_only=True)) as reader:
            with pytest.raises(DatabaseLocked):
                reader.execute("SELECT * FROM versions")
            assert reader.execute("SHOW lock_timeout").fetchone() == ("200ms",)
            assert reader.execute("SELECT count(*) FROM control_ready").fetchone() == (0,)


def test_one_line_when_it_begins_and_one_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is met; another kind, or another database, has lines of its own."""
    monkeypatch.setattr(outages, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(outages, "POLL_SECONDS", 0.01)
    found = Outages()
    with capture_logs() as lines:
        for _ in range(100):
            found.note("db one", DatabaseLocked("waited for too long"))
        found.note("db two", DatabaseReadOnly("cannot execute INSERT"))
        assert found.gauge() == {"kind": {"locked": 1, "read_only": 1}}
        wait_until(lambda: not found.current(), 10, "nobody meets them any more")
    said = sorted((line["event"], line["database"]) for line in lines if line["database"].startswith("db "))
    back = [("database_back", "db one"), ("database_back", "db two")]
    assert said == [*back, ("database_locked", "db one"), ("database_read_only", "db two")]


def test_what_can_be_asked_lasts_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quiet alone does not end what the server still says of itself."""
    monkeypatch.setattr(outages, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(outages, "POLL_SECONDS", 0.01)
    found, asked = Outages(), iter([True, True, True, False])
    found.note("hookline_control", DatabaseReadOnly("cannot execute INSERT"), lambda kind: next(asked))
    wait_until(lambda: not found.current(), 10, "it is over")
    assert list(asked) == []


def test_a_schema_says_what_is_wrong_with_it(postgres: PostgresServer) -> None:
    """A lock with who holds it, a missing right with what to give, a server that takes no writes; nothing otherwise."""
    with postgres.database(TEMPLATE) as url:
        name = url.partition("@/")[2].partition("?")[0]
        postgres.admin("CREATE ROLE poor LOGIN")
        try:
            schema, poor = Schema(url, "deliver"), Schema(url.replace("//hookline@", "//poor@"), "deliver")
            assert list(troubles(schema)) == []
            assert next(str(each) for each in troubles(poor)) == 'GRANT USAGE ON SCHEMA hookline_deliver TO "poor";'
            right = 'GRANT DELETE, INSERT, SELECT, UPDATE ON hookline_deliver.retries TO "poor";'
            assert right in [str(each) for each in troubles(poor)]
            with closing(connect(schema)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                holder.execute("LOCK TABLE retries IN ACCESS EXCLUSIVE MODE")
                (locked,) = troubles(schema)
                assert isinstance(locked, DatabaseLocked)
                assert "hookline_deliver.retries is locked by process" in str(locked)
            postgres.admin(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            assert [each.kind for each in troubles(schema)] == ["read_only"]
        finally:
            postgres.admin("DROP ROLE poor")
