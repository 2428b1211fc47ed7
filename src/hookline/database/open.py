"""Bringing a database to the schema this version knows, quickly.

A new file is made from the shipped ``schema_<which>.sql``; one that is up to date needs one look; an older one is
migrated in a process of its own, so that no role carries the migration tools; a newer one is refused. The same goes
for a schema of PostgreSQL (``postgres.schema``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from hookline.database import parts
from hookline.database.commits import Commits, begin_counting, commits_of
from hookline.database.connect import connect, is_file
from hookline.database.connection import Connection
from hookline.database.place import Place, Schema, Which, place_of
from hookline.database.sqlite import DatabaseAway, engine
from hookline.database.sqlite import connect as connect_file
from hookline.settings import Settings

HEADS: dict[Which, int] = {"control": 5, "deliver": 10, "insights": 2, "privacy": 2, "profiles": 9}
"""The newest schema of each database: the number of its last migration."""

FILE_MODE = 0o600
MIGRATION_SECONDS_MAX = 3_600.0
TRY_AGAIN = 75
"""Of a migrating process: what hindered it passes, such as a lock (EX_TEMPFAIL of sysexits.h)."""
ENGINE_VERSION_MIN = (3, 51, 3)
"""Before it, two writers can corrupt a write-ahead log."""

_IS_OURS = "SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'"
_IS_OUR_SCHEMA = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'alembic_version'"


class DatabaseError(Exception):
    """A database file that cannot be used; the message says what to do."""

    code = "database_unusable"


class DatabaseUnusable(DatabaseError):
    """The database that the settings name cannot be this data folder's; starting again does not help."""


class DatabaseTooNew(DatabaseError):
    """The database was written by a newer version of Hookline. A role that is to write to it stands by."""

    code = "database_too_new"


class DatabaseUnreadable(DatabaseAway):
    """What is in a database cannot be told: it is not made yet, too old, or of a version whose tables this one does not
    know. Never to be taken for empty; it ends by itself, when the role that writes it has made it, or this one is
    upgraded. Unlike when it is away, somebody may be writing to it meanwhile."""

    kind = "unreadable"
    code = "database_unreadable"
    meaning = "the database cannot be read"
    next_step = "What another role keeps there is being made, or of another version: hookline doctor says which it is."


class DatabaseNotMade(DatabaseUnreadable):
    """The role that writes it has not made it yet, or not brought it to a schema that can be read."""


def open_control(place: Place) -> Connection:
    """Open ``control.db`` for its one writer, made or migrated first where needed."""
    ensure(place, "control")
    return connect(place)


def open_deliver(place: Place) -> Connection:
    """Open ``deliver.db`` for its one writer, made or migrated first where needed."""
    ensure(place, "deliver")
    return connect(place)


def open_insights(place: Place) -> Connection:
    """Open ``insights.db`` for its one writer, made or migrated first where needed; a power cut may take back the last
    moments of it."""
    ensure(place, "insights")
    return connect(place, synchronous="NORMAL")


def open_profiles(place: Place) -> Connection:
    """Open the database of people for its one writer, made or migrated first where needed; a power cut may take back
    the last batches of it."""
    ensure(place, "profiles")
    return connect(place, synchronous="NORMAL")


def count_commits(settings: Settings, *names: Which) -> None:
    """Count what this process commits to these databases from now on, and say so where one is behind what this data
    folder had committed before."""
    for which in names:
        place = place_of(settings, which)
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


def ensure(place: Place, which: Which) -> None:
    """Make the database at ``place`` hold the newest schema of ``which``; roles that start together take turns.

    Raise DatabaseTooNew for one of a newer version, DatabaseError for one that is not ours or cannot be migrated,
    DatabaseAway while somebody's lock or a full disk keeps it from being migrated.
    """
    if isinstance(place, Schema):
        from hookline.database.postgres.schema import ensure as ensure_schema

        ensure_schema(place)
    else:
        _ensure_file(place, which)


def _ensure_file(path: Path, which: Which) -> None:
    if engine.sqlite_version_info < ENGINE_VERSION_MIN:
        raise DatabaseError(
            f"SQLite {engine.sqlite_version} can corrupt its files under two writers; install pysqlite3 0.6.1 or newer"
        )
    with parts.held(path.parent) as folder:
        try:
            if path.exists():
                _bring_up_to_date(path, which)
            else:
                parts.check_new(path)
                _create(path, which)
                os.fsync(folder)
        except parts.PartMissing as gone:
            raise DatabaseUnusable(str(gone)) from None
        parts.made(path)


def refuse_newer(place: Place, which: Which) -> None:
    """Raise DatabaseTooNew for a database of a newer version; one that is missing, older or not ours is let pass."""
    if isinstance(place, Path) and not place.exists():
        return
    connection = connect(place, read_only=True)
    try:
        number = schema_number(connection, which)
    finally:
        connection.close()
    if number is not None:
        needs_migration(number, which, str(place))


def is_current(connection: Connection, which: Which) -> bool:
    """Whether the file has exactly the schema this version knows: what a move asks before it copies."""
    return schema_number(connection, which) == HEADS[which]


def schema_number(connection: Connection, which: Which) -> int | None:
    """The number of the last migration applied; 0 before the first, None when it is not a ``which`` database."""
    if connection.execute(_IS_OURS if is_file(connection) else _IS_OUR_SCHEMA).fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        return 0
    name, _, number = str(row[0]).partition("_")
    return int(number) if name == which and number.isdigit() else None


def schema_path(which: Which, suffix: Literal[".sql", ".postgres.sql"] = ".sql") -> Path:
    """The shipped SQL text of the newest schema (written by ``python -m hookline.database.migrate --write-schema``)."""
    return Path(__file__).with_name(f"schema_{which}{suffix}")


def needs_migration(number: int | None, which: Which, name: str) -> bool:
    """Whether a database with the schema of this number is older than this version; raise for one that is not ours,
    or newer."""
    if number is None:
        raise DatabaseError(f"{name} is not Hookline's {which} database; move it away or choose another data folder")
    if number > HEADS[which]:
        raise DatabaseTooNew(
            f"{name} was written by a newer Hookline (schema {number}, this one knows {HEADS[which]}); "
            "start that version again, or restore a backup made by this one"
        )
    return number < HEADS[which]


def migrate(name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run ``python -m hookline.database.migrate`` with these arguments; raise DatabaseError when it fails, DatabaseAway
    when it may succeed later."""
    command = [sys.executable, "-m", "hookline.database.migrate", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MIGRATION_SECONDS_MAX, check=False, env=environment
        )
    except (subprocess.TimeoutExpired, BlockingIOError) as error:  # so many processes are there that one is refused
        raise DatabaseAway(f"{name} could not be brought to the schema of this version yet: {error}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        if done.returncode == TRY_AGAIN:
            raise DatabaseAway(f"{name} could not be brought to the schema of this version yet: {reason}")
        raise DatabaseError(f"{name} could not be brought to the schema of this version and is unchanged: {reason}")


def _bring_up_to_date(path: Path, which: Which) -> None:
    os.chmod(path, FILE_MODE)
    connection = connect_file(path)
    try:
        number = schema_number(connection, which)
    finally:
        connection.close()
    if needs_migration(number, which, str(path)):
        migrate(str(path), [which, str(path)])


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
    connection = connect_file(building)
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{schema_path(which).read_text()}\nCOMMIT;")
    finally:
        connection.close()
    building.rename(path)
