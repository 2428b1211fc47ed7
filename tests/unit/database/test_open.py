"""Database files: made, recognised, migrated, refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from hookline.database.location import Which
from hookline.database.migrate import HEADS, is_current, schema_number
from hookline.database.open import ensure, open_control, open_deliver
from hookline.database.sqlite import DatabaseError, DatabaseTooNew, IntegrityError, OperationalError, connect

WHICH = get_args(Which)


def set_number(path: Path, number: str | None) -> None:
    connection = connect(path)
    connection.execute("DELETE FROM alembic_version")
    if number is not None:
        connection.execute("INSERT INTO alembic_version VALUES (?)", (number,))
    connection.close()


def tables(path: Path) -> set[str]:
    connection = connect(path, read_only=True)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    connection.close()
    return found


def bare(path: Path, which: Which, *statements: str) -> None:
    """A file as it was before the first migration."""
    path.touch(0o600)
    connection = connect(path)
    connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("which", WHICH)
def test_a_new_file_is_private_durable_and_up_to_date(tmp_path: Path, which: Which) -> None:
    """A new file has the newest schema, mode 0600, a write-ahead log, and commits that survive a power cut."""
    path = tmp_path / f"{which}.db"
    ensure(path, which)
    connection = connect(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert is_current(connection, which)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert list(tmp_path.glob("*.new*")) == []
    connection.close()


def test_the_log_beside_the_file_is_as_private_as_the_file(tmp_path: Path) -> None:
    """What is written before a checkpoint lies in files that only the owner can read."""
    path = tmp_path / "control.db"
    connection = open_control(path)
    connection.execute("INSERT INTO versions VALUES (1, 0, 'me', '{}')")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    connection.close()
    names = "control.db", "control.db-wal", "control.db-shm", "parts"
    assert modes == dict.fromkeys(names, 0o600)


def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    """A restored copy with looser permissions does not stay readable for others."""
    path = tmp_path / "deliver.db"
    ensure(path, "deliver")
    path.chmod(0o644)
    ensure(path, "deliver")
    assert path.stat().st_mode & 0o777 == 0o600


def test_opening_again_keeps_what_is_there(tmp_path: Path) -> None:
    """An up-to-date file is left alone."""
    path = tmp_path / "deliver.db"
    connection = open_deliver(path)
    connection.execute("INSERT INTO checkpoints VALUES (0, 42, 1, x'00')")
    connection.close()
    connection = open_deliver(path)
    assert connection.execute("SELECT next_offset FROM checkpoints").fetchall() == [(42,)]
    connection.close()


@pytest.mark.parametrize("which", WHICH)
def test_an_older_file_is_migrated(tmp_path: Path, which: Which) -> None:
    """A file from before the first migration gets every table that a new one has."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    bare(old, which)
    ensure(old, which)
    ensure(new, which)
    assert tables(old) == tables(new)
    connection = connect(old)
    assert schema_number(connection, which) == HEADS[which]
    connection.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """All migrations run in one transaction: the tables made before the failing step are gone again."""
    path = tmp_path / "deliver.db"
    bare(path, "deliver", "CREATE TABLE versions_in_force (mine)")
    with pytest.raises(DatabaseError, match="versions_in_force already exists"):
        ensure(path, "deliver")
    assert tables(path) == {"alembic_version", "versions_in_force"}


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    """A file of a later version is not touched, and the message says which versions are meant."""
    path = tmp_path / "control.db"
    ensure(path, "control")
    set_number(path, "control_0099")
    with pytest.raises(DatabaseTooNew, match=f"schema 99, this one knows {HEADS['control']}"):
        ensure(path, "control")


