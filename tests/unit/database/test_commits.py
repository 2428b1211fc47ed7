"""What a data folder knows of its last commits, in files and in PostgreSQL: one that is gone is noticed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database import commits as module
from hookline.database.commits import FILE, Commits, DatabaseWentBack, Highest, begin_counting, commits_of, found_behind
from hookline.database.connect import connect
from hookline.database.open import count_commits, ensure
from hookline.database.place import place_of
from hookline.settings import Database, Settings
from tests.postgres import PostgresServer

WHENEVER = 1e12


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Each test is a process of its own."""
    module._commits.clear()
    yield
    module._commits.clear()


@pytest.fixture(params=["files", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer) -> Iterator[Settings]:
    """An installation with counted commits to the control database."""
    if request.param == "files":
        yield Settings(data_dir=str(tmp_path))
        return
    with postgres.database() as url:
        postgres.run(url, f"CREATE SCHEMA hookline; {COUNTS}")
        yield Settings(data_dir=str(tmp_path), database=Database(url=url))


def begin(settings: Settings) -> Commits:
    """As a process that starts."""
    module._commits.clear()
    count_commits(settings, "control")
    commits = commits_of(place_of(settings, "control"))
    assert commits is not None
    return commits


def write(settings: Settings) -> None:
    """Commit something."""
    with closing(connect(place_of(settings, "control"))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO replay_changes (id, next) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET next = 2")
        connection.execute("COMMIT")
