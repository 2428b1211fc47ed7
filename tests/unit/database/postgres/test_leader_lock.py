"""One process of a role at a time on a database, and nothing is written by one that had its turn before."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from hookline.bench.machine import wait_until
from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.postgres.installation import TABLES
from hookline.database.postgres.leader_lock import LeaderLock
from hookline.database.sqlite import DatabaseAway
from tests.postgres import TEMPLATE, PostgresServer

WAIT_SECONDS = 30.0
KEEPER = """
import signal, sys
from hookline.database.postgres import leader_lock as turns
turns.STILL_SECONDS_MAX = float(sys.argv[2])
turn = turns.LeaderLock(sys.argv[1], "profiles")
print(turn.take(), flush=True)
turn.keep()
while True:
    signal.pause()
"""
# Nobody looks after its turn, so that it learns of a loss by what it writes alone.
WRITER = """
import sys
from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.postgres import pool
from hookline.database.postgres.leader_lock import LeaderLock
pool.TRANSACTION_IDLE_SECONDS_MAX = 1.0
turn = LeaderLock(sys.argv[1], "control")
print(turn.take(), flush=True)
connection = connect(Schema(sys.argv[1], "control"))
for line in sys.stdin:
    try:
        connection.execute(line)
        print("done", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""
END_THE_HOLDER = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
END_THE_TURN = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookline control turn'"
INSERT = "INSERT INTO source_activity (source, last_event_at) VALUES ('{}', 1)"
COUNT = "SELECT count(*) FROM hookline_control.source_activity"


class Writer:
    """A control's process that has the turn, and writes what it is told to."""

    def __init__(self, url: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", WRITER, url], stdin=pipe, stdout=pipe, text=True)
        assert self._line() == "True"

    def run(self, statement: str) -> str:
        """What comes of a statement: ``done``, or the error's name."""
        assert self.process.stdin is not None
        print(statement, file=self.process.stdin, flush=True)
        return self._line()

    def close(self) -> None:
        """End it."""
        with self.process:
            self.process.kill()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """A database with its schemas, which nobody has used."""
    with postgres.database(TEMPLATE) as made:
        postgres.run(made, TABLES)
        yield made


@contextmanager
def new_keeper(url: str, still_seconds_max: float = 60.0) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has taken the turn of profiles and looks after it."""
    command = [sys.executable, "-c", KEEPER, url, str(still_seconds_max)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as keeper:
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline() == b"True\n"
            yield keeper
        finally:
            keeper.kill()


def test_each_role_has_one_at_a_time(url: str) -> None:
    """The next one has it as soon as it is let go; a control is in nobody's way but another control's."""
    with closing(LeaderLock(url, "control")) as first, closing(LeaderLock(url, "control")) as second:
        with closing(LeaderLock(url, "profiles")) as other:
            assert (first.take(), second.take(), other.take()) == (True, False, True)
        first.close()
        wait_until(second.take, WAIT_SECONDS, "the next one has it")


def test_whoever_had_it_has_it_again_after_an_outage(postgres: PostgresServer, url: str) -> None:
    """Nobody else asked meanwhile."""
    with closing(LeaderLock(url, "profiles")) as turn, closing(LeaderLock(url, "profiles")) as other:
        assert turn.take()
        turn.keep()
        postgres.stop(signal.SIGQUIT)
        try:
            with pytest.raises(DatabaseAway):
                other.take()
        finally:
            postgres.start()
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        wait_until(lambda: postgres.run(url, held) == [(1,)], WAIT_SECONDS, "the lock is taken again")
        assert not other.take()


def test_whoever_lost_it_to_another_ends(postgres: PostgresServer, url: str) -> None:
    """Two would write over each other."""
    with new_keeper(url) as keeper, closing(LeaderLock(url, "profiles")) as other:

        def taken_from_it() -> bool:
            postgres.run(url, END_THE_HOLDER)
            return other.take()

        wait_until(taken_from_it, WAIT_SECONDS, "another one has it")
        assert keeper.wait(WAIT_SECONDS) == -signal.SIGTERM


def test_whoever_stands_still_loses_it(url: str) -> None:
    """A machine that hangs keeps its connections; when it goes on it finds another one at work, and ends."""
    with new_keeper(url, still_seconds_max=1.0) as keeper, closing(LeaderLock(url, "profiles")) as other:
        keeper.send_signal(signal.SIGSTOP)
        wait_until(other.take, WAIT_SECONDS, "another one has it")
        keeper.send_signal(signal.SIGCONT)
        assert keeper.wait(WAIT_SECONDS) == -signal.SIGTERM


def test_whoever_lost_it_writes_nothing(postgres: PostgresServer, url: str) -> None:
    """Stopped, taken over and resumed, it is refused inside the database, before it has noticed anything itself."""
    with closing(Writer(url)) as old, closing(LeaderLock(url, "control")) as new:
        for schema in ("control", "insights", "privacy"):
            assert old.run(f"CREATE TABLE hookline_{schema}.mine (id INTEGER)") == "done"
        old.process.send_signal(signal.SIGSTOP)
        postgres.run(url, END_THE_TURN)
        wait_until(new.take, WAIT_SECONDS, "another one has it")
        old.process.send_signal(signal.SIGCONT)
        assert [old.run(INSERT.format("a")), old.run("BEGIN IMMEDIATE")] == ["LeaderLockLost", "LeaderLockLost"]
        assert old.run("SELECT 1") == "done"
        with closing(connect(Schema(url, "control"))) as connection:
            connection.execute(INSERT.format("b"))
    assert postgres.run(url, COUNT) == [(1,)]


def test_a_transaction_that_was_open_ends_before_the_next_one_has_the_turn(postgres: PostgresServer, url: str) -> None:
    """What the old one began can no longer be committed once the new one reads."""
    with closing(Writer(url)) as old, closing(LeaderLock(url, "control")) as new:
        assert [old.run("BEGIN IMMEDIATE"), old.run(INSERT.format("a"))] == ["done", "done"]
        old.process.send_signal(signal.SIGSTOP)
        postgres.run(url, END_THE_TURN)
        wait_until(new.take, WAIT_SECONDS, "another one has it")
        old.process.send_signal(signal.SIGCONT)
        assert old.run("COMMIT") == "DatabaseAway"
    assert postgres.run(url, COUNT) == [(0,)]


def test_a_turn_that_others_had_meanwhile_is_not_taken_again(postgres: PostgresServer, url: str) -> None:
    """What is in memory is older than what they wrote, although nobody has it now."""
    with closing(LeaderLock(url, "control")) as first:
        assert first.take()
        postgres.run(url, END_THE_TURN)
        with closing(LeaderLock(url, "control")) as second:
            wait_until(second.take, WAIT_SECONDS, "another one has it")
        with pytest.raises(DatabaseAway):
            first.take()
        assert not first.take()
