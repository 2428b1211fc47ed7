"""Which databases a data folder has, and waiting for PostgreSQL where it has those.

The places that databases hold mean nothing beside another journal, and a folder that suddenly had empty ones would
deliver everything again. So a folder belongs to the database it began with, as ``postgres.installation`` tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hookline.database.open import DatabaseUnusable
from hookline.database.sqlite import DatabaseAway, OperationalError
from hookline.setting_text import without_secrets
from hookline.settings import Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.database.postgres.fence import Role
    from hookline.database.postgres.turn import Turn

NOTE_FILE = "database"
"""In the data folder: which PostgreSQL database it has; none when its databases are the folder's files."""
LOCAL = "local"
_LOOK_SECONDS = 0.25
_STAND_BY_SECONDS = 1.0


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
    from hookline.database.postgres.requirements import refuse_standby

    try:
        refuse_standby(conninfo(url, "hookline"))
    except OperationalError as error:
        # The client library quotes what it cannot read.
        reason = "" if without_secrets(url) != url else f" ({error})"
        raise DatabaseUnusable(
            f"database.url cannot be read{reason}: write postgresql://user@host:5432/database, with percent-encoding"
        ) from None


async def wait_for_database(
    settings: Settings, stop: asyncio.Event, on_away: Callable[[], object] = lambda: None
) -> None:
    """Return once the server answers and holds this folder's database, or at ``stop``; at once for files.

    ``on_away`` is called once, when it does not answer at first. Raise DatabaseUnusable when it is another one.
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
                on_away()
                told = True
        try:
            await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
        except TimeoutError:
            pass


async def wait_for_turn(
    settings: Settings, role: Role, stop: asyncio.Event, meanwhile: AbstractAsyncContextManager[None] | None = None
) -> Turn | None:
    """Return once this process is the one of its role on a PostgreSQL database, with what keeps it so.

    None at ``stop``, and at once for files, which are one machine's. ``wait_for_database`` comes before. ``meanwhile``
    is entered when another process has it.
    """
    if settings.database.url == LOCAL:
        return None
    from hookline.database.postgres.turn import Turn

    turn = Turn(settings.database.url, role)
    async with AsyncExitStack() as entered:
        told = False
        while not stop.is_set():
            try:
                if await asyncio.to_thread(turn.take):
                    turn.keep()
                    return turn
                if not told:
                    reason = "another machine has it; it is taken over when that ends"
                    logger().info("standing_by", role=role, reason=reason)
                    if meanwhile is not None:
                        await entered.enter_async_context(meanwhile)
                    told = True
            except DatabaseAway as away:
                logger().warning("waiting_for_database", reason=str(away))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _STAND_BY_SECONDS)
    turn.close()
    return None
