"""Which data folder works with a PostgreSQL database whose journal is local: one, wherever it is.

A copied folder has the same journal up to a point, and the same notes, but is elsewhere (``database.home``). Two of
them would read one another's places. So the database names the folder that had it last; another one takes over when
nobody collects or delivers there any more, and is refused as long as somebody does.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import psycopg

from hookline.database.home import copied, read_home, settle
from hookline.database.postgres.address import conninfo
from hookline.database.postgres.errors import translating
from hookline.database.postgres.fence import LOCKS
from hookline.database.postgres.schema import MAKING_SPACE
from hookline.database.sqlite import DatabaseUnusable
from hookline.settings import Settings
from hookline.telemetry.log import logger

LOCK = 99
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
        session.execute("SELECT pg_advisory_lock(%s, %s)", (MAKING_SPACE, LOCK))  # until the connection is closed
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
