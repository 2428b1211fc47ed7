"""Which databases a data folder has, and waiting for PostgreSQL where it has those.

The places that databases hold mean nothing beside another journal, and a folder that suddenly had empty ones would
deliver everything again. So a folder belongs to the database it began with, as ``postgres.installation`` tells.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from hookline.database.open import DatabaseUnusable
from hookline.database.sqlite import DatabaseAway, OperationalError
from hookline.settings import Settings
from hookline.telemetry.log import logger

NOTE_FILE = "database"
"""In the data folder: which PostgreSQL database it has; none when its databases are the folder's files."""
LOCAL = "local"
_LOOK_SECONDS = 0.25


def claim(settings: Settings) -> None:
    """Hold the data folder against ``database.url``, as far as can be told without a server; raise DatabaseUnusable."""
    folder, url = settings.data_path, settings.database.url
    is_noted = (folder / NOTE_FILE).exists()
    if url == LOCAL:
        if is_noted:
            raise DatabaseUnusable(f"the database of {folder} is in PostgreSQL: set database.url to its address")
        return
    if find_spec("psycopg") is None:
        raise DatabaseUnusable(
            "a database in PostgreSQL needs the extra named postgres: pip install 'hookline[postgres]'"
        )
    if not is_noted and any((folder / f"{which}.db").exists() for which in ("control", "deliver")):
        raise DatabaseUnusable(f"{folder} has its databases in files: hookline migrate-to moves them to PostgreSQL")
    from hookline.database.postgres.address import conninfo

    try:
        conninfo(url, "hookline")
    except OperationalError as error:
        raise DatabaseUnusable(f"database.url cannot be read: {error}") from None


async def wait_for_database(settings: Settings, stop: asyncio.Event) -> None:
    """Return once the server answers and holds this folder's database, or at ``stop``; at once for files.

    Raise DatabaseUnusable when it is another one.
    """
    if settings.database.url == LOCAL:
        return
    from hookline.database.postgres.installation import meet

    told = False
    while not stop.is_set():
        try:
            await asyncio.to_thread(meet, settings)
            return
        except DatabaseAway as away:
            if not told:
                logger().warning("waiting_for_database", reason=str(away))
                told = True
        try:
            await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
        except TimeoutError:
            pass
