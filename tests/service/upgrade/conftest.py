"""Services whose tables are made to look older or newer than this version's, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from hookline.database.location import Which
from hookline.database.migrate import HEADS
from tests.postgres import PostgresServer
from tests.service.harness import Hookline


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgresServer]:
    """A server, started once."""
    server = PostgresServer(in_memory=True)
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the service's databases are."""
    if request.param == "sqlite":
        yield "local"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as url:
        yield url


@pytest.fixture
def service(database_url: str, new_hookline: Callable[..., Hookline]) -> Callable[..., Hookline]:
    """Make a service on the test's database (not started); it is ended with the test."""

    def make(*destinations: dict[str, Any], **more: Any) -> Hookline:
        settings = {"database.url": database_url, "log.format": "json"}
        return new_hookline(*destinations, settings=settings, **more)

    return make


def change(hookline: Hookline, which: Which, *statements: str) -> None:
    """Do what another version of Hookline does to a database."""
    url = str(hookline.settings.get("database.url", "local"))
    if url == "local":
        with closing(sqlite3.connect(hookline.data / f"{which}.db", isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    import psycopg

    with psycopg.connect(url, autocommit=True, options=f"-c search_path=hookline_{which}") as connected:
        for statement in statements:
            connected.execute(statement.encode())


@contextmanager
def newer(hookline: Hookline, which: Which, change_to: str, change_back: str) -> Iterator[None]:
    """A newer version has changed a database, as long as this is entered."""
    change(hookline, which, change_to, f"UPDATE alembic_version SET version_num = '{which}_0099'")
    try:
        yield
    finally:
        number = f"{which}_{HEADS[which]:04}"
        change(hookline, which, change_back, f"UPDATE alembic_version SET version_num = '{number}'")
