"""One process of a role at a time on a database."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from hookline.bench.waiting import wait_until
from hookline.database.postgres.turn import Turn
from hookline.database.sqlite import DatabaseAway
from tests.postgres import PostgresServer

WAIT_SECONDS = 30.0
KEEPER = """
import signal, sys
from hookline.database.postgres.turn import Turn
turn = Turn(sys.argv[1], "profiles")
print(turn.take(), flush=True)
turn.keep()
while True:
    signal.pause()
"""
END_THE_HOLDER = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """An empty database."""
    with postgres.database() as made:
        yield made


def test_each_role_has_one_at_a_time(url: str) -> None:
    """The next one has it as soon as it is let go; a control is in nobody's way but another control's."""
    with closing(Turn(url, "control")) as first, closing(Turn(url, "control")) as second:
        with closing(Turn(url, "profiles")) as other:
            assert (first.take(), second.take(), other.take()) == (True, False, True)
        first.close()
        wait_until(second.take, WAIT_SECONDS, "the next one has it")


def test_whoever_had_it_has_it_again_after_an_outage(postgres: PostgresServer, url: str) -> None:
    """Nobody else asked meanwhile."""
    with closing(Turn(url, "profiles")) as turn, closing(Turn(url, "profiles")) as other:
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
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with keeper, closing(Turn(url, "profiles")) as other:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"True\n"

        def taken_from_it() -> bool:
            postgres.run(url, END_THE_HOLDER)
            return other.take()

        wait_until(taken_from_it, WAIT_SECONDS, "another one has it")
        assert keeper.wait(WAIT_SECONDS) == -signal.SIGTERM
