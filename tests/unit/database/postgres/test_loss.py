"""A server that goes and comes back, and connections that are few."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from hookline.bench.machine import wait_until
from hookline.database.connect import connect
from hookline.database.connection import transaction
from hookline.database.location import Schema
from hookline.database.outages import OUTAGES
from hookline.database.postgres import pool as pool_module
from hookline.database.postgres import sessions
from hookline.database.postgres.connection import PostgresConnection
from hookline.database.postgres.pool import CONNECTIONS_MAX, Kind, Real, join
from hookline.database.sqlite import DatabaseAway, DatabaseLocked, OperationalError
from tests.postgres import TEMPLATE, PostgresServer

INSERT = "INSERT INTO source_activity (source, last_event_at) VALUES (?, ?)"
COUNT = "SELECT count(*) FROM source_activity"
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def schema(postgres: PostgresServer) -> Iterator[Schema]:
    """An empty control database."""
    with postgres.database(TEMPLATE) as url:
        yield Schema(url, "control")


def signal_all(server: PostgresServer, number: signal.Signals) -> None:
    """Send a signal to the server and to the processes of its sessions."""
    assert server.process is not None
    main = server.process.pid
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pid, parent = int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
            if main in (pid, parent):
                os.kill(pid, number)


def end_sessions(postgres: PostgresServer) -> None:
    """End everybody's connections but the one that does it."""
    postgres.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'hookline%'")


def test_a_lost_connection_is_not_noticed_between_two_statements(postgres: PostgresServer, schema: Schema) -> None:
    """Reading, writing and beginning take a new one."""
    with closing(connect(schema)) as connection:
        for number, sql in enumerate((INSERT, INSERT)):
            connection.execute(sql, (str(number), 1))
            end_sessions(postgres)
        assert connection.execute(COUNT).fetchone() == (2,)
        end_sessions(postgres)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, ("x", 1))
        connection.execute("COMMIT")
        assert connection.execute(COUNT).fetchone() == (3,)


