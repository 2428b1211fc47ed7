"""Running control roles: one of its own for a test that changes something, one shared by those that only ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.settings import Database
from tests.unit.control.running import Running


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
