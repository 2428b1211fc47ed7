"""One server for the tests of the kind postgres, and an empty database for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.unit.kinds.postgres.warehouse import Warehouse


@pytest.fixture(scope="package")
def warehouse_server() -> Iterator[PostgresServer]:
    """A running server."""
    server = PostgresServer(in_memory=True)
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def warehouse(warehouse_server: PostgresServer, tmp_path: Path) -> Iterator[Warehouse]:
    """A destination's database."""
    with warehouse_server.database() as url:
        yield Warehouse(warehouse_server, url, tmp_path)
