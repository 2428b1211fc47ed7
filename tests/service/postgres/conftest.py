"""Fixtures of the tests that run the service on PostgreSQL: one server for all of them, a database for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.service.harness import Hookline


@pytest.fixture(scope="package")
def running_server() -> Iterator[PostgresServer]:
    """A server, started once."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def server(running_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that runs; what a test stopped is started again after it."""
    yield running_server
    if running_server.process is None:
        running_server.start()


@pytest.fixture
def database_url(server: PostgresServer) -> Iterator[str]:
    """An empty database of the test's own."""
    with server.database() as url:
        yield url
        if server.process is None:
            server.start()


@pytest.fixture
def on_postgres(database_url: str, new_hookline: Callable[..., Hookline]) -> Callable[..., Hookline]:
    """Make a service on the test's database (not started); it is ended with the test."""

    def make(*destinations: dict[str, Any], **settings: Any) -> Hookline:
        return new_hookline(*destinations, settings={"database.url": database_url, **settings})

    return make