@pytest.mark.parametrize("number", ["deliver_0001", "abc", "control_x"])
def test_another_database_is_refused(tmp_path: Path, number: str) -> None:
    """The other role's file, or anybody else's, is not taken for ours."""
    path = tmp_path / "control.db"
    ensure(path, "control")
    set_number(path, number)
    with pytest.raises(DatabaseError, match="is not Hookline's control database"):
        ensure(path, "control")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    """Hookline never leaves an empty file behind, so one is somebody else's or damaged."""
    path = tmp_path / "control.db"
    path.touch()
    with pytest.raises(DatabaseError, match="is not Hookline's"):
        ensure(path, "control")


def test_a_log_without_its_file_is_not_replayed_into_a_new_one(tmp_path: Path) -> None:
    """When the file is lost but its write-ahead log is there, starting afresh would mix the two."""
    (tmp_path / "control.db-wal").write_bytes(b"left behind")
    with pytest.raises(DatabaseError, match=r"control\.db-wal"):
        ensure(tmp_path / "control.db", "control")
    assert not (tmp_path / "control.db").exists()


def test_a_crash_while_making_a_file_is_made_good(tmp_path: Path) -> None:
    """A half-built file of an earlier start is thrown away."""
    (tmp_path / "control.db.new").write_bytes(b"half")
    (tmp_path / "control.db.new-wal").write_bytes(b"half")
    ensure(tmp_path / "control.db", "control")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["control.db", "parts"]


def test_roles_that_start_together_make_one_file(tmp_path: Path) -> None:
    """Several processes that need the same file at the same moment all find it whole."""
    program = (
        "import sys, pathlib; from hookline.database.open import ensure; sys.stdin.read();"
        "from hookline.database.migrate import is_current;"
        "from hookline.database.sqlite import connect; path = pathlib.Path(sys.argv[1]); ensure(path, 'deliver');"
        "print(is_current(connect(path), 'deliver'))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "deliver.db")]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    answers = [process.stdout.read() if process.stdout else "" for process in started]
    assert [process.wait(timeout=120) for process in started] == [0] * 6
    assert answers == ["True\n"] * 6


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    """A role that only reads cannot become a second writer by mistake."""
    path = tmp_path / "we ird%20?#name.db"
    ensure(path, "control")
    connection = connect(path, read_only=True)
    with pytest.raises(OperationalError, match="readonly"):
        connection.execute("INSERT INTO versions VALUES (1, 0, 'me', '{}')")
    connection.close()


def test_connecting_never_makes_a_file(tmp_path: Path) -> None:
    """Only ``ensure`` makes files; a wrong path is an error, not an empty database."""
    with pytest.raises(OperationalError):
        connect(tmp_path / "missing.db")
    assert list(tmp_path.iterdir()) == []


def test_an_object_has_one_row_in_force(tmp_path: Path) -> None:
    """The database itself refuses two rows in force for one object."""
    connection = open_control(tmp_path / "control.db")
    insert = "INSERT INTO objects (kind, id, since, document) VALUES ('source', 'web', ?, '{}')"
    connection.execute(insert, (1,))
    with pytest.raises(IntegrityError):
        connection.execute(insert, (2,))
    connection.close()


def test_a_dead_letter_id_is_never_given_again(tmp_path: Path) -> None:
    """A link to a dead letter that is gone does not lead to another one."""
    connection = open_deliver(tmp_path / "deliver.db")
    insert = (
        "INSERT INTO dead_letters"
        ' (lane, destination, partition, "offset", message_id, source, type, status, attempts, at)'
        " VALUES (1, 'crm', 0, 1, 'm', 'web', 'track', 'failed', 1, 0) RETURNING id"
    )
    (first,) = connection.execute(insert).fetchone()
    connection.execute("DELETE FROM dead_letters")
    (second,) = connection.execute(insert).fetchone()
    connection.close()
    assert second > first


def test_reading_roles_stay_light() -> None:
    """Opening databases and following connections imports none of the heavy libraries."""
    heavy = "{'litestar', 'yaml', 'jinja2', 'cyclopts', 'rich', 'sqlite3', 'psycopg'}"
    program = (
        "import sys, hookline.database.open, hookline.connections.state, hookline.connections.secrets;"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
