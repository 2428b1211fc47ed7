"""Which databases a data folder has, and waiting for PostgreSQL where it has those.

The places that databases hold mean nothing beside another journal, and a folder that suddenly had empty ones would
deliver everything again. So a folder belongs to the database it began with, as ``postgres.installation`` tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.database import home, sqlite
from hookline.database.connect import connect
from hookline.database.home import refuse_copy
from hookline.database.location import NOTE_FILE, WRITTEN_BY, DatabaseLocation, Schema, Which, location_of
from hookline.database.open import ensure, refuse_newer
from hookline.database.sqlite import DatabaseAway, DatabaseTooNew, DatabaseUnusable, OperationalError, engine
from hookline.extras import install_extra
from hookline.setting_text import without_secrets
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.telemetry.metrics import PROCESS_STANDING_BY, publish

if TYPE_CHECKING:
    from hookline.database.postgres.fence import Role
    from hookline.database.postgres.leader_lock import LeaderLock


LOCAL = "local"
_POLL_SECONDS = 0.25
_STAND_BY_SECONDS = 1.0


def verify_installation(settings: Settings) -> None:
    """Hold the data folder against ``database.url``, as far as it can be without a server; raise DatabaseUnusable."""
    folder, url = settings.data_path, settings.database.url
    refuse_copy(folder)
    is_noted = (folder / NOTE_FILE).exists()
    if url == LOCAL:
        if is_noted:
            raise DatabaseUnusable(f"the database of {folder} is in PostgreSQL: set database.url to its address")
        try:
            home.require(folder)
        except home.PartMissing as gone:
            raise DatabaseUnusable(str(gone)) from None
        return
    if find_spec("psycopg") is None:
        raise DatabaseUnusable(f"a database in PostgreSQL needs the extra named postgres: {install_extra('postgres')}")
    if not is_noted and any((folder / f"{which}.db").exists() for which in ("control", "deliver")):
        raise DatabaseUnusable(f"{folder} has its databases in files: hookline migrate-to moves them to PostgreSQL")
    from hookline.database.postgres.requirements import refuse_standby
    from hookline.database.postgres.sessions import conninfo

    try:
        refuse_standby(conninfo(url, "hookline"))
    except OperationalError as error:
        # The client library quotes what it cannot read.
        reason = "" if without_secrets(url) != url else f" ({error})"
        raise DatabaseUnusable(
            f"database.url cannot be read{reason}: write postgresql://user@host:5432/database, with percent-encoding"
        ) from None


async def wait_for_database(
    settings: Settings,
    stop: asyncio.Event,
    on_away: Callable[[], object] = lambda: None,
    writes: Which | None = None,
) -> None:
    """Return once the server answers and holds this folder's database, and the one that the role ``writes`` to can be
    written to; or at ``stop``.

    ``on_away`` is called once, when that is not so at first. Raise DatabaseUnusable when it is another one.
    """
    if settings.database.url == LOCAL and writes is None:
        return

    def look() -> None:
        if settings.database.url != LOCAL:
            from hookline.database.postgres.installation import verify_installation

            verify_installation(settings)
        if writes is not None:
            check_usable(location_of(settings, writes))

    await until_done(look, stop, _POLL_SECONDS, on_away)


def check_usable(location: DatabaseLocation) -> None:
    """Raise the DatabaseAway that a writer of a database would meet; one that is not there yet may be made."""
    if isinstance(location, Schema):
        from hookline.database.postgres.requirements import troubles

        for trouble in troubles(location):
            raise trouble
    elif location.exists():
        with closing(sqlite.connect(location)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")


async def wait_for_schema(settings: Settings, which: Which, stop: asyncio.Event) -> None:
    """Return once one of the databases holds the newest schema, made or migrated where needed, or at ``stop``.

    A lock of another program, a full disk or a server that is away is waited for, with a line in the log; raise as
    ``open.ensure`` does for what waiting does not mend.
    """
    await until_done(lambda: ensure(location_of(settings, which), which), stop)


async def wait_for_home(settings: Settings, stop: asyncio.Event) -> LeaderLock | None:
    """Return once this data folder, and this process for its ``deliver``, is the one that works with the database; at
    once for files, and for a journal on Kafka, which many share. Raise DatabaseUnusable for a copied folder."""
    if settings.database.is_local or not settings.journal.is_local:
        return None
    from hookline.database.postgres.installation import take_home

    await until_done(lambda: take_home(settings), stop)
    return await wait_for_leader_lock(settings, "deliver", stop)


async def until_done(
    work: Callable[[], object],
    stop: asyncio.Event,
    pause_seconds: float = _STAND_BY_SECONDS,
    on_away: Callable[[], object] = lambda: None,
) -> None:
    """Do it in a thread, again and again while the database cannot be used, which is said once; until ``stop``."""
    logged = False
    while not stop.is_set():
        try:
            await asyncio.to_thread(work)
            return
        except DatabaseAway as away:
            if not logged:
                logger().warning("waiting_for_database", reason=str(away))
                on_away()
                logged = True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_seconds)


async def wait_for_version(
    settings: Settings, role: str, stop: asyncio.Event, meanwhile: AbstractAsyncContextManager[None] | None = None
) -> None:
    """Return once nothing that a role writes to is of a newer version than this one knows, or at ``stop``.

    In a rolling upgrade a role of the old version may be started beside tables that the new one has brought further.
    What it wrote there might be wrong, so it stands by, and says so; ``meanwhile`` is entered then.
    """
    async with AsyncExitStack() as entered:
        logged = ""
        while not stop.is_set():
            try:
                await asyncio.to_thread(_refuse_newer, settings, role)
                return
            except DatabaseTooNew as newer:
                if meanwhile is not None and not logged:
                    await entered.enter_async_context(meanwhile)
                reason, event = str(newer), "standing_by"
            except DatabaseAway as away:
                reason, event = str(away), "waiting_for_database"
            except engine.Error:
                return  # whoever opens it to write meets that again
            if reason != logged:
                logger().warning(event, role=role, reason=reason)
                logged = reason
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _STAND_BY_SECONDS)


def _refuse_newer(settings: Settings, role: str) -> None:
    for which in WRITTEN_BY[role]:
        refuse_newer(location_of(settings, which), which)


async def wait_for_leader_lock(
    settings: Settings, role: Role, stop: asyncio.Event, meanwhile: AbstractAsyncContextManager[None] | None = None
) -> LeaderLock | None:
    """Return once this process is the one of its role on a PostgreSQL database, with what keeps it so, and nothing that
    it writes to is of a newer version.

    None at ``stop``, and for files, which are one machine's. ``wait_for_database`` comes before. ``meanwhile`` is
    entered while it waits.
    """
    while True:
        await wait_for_version(settings, role, stop, meanwhile)
        turn = await _take_turn(settings, role, stop, meanwhile)
        if turn is None:
            return None
        try:
            await asyncio.to_thread(_refuse_newer, settings, role)
            return turn
        except (DatabaseTooNew, engine.Error):
            turn.close()  # for one of the newer version, which may have come in between


async def _take_turn(
    settings: Settings, role: Role, stop: asyncio.Event, meanwhile: AbstractAsyncContextManager[None] | None
) -> LeaderLock | None:
    if settings.database.url == LOCAL:
        return None
    from hookline.database.postgres.leader_lock import LeaderLock

    turn = LeaderLock(settings.database.url, role)
    async with AsyncExitStack() as entered:
        logged = False
        while not stop.is_set():
            try:
                if await asyncio.to_thread(turn.take):
                    turn.keep()
                    return turn
                if not logged:
                    reason = "another machine has it; it is taken over when that ends"
                    logger().info("standing_by", role=role, reason=reason)
                    if meanwhile is not None:
                        await entered.enter_async_context(meanwhile)
                    logged = True
                publish(settings.data_path / "run", role, {PROCESS_STANDING_BY: 1})
            except DatabaseAway as away:
                logger().warning("waiting_for_database", reason=str(away))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _STAND_BY_SECONDS)
    turn.close()
    return None


BLOCK_BYTES = 512
"""What the system counts in."""

_OF_SCHEMA = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = to_regnamespace(current_schema())"
)


def bytes_taken(location: DatabaseLocation) -> int:
    """Return what it takes of a disk: of a file also its log, of a schema its tables with their indexes; 0 when it is
    not there. Raise OperationalError when PostgreSQL cannot be asked."""
    if isinstance(location, Path):
        return sum(_of_file(location.with_name(location.name + suffix)) for suffix in ("", "-wal", "-shm"))
    with closing(connect(location, read_only=True)) as connection:
        ((taken,),) = connection.execute(_OF_SCHEMA).fetchall()
        return int(taken)


def _of_file(path: Path) -> int:
    try:
        return path.stat().st_blocks * BLOCK_BYTES
    except OSError:
        return 0
