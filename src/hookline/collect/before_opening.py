"""The sources, and whose events are not stored, as collect last knew them: kept in the data folder, so that a collect
that starts while they cannot be read takes events all the same.

The file has no more than collect needs: no destination, no secret of one. To recognise who is suppressed it needs the
key of those hashes, so it is readable by its owner alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.connections.model import Snapshot, Source
from hookline.database.home import note_ends, read_ends, read_home, settle
from hookline.database.installation import wait_for_leader_lock
from hookline.database.sqlite import DatabaseAway
from hookline.journal.opening import FOLDER
from hookline.outcomes.furthest import Known, furthest
from hookline.privacy.suppressions import Suppressed
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

FILE = "collect-connections"
FORMAT = 1


class _StoredConnections(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    version: int
    sources: tuple[Source, ...]
    key: bytes | None
    suppressed: tuple[bytes, ...]


class KeptConnections:
    """Writes the file when something changed, and reads it; for one thread at a time."""

    def __init__(self, data_path: Path) -> None:
        self._path = data_path / FILE
        self._written: bytes | None = None

    def write(self, snapshot: Snapshot, suppressed: Suppressed | None) -> None:
        """Keep these from now on, whole and durable, or what was kept before; a disk that refuses is logged."""
        kept = _StoredConnections(
            format=FORMAT,
            version=snapshot.version,
            sources=snapshot.sources,
            key=None if suppressed is None else suppressed.key,
            suppressed=() if suppressed is None else tuple(sorted(suppressed.digests)),
        )
        content = msgspec.msgpack.encode(kept)
        if content == self._written:
            return
        try:
            write_whole(self._path, content)
        except OSError as error:
            logger().warning("connections_not_kept", reason=str(error))
        else:
            self._written = content

    def read(self) -> tuple[Snapshot, Suppressed | None] | None:
        """Return what was kept; None when there is nothing, or nothing that this version can read."""
        try:
            kept = msgspec.msgpack.decode(self._path.read_bytes(), type=_StoredConnections)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            logger().warning("kept_connections_unreadable", reason=str(error))
            return None
        if kept.format != FORMAT or (kept.suppressed and kept.key is None):
            return None
        suppressed = Suppressed.of(kept.suppressed, kept.key) if kept.suppressed and kept.key is not None else None
        return Snapshot(version=kept.version, sources=kept.sources), suppressed


NOT_AS_LEFT = "the data folder, or the journal in it, is not where it was"
NOTED_SECONDS = 1.0
"""From one note of the journal's ends to the next, while it grows."""
_POLL_SECONDS = 0.25


class JournalEnds(NamedTuple):
    """``known`` is what the parts of the data folder know of the journal; ``is_all`` is False as long as the server was
    not asked."""

    known: Known
    is_all: bool = True


async def known_by_all(settings: Settings, stop: asyncio.Event) -> JournalEnds:
    """Return what is known, as soon as that may be gone by, or at ``stop``.

    Raise DatabaseUnusable when another folder works with the database.
    """
    if not settings.journal.is_local:
        return JournalEnds({})
    if settings.database.is_local:
        settle(settings.data_path)
        return JournalEnds(furthest(settings))
    _, is_there = read_home(settings.data_path)
    is_as_left = is_there and read_ends(settings.data_path) is not None
    # Who never took an event takes none before the server has said by which connections.
    is_new = not any((settings.data_path / each).exists() for each in (FOLDER, FILE))
    logged = False
    while not stop.is_set():
        try:
            return await ask_server(settings, stop)
        except DatabaseAway as away:
            if is_as_left or is_new:
                return JournalEnds(furthest(settings, has_server=False), is_all=False)
            if not logged:
                logger().warning("waiting_for_database", reason=f"{NOT_AS_LEFT}: {away}")
                logged = True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _POLL_SECONDS)
    return JournalEnds({})


async def ask_server(settings: Settings, stop: asyncio.Event) -> JournalEnds:
    """Have the database be this folder's, and this process the one that collects for it; then ask what is known.

    Raise DatabaseAway, and DatabaseUnusable when another folder works with it.
    """
    from hookline.database.postgres.installation import take_home, verify_installation

    await asyncio.to_thread(verify_installation, settings)
    await asyncio.to_thread(take_home, settings)
    leader_lock = await wait_for_leader_lock(settings, "collect", stop)  # kept until the process ends
    try:
        return JournalEnds(await asyncio.to_thread(furthest, settings))
    except DatabaseAway:
        if leader_lock is not None:
            await asyncio.to_thread(leader_lock.close)  # whoever asks again waits for it, also if this process has it
        raise


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
