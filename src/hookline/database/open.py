"""Bringing a database file to the schema this version knows, quickly.

A new file is made from the shipped ``schema_<which>.sql``; one that is up to date needs one look; an older one is
migrated in a process of its own, so that no role carries the migration tools; a newer one is refused.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

from hookline.database.sqlite import Connection, connect, engine

Which = Literal["control", "deliver", "insights", "privacy", "profiles"]

HEADS: dict[Which, int] = {"control": 4, "deliver": 6, "insights": 2, "privacy": 1, "profiles": 8}
"""The newest schema of each database: the number of its last migration."""

FILE_MODE = 0o600
MIGRATION_SECONDS_MAX = 3_600.0
ENGINE_VERSION_MIN = (3, 51, 3)
"""Before it, two writers can corrupt a write-ahead log."""


class DatabaseError(Exception):
    """A database file that cannot be used; the message says what to do."""

    code = "database_unusable"


class DatabaseTooNew(DatabaseError):
    """The file was written by a newer version of Hookline."""

    code = "database_too_new"


def open_control(path: Path) -> Connection:
    """Open ``control.db`` for its one writer, made or migrated first where needed."""
    ensure(path, "control")
    return connect(path)


def open_deliver(path: Path) -> Connection:
    """Open ``deliver.db`` for its one writer, made or migrated first where needed."""
    ensure(path, "deliver")
    return connect(path)


def open_insights(path: Path) -> Connection:
    """Open ``insights.db`` for its one writer, made or migrated first where needed; a power cut may take back the last
    moments of it."""
    ensure(path, "insights")
    return connect(path, synchronous="NORMAL")


def open_profiles(path: Path) -> Connection:
    """Open ``profiles.db`` for its one writer, made or migrated first where needed; a power cut may take back the last
    batches of it."""
    ensure(path, "profiles")
    return connect(path, synchronous="NORMAL")


def ensure(path: Path, which: Which) -> None:
    """Make the file at ``path`` hold the newest schema of ``which``; roles that start together take turns.

    Raise DatabaseTooNew for a file of a newer version, DatabaseError for one that is not ours or cannot be migrated.
    """
    if engine.sqlite_version_info < ENGINE_VERSION_MIN:
        raise DatabaseError(
            f"SQLite {engine.sqlite_version} can corrupt its files under two writers; install pysqlite3 0.6.1 or newer"
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if path.exists():
            _bring_up_to_date(path, which)
        else:
            _create(path, which)
            os.fsync(folder)
    finally:
        os.close(folder)


def is_current(connection: Connection, which: Which) -> bool:
    """Whether the file has exactly the schema this version knows: what a reading role asks before it reads."""
    return schema_number(connection, which) == HEADS[which]


def schema_number(connection: Connection, which: Which) -> int | None:
    """The number of the last migration applied; 0 before the first, None when the file is not a ``which`` database."""
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'").fetchone()
    if found is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        return 0
    name, _, number = str(row[0]).partition("_")
    return int(number) if name == which and number.isdigit() else None


def schema_path(which: Which) -> Path:
    """The shipped SQL text of the newest schema (written by ``python -m hookline.database.migrate --write-schema``)."""
    return Path(__file__).with_name(f"schema_{which}.sql")


def _bring_up_to_date(path: Path, which: Which) -> None:
    os.chmod(path, FILE_MODE)
    connection = connect(path)
    try:
        number = schema_number(connection, which)
    finally:
        connection.close()
    if number is None:
        raise DatabaseError(f"{path} is not Hookline's {which} database; move it away or choose another data folder")
    if number > HEADS[which]:
        raise DatabaseTooNew(
            f"{path} was written by a newer Hookline (schema {number}, this one knows {HEADS[which]}); "
            "start that version again, or restore a backup made by this one"
        )
    if number < HEADS[which]:
        _migrate(path, which)


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
    connection = connect(building)
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{schema_path(which).read_text()}\nCOMMIT;")
    finally:
        connection.close()
    building.rename(path)


def _migrate(path: Path, which: Which) -> None:
    command = [sys.executable, "-m", "hookline.database.migrate", which, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MIGRATION_SECONDS_MAX, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DatabaseError(f"{path} could not be brought to the schema of this version and is unchanged: {reason}")
