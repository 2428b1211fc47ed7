"""Databases for the tests of rooms that keep something: each test once on SQLite and once on PostgreSQL. And running
control roles: one of its own for a test that changes something, one shared by those that only ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hookline.database.location import DatabaseLocation, Schema, Which
from hookline.database.outages import OUTAGES
from hookline.settings import Database
from tests.postgres import TEMPLATE, PostgresServer
from tests.unit.control.running import Running

LocationOf = Callable[[Which], DatabaseLocation]


@pytest.fixture(autouse=True)
def troubles_end() -> Iterator[None]:
    """What a test did to a database is no trouble of the process's next test."""
    yield
    OUTAGES._open.clear()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server, and the template that databases are made from."""
    server = PostgresServer(in_memory=True)
    try:
        server.make_template()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> PostgresServer | None:
    """The server, None for SQLite."""
    server: PostgresServer | None = request.getfixturevalue("postgres") if request.param == "postgres" else None
    return server


@pytest.fixture
def location_of(backend: PostgresServer | None, tmp_path: Path) -> Iterator[LocationOf]:
    """Where the test's databases are: files of ``tmp_path`` that are not made yet, or empty schemas."""
    with new_places(backend, folder=tmp_path) as places:
        yield places


@pytest.fixture
def database(backend: PostgresServer | None) -> Iterator[Database]:
    """The settings that lead to the test's databases, in the data folder or in PostgreSQL."""
    with new_places(backend) as places:
        place = places("control")
        yield Database(url=place.url if isinstance(place, Schema) else "local")


@pytest.fixture
def bare_location_of(backend: PostgresServer | None, tmp_path: Path) -> Iterator[LocationOf]:
    """Where databases will be: neither files nor schemas are there yet."""
    with new_places(backend, template="template0", folder=tmp_path) as places:
        yield places


@contextmanager
def new_places(
    backend: PostgresServer | None, template: str = TEMPLATE, folder: Path | None = None
) -> Iterator[LocationOf]:
    """Databases that nobody else has; files are in ``folder``, or in one that goes with them."""
    if backend is None:
        with TemporaryDirectory() as own:
            yield lambda which: (folder or Path(own)) / f"{which}.db"
    else:
        with backend.database(template) as url:
            yield lambda which: Schema(url, which)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Running]:
    """Control on an empty data folder."""
    with Running(tmp_path / "data") as running:
        yield running


@pytest.fixture
def control_on_both(tmp_path: Path, database: Database) -> Iterator[Running]:
    """Control on empty databases, once in files and once in PostgreSQL."""
    with Running(tmp_path / "data", database_url=database.url) as running:
        yield running


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Control that many tests ask and none changes."""
    with Running(tmp_path_factory.mktemp("asked") / "data") as running:
        yield running
