"""What ``collect`` asks before it opens a local journal: whether the data folder is the one, not a copy of it, and up
to where everybody knows the journal.

On PostgreSQL the server is asked. While it is away, a folder that is where it was goes by what its files know, for
events are to be taken then too; one that was moved, put back or copied waits, for its journal may be an old one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from hookline.collect.kept_connections import FILE as KEPT
from hookline.database.claim import LOCAL, wait_for_turn
from hookline.database.home import read_home, settle
from hookline.database.sqlite import DatabaseAway
from hookline.journal.opening import FOLDER
from hookline.outcomes.furthest import Known, furthest
from hookline.settings import Settings
from hookline.telemetry.log import logger

_LOOK_SECONDS = 0.25


class Asked(NamedTuple):
    """``known`` is what the parts of the data folder know of the journal; ``is_all`` is False as long as the server was
    not asked."""

    known: Known
    is_all: bool = True


async def known_by_all(settings: Settings, stop: asyncio.Event) -> Asked:
    """Return what is known, as soon as that may be gone by, or at ``stop``.

    Raise DatabaseUnusable when another folder works with the database.
    """
    if settings.journal.url != LOCAL:
        return Asked({})
    if settings.database.url == LOCAL:
        settle(settings.data_path)
        return Asked(furthest(settings))
    _, is_there = read_home(settings.data_path)
    # Who never took an event takes none before the server has said by which connections.
    is_new = not any((settings.data_path / each).exists() for each in (FOLDER, KEPT))
    told = False
    while not stop.is_set():
        try:
            return await ask_server(settings, stop)
        except DatabaseAway as away:
            if is_there or is_new:
                return Asked(furthest(settings, has_server=False), is_all=False)
            if not told:
                logger().warning("waiting_for_database", reason=f"the data folder is not where it was: {away}")
                told = True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
    return Asked({})


async def ask_server(settings: Settings, stop: asyncio.Event) -> Asked:
    """Have the database be this folder's, and this process the one that collects for it; then ask what is known.

    Raise DatabaseAway, and DatabaseUnusable when another folder works with it.
    """
    from hookline.database.postgres.home import take_home
    from hookline.database.postgres.installation import meet

    await asyncio.to_thread(meet, settings)
    await asyncio.to_thread(take_home, settings)
    await wait_for_turn(settings, "collect", stop)  # kept until the process ends
    return Asked(await asyncio.to_thread(furthest, settings))
