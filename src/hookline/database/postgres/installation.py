"""Which installation a PostgreSQL database is of, so that no data folder takes up another one's.

Beside the five schemas there is one named ``hookline``, with a single row: an id, which each data folder notes, and the
journal whose places the database holds. Several folders may share a database when their journal is on Kafka; a local
journal has one folder. Whose turn it is stands there too (``fence``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec

from hookline.database.location import NOTE_FILE
from hookline.database.postgres import fence
from hookline.database.postgres.address import conninfo, without_password
from hookline.database.postgres.commit_mark import COUNTS
from hookline.database.postgres.errors import translating
from hookline.database.postgres.patience import open_session
from hookline.database.postgres.requirements import Session, check
from hookline.database.postgres.schema import MAKING_SPACE, PARTS
from hookline.database.sqlite import BUSY_TIMEOUT_SECONDS, DatabaseAway, DatabaseForbidden, DatabaseUnusable, engine
from hookline.settings import Settings

LOCK = 100
"""Beside the numbers of the schemas."""

# IF NOT EXISTS would ask for the right to make schemas all the same.
TABLES = f"""
DO $$ BEGIN IF to_regnamespace('hookline') IS NULL THEN CREATE SCHEMA hookline; END IF; END $$;
CREATE TABLE IF NOT EXISTS hookline.installation (id TEXT NOT NULL, journal TEXT NOT NULL);
{fence.TABLE};
{COUNTS};
{PARTS};
"""

MOVING = "moving to "
"""Before the journal's name while ``hookline migrate-to`` fills the database: nobody else may use it."""


class Note(msgspec.Struct, frozen=True):
    """What the data folder keeps: the installation's id, a mark of the folder's own, and where it last was."""

    id: str
    folder: str
    where: str


def verify_installation(settings: Settings) -> None:
    """Hold the data folder and the database against each other; both are noted down at their first meeting.

    Raise DatabaseAway while the server cannot be reached, DatabaseUnusable when they do not belong together or the
    database cannot be used.
    """
    try:
        with _new_session(settings) as turn:
            turn.execute(f"SET lock_timeout = {int(BUSY_TIMEOUT_SECONDS * 1000)}".encode())
            turn.execute("SELECT pg_advisory_lock(%s, %s)", (MAKING_SPACE, LOCK))
            _verify(settings, turn)
    except DatabaseAway as away:
        if isinstance(away, DatabaseForbidden) and not (settings.data_path / NOTE_FILE).exists():
            raise DatabaseUnusable(f"the database that database.url names cannot be used: {away}") from away
        raise
    except engine.Error as error:
        raise DatabaseUnusable(f"the database that database.url names cannot be used: {error}") from error


def describe(settings: Settings) -> str:
    """Ask the server what it is; raise DatabaseAway, or DatabaseUnusable when it cannot be
    worked with."""
    with _new_session(settings) as asked:
        version = asked.info.server_version
    return f"PostgreSQL {version // 10_000}.{version % 10_000}, database {without_password(settings.database.url)}"


def journal_name(settings: Settings, mark: str) -> str:
    """Return what tells a journal from others: the topic, or the folder that a local one is in."""
    if settings.journal.is_local:
        return f"local {mark}"
    return f"topic {settings.journal.url.rpartition('/')[2]}"


def write_note(folder: Path, note: Note) -> None:
    """Note in a data folder which database it has."""
    temporary = folder / f"{NOTE_FILE}.{os.getpid()}"
    temporary.write_bytes(msgspec.json.encode(note) + b"\n")
    temporary.replace(folder / NOTE_FILE)


@contextmanager
def _new_session(settings: Settings) -> Iterator[Session]:
    """A session that can be worked with."""
    address = conninfo(settings.database.url, "hookline")
    with translating(), open_session(address) as session:
        check(session, address)
        yield session


def _verify(settings: Settings, turn: Session) -> None:
    where = without_password(settings.database.url)
    note = _read(settings.data_path)
    mark = note.folder if note is not None else uuid4().hex
    journal = journal_name(settings, mark)
    row = turn.execute(
        "SELECT num_nulls(to_regclass('hookline.turns'), to_regclass('hookline.commits'),"
        " to_regclass('hookline.parts')) = 0"
    ).fetchone()
    if row == (False,):
        turn.execute(TABLES.encode())
    found = turn.execute("SELECT id, journal FROM hookline.installation").fetchone()
    if note is not None and (found is None or found[0] != note.id):
        raise DatabaseUnusable(
            f"the database {where} is not the one that {settings.data_path} began with ({note.where}): set database.url"
            " to that one"
        )
    if found is not None and str(found[1]).startswith(MOVING):
        raise DatabaseUnusable(
            f"the database {where} is being filled by hookline migrate-to, which has not ended: run it again"
        )
    if found is None:
        found = (uuid4().hex, journal)
        turn.execute("INSERT INTO hookline.installation (id, journal) VALUES (%s, %s)", found)
    elif found[1] != journal:
        raise DatabaseUnusable(
            f"the database {where} belongs to another journal ({found[1]}) than {settings.data_path} has ({journal}):"
            " use an empty database, or the data folder it began with"
        )
    if note is None or note.where != where:
        write_note(settings.data_path, Note(str(found[0]), mark, where))


def _read(folder: Path) -> Note | None:
    try:
        return msgspec.json.decode((folder / NOTE_FILE).read_bytes(), type=Note)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        raise DatabaseUnusable(f"{folder / NOTE_FILE} cannot be read: put it back from a backup") from None
