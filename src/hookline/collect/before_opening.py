"""What ``collect`` asks before it opens a local journal: whether the data folder is the one, not a copy of it, and up
to where everybody knows the journal.

On PostgreSQL the server is asked. While it is away, a folder that is as it was left goes by what its files know, for
events are to be taken then too; one that was moved or copied, or whose journal was put back, waits: what it took would
get offsets that the database knows for other events, and be taken for sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from hookline.collect.kept_connections import FILE as KEPT
from hookline.database.claim import LOCAL, wait_for_turn
from hookline.database.home import note_ends, read_ends, read_home, settle
from hookline.database.sqlite import DatabaseAway
from hookline.journal.opening import FOLDER
from hookline.outcomes.furthest import Known, furthest
from hookline.settings import Settings
from hookline.telemetry.log import logger

NOT_AS_LEFT = "the data folder, or the journal in it, is not where it was"
NOTED_SECONDS = 1.0
"""From one note of the journal's ends to the next, while it grows."""
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
    is_as_left = is_there and read_ends(settings.data_path) is not None
    # Who never took an event takes none before the server has said by which connections.
    is_new = not any((settings.data_path / each).exists() for each in (FOLDER, KEPT))
    told = False
    while not stop.is_set():
        try:
            return await ask_server(settings, stop)
        except DatabaseAway as away:
            if is_as_left or is_new:
                return Asked(furthest(settings, has_server=False), is_all=False)
            if not told:
                logger().warning("waiting_for_database", reason=f"{NOT_AS_LEFT}: {away}")
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


async def keep_ends_noted(settings: Settings, ends: Callable[[], dict[int, int]]) -> None:
    """Note how far the journal is, for a start while the server is away; until it is cancelled, and once more then."""
    noted: dict[int, int] | None = None
    is_said = False
    try:
        while True:
            if (now := ends()) != noted:
                try:
                    await asyncio.to_thread(note_ends, settings.data_path, now)
                    noted, is_said = now, False
                except OSError as error:  # without room no events are taken either
                    if not is_said:
                        logger().warning("journal_ends_not_noted", reason=str(error))
                        is_said = True
            await asyncio.sleep(NOTED_SECONDS)
    finally:
        with suppress(OSError):
            note_ends(settings.data_path, ends())
