"""URLs of several hosts, one of them a standby: both readers and writers come to the server that can be written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.installation import verify_installation
from hookline.database.location import Schema
from hookline.database.postgres.installation import describe
from hookline.database.postgres.leader_lock import LeaderLock
from hookline.database.sqlite import DatabaseUnusable, OperationalError
from hookline.settings import Database, Settings
from tests.postgres import PostgresServer


@pytest.fixture(scope="module")
def standby() -> Iterator[PostgresServer]:
    """A server that only reads, and waits for what a primary would send."""
    server = PostgresServer(in_memory=True)
    try:
        server.stop()
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        yield server
    finally:
        server.remove()


def url_of(servers: list[PostgresServer], target: str = "") -> str:
    """A URL of several hosts, which are asked in this order."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://hookline@{hosts}/postgres" + (target and f"?target_session_attrs={target}")


@pytest.mark.parametrize("target", ["", "any", "read-write", "primary"])
def test_the_server_that_can_be_written_to_is_found(
    postgres: PostgresServer, standby: PostgresServer, tmp_path: Path, target: str
) -> None:
    """By readers too, which may not write all the same."""
    url = url_of([standby, postgres], target)
    settings = Settings(data_dir=str(tmp_path), database=Database(url=url))
    verify_installation(settings)
    assert describe(settings).startswith("PostgreSQL")
    for read_only in (False, True):
        with closing(connect(Schema(url, "control"), read_only=read_only)) as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
            assert connection.execute("SHOW transaction_read_only").fetchone() == ("on" if read_only else "off",)
    with closing(LeaderLock(url, "control")) as turn, pytest.raises(OperationalError, match=r"turns"):
        turn.take()  # there, and not met yet


@pytest.mark.parametrize("target", ["read-only", "standby", "prefer-standby"])
def test_a_url_that_asks_for_a_standby_is_refused(tmp_path: Path, target: str) -> None:
    """At once, in a sentence that says what to write."""
    with pytest.raises(DatabaseUnusable, match=f"target_session_attrs={target}, .* read-write or primary"):
        verify_installation(
            Settings(data_dir=str(tmp_path), database=Database(url=f"postgresql://a,b/c?target_session_attrs={target}"))
        )
