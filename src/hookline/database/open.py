"""Bringing a database to the schema this version knows.

A new one is made aside, one that is up to date needs one look, an older one takes the steps that it lacks
(``migrate``), and a newer one is refused. The same goes for a schema of PostgreSQL (``postgres.schema``).
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from hookline.database import home
from hookline.database.commits import Commits, begin_counting, commits_of
from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation, Schema, Which, location_of
from hookline.database.migrate import migrate_file, naming, needs_migration, schema_number
from hookline.database.sqlite import DatabaseError, DatabaseUnusable, engine
from hookline.database.sqlite import connect as connect_file
from hookline.settings import Settings

FILE_MODE = 0o600
ENGINE_VERSION_MIN = (3, 51, 3)
"""Before it, two writers can corrupt a write-ahead log."""


def open_control(location: DatabaseLocation) -> Connection:
    """Open ``control.db`` for its one writer, made or migrated first where needed."""
    ensure(location, "control")
    return connect(location)


def open_deliver(location: DatabaseLocation) -> Connection:
    """Open ``deliver.db`` for its one writer, made or migrated first where needed."""
    ensure(location, "deliver")
    return connect(location)


def open_insights(location: DatabaseLocation) -> Connection:
    """Open ``insights.db`` for its one writer, made or migrated first where needed; a power cut may take back the last
    moments of it."""
    ensure(location, "insights")
    return connect(location, synchronous="NORMAL")


def open_profiles(location: DatabaseLocation) -> Connection:
    """Open the database of people for its one writer, made or migrated first where needed; a power cut may take back
    the last batches of it."""
    ensure(location, "profiles")
    return connect(location, synchronous="NORMAL")


def count_commits(settings: Settings, *names: Which) -> None:
    """Count what this process commits to these databases from now on, and say so where one is behind what this data
    folder had committed before."""
    for which in names:
        place = location_of(settings, which)
        if commits_of(place) is not None:
            continue
        ensure(place, which)
        commits = Commits(settings.data_path, which, is_shared=isinstance(place, Schema))
        if isinstance(place, Schema):
            from hookline.database.postgres.schema import begin_count

            begin_count(place, commits)
        else:
            with closing(connect(place, read_only=True)) as connection:
                ((number,),) = connection.execute("PRAGMA user_version").fetchall()
            commits.begin(number)
        begin_counting(place, commits)


def ensure(location: DatabaseLocation, which: Which) -> None:
    """Make the database at ``place`` hold the newest schema of ``which``; roles that start together take turns.

    Raise DatabaseTooNew for one of a newer version, DatabaseError for one that is not ours or cannot be migrated,
    DatabaseAway while somebody's lock or a full disk keeps it from being migrated.
    """
    if isinstance(location, Schema):
        from hookline.database.postgres.schema import ensure as ensure_schema

        ensure_schema(location)
    else:
        _ensure_file(location, which)


def _ensure_file(path: Path, which: Which) -> None:
    if engine.sqlite_version_info < ENGINE_VERSION_MIN:
        raise DatabaseError(
            f"SQLite {engine.sqlite_version} can corrupt its files under two writers; install pysqlite3 0.6.1 or newer"
        )
    with home.held(path.parent) as folder:
        try:
            if path.exists():
                _bring_up_to_date(path, which)
            else:
                home.check_new(path)
                _create(path, which)
                os.fsync(folder)
        except home.PartMissing as gone:
            raise DatabaseUnusable(str(gone)) from None
        home.made(path)


def refuse_newer(location: DatabaseLocation, which: Which) -> None:
    """Raise DatabaseTooNew for a database of a newer version; one that is missing, older or not ours is let pass."""
    if isinstance(location, Path) and not location.exists():
        return
    connection = connect(location, read_only=True)
    try:
        number = schema_number(connection, which)
    finally:
        connection.close()
    if number is not None:
        needs_migration(number, which, str(location))


def _bring_up_to_date(path: Path, which: Which) -> None:
    os.chmod(path, FILE_MODE)
    with closing(connect_file(path)) as connection:
        number = schema_number(connection, which)
        if needs_migration(number, which, str(path)):
            with naming(str(path)):
                migrate_file(connection, which, number)


def _create(path: Path, which: Which) -> None:
    # A log left behind by a lost file would be replayed into the new one and ruin it.
    if path.with_name(path.name + "-wal").exists():
        raise DatabaseError(
            f"{path} is missing but {path.name}-wal is there; put the file back, or move {path.name}-wal and "
            f"{path.name}-shm away to begin with an empty database"
        )
    # Built aside and renamed, so that a reading role sees no file or a whole one, also after a crash in between.
    building = path.with_name(path.name + ".new")
    for leftover in (building, building.with_name(building.name + "-wal"), building.with_name(building.name + "-shm")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(building, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
    with closing(connect_file(building)) as connection:
        migrate_file(connection, which, None)
    building.rename(path)
