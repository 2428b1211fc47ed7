"""Know which installation a PostgreSQL database is of, and which data folder works with it where the journal is
local.

Beside the five schemas there is one named ``hookline``, with a single row: an id, which each data folder notes, and the
journal whose places the database holds. Several folders may share a database when their journal is on Kafka; a local
journal has one folder. Whose turn it is stands there too (``fence``).

A copied folder has the same journal up to a point, and the same notes, but is elsewhere (``database.home``). Two of
them would read one another's places. So the database names the folder that had it last; another one takes over when
nobody collects or delivers there any more, and is refused as long as somebody does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import psycopg

from hookline.database.home import copied, read_home, settle
from hookline.database.location import NOTE_FILE
from hookline.database.postgres import fence
from hookline.database.postgres.commit_mark import COUNTS
from hookline.database.postgres.dialect import translating
from hookline.database.postgres.fence import LOCKS
from hookline.database.postgres.requirements import Session, check
from hookline.database.postgres.schema import MAKING_SPACE, PARTS
from hookline.database.postgres.sessions import conninfo, open_session, without_password
from hookline.database.sqlite import BUSY_TIMEOUT_SECONDS, DatabaseAway, DatabaseForbidden, DatabaseUnusable, engine
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

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
    """Hold what the data folder keeps: the installation's id, a mark of the folder's own, and where it last was."""

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
    """Note in a data folder which database it has; durable on return, for without it the folder is nobody's."""
    write_whole(folder / NOTE_FILE, msgspec.json.encode(note) + b"\n")


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


HOME_LOCK = 99
"""Beside the installation's."""
HELD_SECONDS_MAX = 20.0
"""A machine that went away without a word has its turns for less than that."""
ENDING_SECONDS_MAX = 3.0
"""Where somebody looked after a turn in the last seconds, no more than that is waited: it is only ending, or works."""
_POLL_SECONDS = 0.5

_TABLE = "CREATE TABLE IF NOT EXISTS hookline.home (id TEXT NOT NULL, shown TEXT NOT NULL)"
_HELD = f"""
SELECT max(a.state_change) > clock_timestamp() - interval '{ENDING_SECONDS_MAX} seconds'
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = %s AND l.objid::bigint = ANY (%s)
AND a.datname = current_database() HAVING count(*) > 0
"""


class _Other(NamedTuple):
    where: str
    is_heard: bool


def take_home(settings: Settings) -> None:
    """Have the database be this data folder's; after ``installation.verify_installation``.

    Raise DatabaseAway while the server cannot be reached, DatabaseUnusable when another folder works with it.
    """
    began = time.monotonic()
    while (other := _take(settings.database.url, settings.data_path)) is not None:
        if time.monotonic() - began >= (ENDING_SECONDS_MAX if other.is_heard else HELD_SECONDS_MAX):
            raise DatabaseUnusable(copied(settings.data_path, other.where))
        time.sleep(_POLL_SECONDS)


def _take(url: str, folder: Path) -> _Other | None:
    """Take it, or return who works with it."""
    with translating(), psycopg.connect(conninfo(url, "hookline"), autocommit=True) as session:
        session.execute("SELECT pg_advisory_lock(%s, %s)", (MAKING_SPACE, HOME_LOCK))  # until the connection is closed
        if session.execute("SELECT to_regclass('hookline.home') IS NULL").fetchone() == (True,):
            session.execute(_TABLE)
        row = session.execute("SELECT id, shown FROM hookline.home").fetchone()
        home, is_there = read_home(folder)
        if row is not None and home is not None and is_there and home.id == row[0]:
            return None
        if row is not None:
            held = session.execute(_HELD.encode(), (MAKING_SPACE, [LOCKS["collect"], LOCKS["deliver"]])).fetchone()
            if held is not None:
                return _Other(str(row[1]), bool(held[0]))
            logger().warning("data_folder_takes_over", was=row[1], reason="nobody works with the database there")
        home = settle(folder)
        session.execute("DELETE FROM hookline.home")
        session.execute("INSERT INTO hookline.home (id, shown) VALUES (%s, %s)", (home.id, str(home)))
    return None
