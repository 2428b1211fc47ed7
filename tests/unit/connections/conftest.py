"""A store on a real file, and feeds that follow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.connections.feed import Feed
from hookline.connections.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the control database is."""
    return tmp_path / "control.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """An empty store."""
    opened = Store(path, now_ms=lambda: 1_700_000_000_000)
    yield opened
    opened.close()


@pytest.fixture
def feed(path: Path) -> Iterator[Feed]:
    """A feed of the store's file."""
    opened = Feed(path)
    yield opened
    opened.close()