def test_connections_that_broke_at_rest_are_as_many_as_there_are(
    postgres: PostgresServer, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads give back what they had when the server went, one after another; a statement fails for none."""
    pool = join(Kind(schema, read_only=True, synchronous="FULL"))
    with closing(PostgresConnection(pool)) as connection:
        held = [pool.borrow() for _ in range(CONNECTIONS_MAX)]
        end_sessions(postgres)
        pool.give_back(held.pop())
        close_idle = pool.close_idle

        def close_idle_before_another_is_given_back() -> None:
            close_idle()
            if held:
                pool.give_back(held.pop())

        monkeypatch.setattr(pool, "close_idle", close_idle_before_another_is_given_back)
        assert connection.execute(COUNT).fetchone() == (0,)
        assert not held


def test_a_new_connection_that_breaks_too_is_the_last(postgres: PostgresServer, schema: Schema) -> None:
    """A statement that ends each session that asks it is asked again once."""
    asked = []

    def work(real: Real) -> psycopg.Cursor[object]:
        asked.append(real)
        end_sessions(postgres)
        return real.execute(COUNT)

    with closing(PostgresConnection(join(Kind(schema, read_only=True, synchronous="FULL")))) as connection:
        assert connection.execute(COUNT).fetchone() == (0,)
        with pytest.raises(DatabaseAway):
            connection._begin_with(work)
    assert [real.has_rested for real in asked] == [True, False]


def test_a_transaction_that_loses_its_connection_fails_as_a_whole(postgres: PostgresServer, schema: Schema) -> None:
    """It is over, nothing of it is there, and the next one works."""
    with closing(connect(schema)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, ("a", 1))
        end_sessions(postgres)
        with pytest.raises(OperationalError):
            connection.execute(INSERT, ("b", 1))
        assert not connection.in_transaction
        connection.execute(INSERT, ("c", 1))
        assert connection.execute(COUNT).fetchone() == (1,)


def test_a_transaction_that_stands_still_keeps_nobody_from_writing(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends it, another writer has its turn; who stood still fails as a whole and can go on."""
    monkeypatch.setattr(pool_module, "TRANSACTION_IDLE_SECONDS_MAX", 1.0)
    with closing(connect(schema)) as still, closing(connect(schema)) as other:
        still.execute("BEGIN IMMEDIATE")
        still.execute(INSERT, ("a", 1))
        other.execute(INSERT, ("b", 1))
        with pytest.raises(DatabaseAway):
            still.execute("COMMIT")
        assert not still.in_transaction
        still.execute(INSERT, ("c", 1))
        assert other.execute(COUNT).fetchone() == (2,)


def test_one_that_stands_still_behind_many_statements_at_once_keeps_nobody_from_writing_either(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not count the time behind such a series; whoever waits in vain ends it."""
    monkeypatch.setattr(pool_module, "BUSY_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(pool_module, "TRANSACTION_IDLE_SECONDS_MAX", 1.0)
    with closing(connect(schema)) as still, closing(connect(schema)) as other:
        still.execute("BEGIN IMMEDIATE")
        still.executemany(INSERT, [(str(number), 1) for number in range(5)])

        def write() -> bool:
            with contextlib.suppress(OperationalError):
                other.execute(INSERT, ("b", 1))
                return True
            return False

        assert not write()
        wait_until(write, 30, "the other one has written")
        with pytest.raises(DatabaseAway):
            still.execute("COMMIT")
        assert other.execute(COUNT).fetchone() == (1,)


def test_who_waits_for_its_turn_in_vain_uses_no_connection_up(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often that is: once the other one has written, the next one can."""
    monkeypatch.setattr(pool_module, "BUSY_TIMEOUT_SECONDS", 0.1)
    with closing(connect(schema, synchronous="NORMAL")) as writing, closing(connect(schema)) as waiting:
        with transaction(writing):
            for _ in range(CONNECTIONS_MAX + 1):
                with pytest.raises(DatabaseLocked, match="lock timeout"):
                    waiting.execute("BEGIN IMMEDIATE")
        waiting.execute(INSERT, ("a", 1))
        assert waiting.execute(COUNT).fetchone() == (1,)


def test_who_waited_for_its_turn_sees_what_was_written_meanwhile(postgres: PostgresServer, schema: Schema) -> None:
    """Also where an administrator has made it the database's default that a transaction sees one moment: the epochs
    by which old owners are kept from writing are read in it."""
    name = schema.url.partition("@/")[2].partition("?")[0]
    postgres.admin(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")

    def seen() -> object:
        with closing(connect(schema)) as other, transaction(other) as execute:
            return execute(COUNT).fetchone()

    with closing(connect(schema)) as first, ThreadPoolExecutor(1) as thread:
        with transaction(first) as execute:
            execute(INSERT, ("a", 1))
            waiting = thread.submit(seen)
            wait_until(lambda: postgres.run(schema.url, WAITS) == [(1,)], 30, "the other one waits for its turn")
        assert waiting.result(30) == (1,)


def test_a_transaction_after_an_error_does_not_commit(schema: Schema) -> None:
    """PostgreSQL would answer COMMIT with a rollback and no error."""
    with closing(connect(schema)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, ("a", 1))
        with pytest.raises(Exception, match="unique"):
            connection.execute(INSERT, ("a", 1))
        with pytest.raises(OperationalError, match="nothing of it was written"):
            connection.execute("COMMIT")
        assert not connection.in_transaction
        assert connection.execute(COUNT).fetchone() == (0,)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_server_that_restarts(how: signal.Signals) -> None:
    """While it is away every statement fails and says so; what was committed is there afterwards, after a crash too."""
    server = PostgresServer()
    try:
        server.make_template()
        with closing(connect(Schema(server.url(TEMPLATE), "control"))) as connection:
            connection.execute(INSERT, ("a", 1))
            server.stop(how)
            for sql in (COUNT, "BEGIN IMMEDIATE"):
                with pytest.raises(DatabaseAway):
                    connection.execute(sql)
                assert not connection.in_transaction
            assert OUTAGES.is_away
            server.start()
            wait_until(lambda: not OUTAGES.is_away, 60, "it is seen that the server is back")
            assert connection.execute(COUNT).fetchone() == (1,)
    finally:
        server.remove()


def test_a_server_that_is_frozen_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It closes nothing, but takes no new connection; a statement that takes long while it lives is waited for."""
    monkeypatch.setattr(sessions, "QUIET_SECONDS", 0.2)
    server = PostgresServer()
    try:
        server.make_template()
        with closing(connect(Schema(server.url(TEMPLATE) + "&connect_timeout=2", "control"))) as connection:
            assert connection.execute("SELECT 1 FROM pg_sleep(1)").fetchone() == (1,)
            signal_all(server, signal.SIGSTOP)
            with pytest.raises(DatabaseAway):
                connection.execute(COUNT)
            assert OUTAGES.is_away
            signal_all(server, signal.SIGCONT)
            wait_until(lambda: not OUTAGES.is_away, 60, "it is seen that the server is back")
            assert connection.execute(COUNT).fetchone() == (0,)
    finally:
        signal_all(server, signal.SIGCONT)
        server.remove()


def test_connections_are_few(postgres: PostgresServer, schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many stores and threads there are; who needs one more than there may be waits, and not for ever."""
    monkeypatch.setattr(pool_module, "CONNECTIONS_MAX", 2)
    opened = [connect(schema, read_only=True) for _ in range(20)]
    threads = [threading.Thread(target=lambda each=each: each.execute(COUNT).fetchall()) for each in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hookline control'"
    assert postgres.admin(query)[0][0] <= 2
    for each in opened[:2]:
        each.execute("BEGIN")
    monkeypatch.setattr(pool_module, "BUSY_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(DatabaseLocked, match="all 2 connections"):
        opened[2].execute("BEGIN")
    opened[0].execute("COMMIT")
    assert opened[2].execute(COUNT).fetchone() == (0,)
    for each in opened:
        each.close()


def test_writers_take_turns(schema: Schema) -> None:
    """Transactions that read before they write lose nothing of each other."""
    with closing(connect(schema)) as connection:
        connection.execute(INSERT, ("a", 0))

    def count_up() -> None:
        with closing(connect(schema)) as own:
            for _ in range(20):
                own.execute("BEGIN IMMEDIATE")
                ((value,),) = own.execute("SELECT last_event_at FROM source_activity").fetchall()
                own.execute("UPDATE source_activity SET last_event_at = ?", (value + 1,))
                own.execute("COMMIT")

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with closing(connect(schema)) as connection:
        assert connection.execute("SELECT last_event_at FROM source_activity").fetchone() == (80,)
