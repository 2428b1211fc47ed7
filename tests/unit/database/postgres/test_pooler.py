"""PgBouncer between Hookline and the server: a pool that keeps sessions works, one that does not is refused."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from hookline.bench.machine import wait_until
from hookline.database.connect import connect
from hookline.database.installation import verify_installation, wait_for_database
from hookline.database.location import Schema, Which
from hookline.database.migrate import is_current
from hookline.database.open import ensure
from hookline.database.outages import OUTAGES
from hookline.database.postgres import sessions
from hookline.database.postgres.installation import describe
from hookline.database.postgres.installation import verify_installation as verify_server
from hookline.database.postgres.leader_lock import LeaderLock
from hookline.database.sqlite import DatabaseAway, DatabaseUnusable, OperationalError
from hookline.settings import Database, Settings
from tests.pgbouncer import PgBouncer
from tests.postgres import TEMPLATE, PostgresServer

WAIT_SECONDS = 60.0
INSERT = "INSERT INTO source_activity (source, last_event_at) VALUES (?, ?)"
COUNT = "SELECT count(*) FROM source_activity"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """An empty database."""
    with postgres.database() as made:
        yield made


@pytest.fixture
def pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """One that keeps sessions."""
    with PgBouncer(postgres) as running:
        yield running


def settings_of(folder: Path, url: str) -> Settings:
    """Settings of a data folder with this database."""
    return Settings(data_dir=str(folder), database=Database(url=url))


def begin(settings: Settings) -> None:
    """What a role does first."""
    verify_installation(settings)
    asyncio.run(wait_for_database(settings, asyncio.Event()))


def test_everything_goes_by_way_of_a_pool_that_keeps_sessions(url: str, pooler: PgBouncer, tmp_path: Path) -> None:
    """Meeting, making and migrating schemas, reading, writing and turns, each with what its session needs."""
    through = pooler.url(url)
    begin(settings_of(tmp_path, through))
    for which in get_args(Which):
        schema = Schema(through, which)
        ensure(schema, which)
        with closing(connect(schema, read_only=True)) as reader:
            assert is_current(reader, which)
            with pytest.raises(OperationalError, match="read-only transaction"):
                reader.execute("DELETE FROM alembic_version")
    with closing(connect(Schema(through, "control"))) as writer:
        writer.execute(INSERT, ("a", 1))
        told = [writer.execute(f"SHOW {name}").fetchone()[0] for name in ("lock_timeout", "client_encoding")]
        assert told == ["5s", "UTF8"]
    with closing(LeaderLock(through, "control")) as first, closing(LeaderLock(through, "control")) as second:
        assert (first.take(), second.take()) == (True, False)
    assert describe(settings_of(tmp_path, through)).startswith("PostgreSQL")


def test_a_session_takes_nothing_over_from_the_one_before(postgres: PostgresServer, url: str) -> None:
    """Where the pool resets nothing, a writer gets the session that a reader had, and writes."""
    with PgBouncer(postgres, server_reset_query="", default_pool_size="1") as pooler:
        schema = Schema(pooler.url(url), "control")
        ensure(Schema(url, "control"), "control")
        with closing(connect(schema, read_only=True)) as reader:
            assert reader.execute(COUNT).fetchone() == (0,)
        with closing(connect(schema, synchronous="NORMAL")) as writer:
            assert writer.execute("SHOW synchronous_commit").fetchone() == ("off",)
        with closing(connect(schema)) as writer:
            writer.execute(INSERT, ("a", 1))
            assert writer.execute("SHOW synchronous_commit").fetchone() == ("on",)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("round_robin", ["0", "1"])
def test_a_pool_that_keeps_no_sessions_is_refused(
    postgres: PostgresServer, url: str, tmp_path: Path, mode: str, round_robin: str
) -> None:
    """By the roles and by doctor, in a sentence that says what to set, before anything is set in sessions of others."""
    with PgBouncer(postgres, mode, server_round_robin=round_robin) as pooler:
        settings = settings_of(tmp_path, pooler.url(url))
        for ask in (verify_server, describe):
            with pytest.raises(DatabaseUnusable, match="set pool_mode = session"):
                ask(settings)
        assert postgres.run(pooler.url(url), "SHOW search_path") == [('"$user", public',)]


def killed(pooler: PgBouncer, _: str) -> None:
    pooler.stop(signal.SIGKILL)
    pooler.start()


def told_to_end(pooler: PgBouncer, _: str) -> None:
    pooler.stop(signal.SIGQUIT)
    pooler.start()


def reloaded(pooler: PgBouncer, _: str) -> None:
    pooler.tell("RELOAD")


def killed_at_the_console(pooler: PgBouncer, name: str) -> None:
    pooler.tell(f"KILL {name}")
    pooler.tell(f"RESUME {name}")


@pytest.mark.parametrize("what", [killed, told_to_end, reloaded, killed_at_the_console])
def test_a_pooler_that_restarts_is_not_noticed_between_two_statements(
    postgres: PostgresServer, url: str, what: Callable[[PgBouncer, str], None]
) -> None:
    """The next statement takes a new session."""
    ensure(Schema(url, "control"), "control")
    with PgBouncer(postgres) as pooler, closing(connect(Schema(pooler.url(url), "control"))) as connection:
        connection.execute(INSERT, ("a", 1))
        what(pooler, url.partition("?")[0].rpartition("/")[2])
        connection.execute(INSERT, ("b", 1))
        assert connection.execute(COUNT).fetchone() == (2,)


def test_a_pooler_without_a_server_is_one_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes newcomers although nobody is behind it: the outage ends once, when the server is back."""
    monkeypatch.setattr(sessions, "QUIET_SECONDS", 0.5)
    server = PostgresServer()
    try:
        server.make_template()
        with (
            PgBouncer(server, server_login_retry="1") as pooler,
            closing(connect(Schema(pooler.url(server.url(TEMPLATE)), "control"))) as connection,
        ):
            connection.execute(INSERT, ("a", 1))
            server.stop()
            ended = OUTAGES.ended
            for _ in range(20):
                with pytest.raises(DatabaseAway):
                    connection.execute(COUNT)
            assert (OUTAGES.is_away, OUTAGES.ended) == (True, ended)
            server.start()
            wait_until(lambda: not OUTAGES.is_away, WAIT_SECONDS, "it is seen that the server is back")
            assert connection.execute(COUNT).fetchone() == (1,)
            assert OUTAGES.ended == ended + 1
    finally:
        server.remove()


def test_a_pooler_that_pauses_is_waited_for_no_longer_than_a_server_that_is_silent(
    postgres: PostgresServer, url: str, pooler: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs a new session fails while there is none, and goes on after RESUME."""
    monkeypatch.setattr(sessions, "QUIET_SECONDS", 0.2)
    ensure(Schema(url, "control"), "control")
    postgres.run(pooler.url(url), "SELECT 1")
    pooler.tell("PAUSE")
    with closing(connect(Schema(pooler.url(url), "control"))) as connection:
        with pytest.raises(DatabaseAway, match="no session"):
            connection.execute(COUNT)
        pooler.tell("RESUME")
        wait_until(lambda: not OUTAGES.is_away, WAIT_SECONDS, "it is seen that it goes on")
        assert connection.execute(COUNT).fetchone() == (0,)
