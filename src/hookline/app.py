"""Put together what each role of the service is made of, and start and end a role's process: within ten seconds of
being told, whatever does not answer.

Everything that counts is saved before, or was acknowledged to nobody: what is cut off is as after a crash.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.roles import SUPERVISOR_FD
from hookline.settings import Settings
from hookline.telemetry import log, log_stream
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler

    from hookline.connections.store import Store
    from hookline.database.location import Which


END_SECONDS = 9.5
"""Shortly before a supervisor, or a system's service manager, would kill it without a word."""
FORCED = 1


class Ending:
    """``begin`` when the process is told to end, ``finish`` when nothing is left to do."""

    def __init__(self, seconds: float = END_SECONDS, leave: Callable[[int], object] = os._exit) -> None:
        self._leave = leave
        self._timer = threading.Timer(seconds, self._force)
        self._timer.daemon = True
        self._begun = threading.Lock()

    def begin(self) -> None:
        """The time runs from now on; idempotent."""
        if self._begun.acquire(blocking=False):
            self._timer.start()

    def finish(self, code: int) -> None:
        """End now, if threads that wait for somebody who does not answer would keep the process; else return."""
        others = [each for each in threading.enumerate() if each not in (threading.main_thread(), self._timer)]
        if others:
            log_stream.drain()
            self._leave(code)

    def _force(self) -> None:
        waiting = sorted(each.name for each in threading.enumerate() if each is not threading.current_thread())
        logger().error("end_forced", waiting=waiting, next_step="nothing; what was under way is as after a crash")
        log_stream.drain()
        self._leave(FORCED)


EXIT_UNUSABLE = 2
"""Starting again would not help: the settings, the connections file, the address or the database must change."""
CONTROLS: tuple[Which, ...] = ("control", "insights", "privacy")
"""The databases that control alone writes."""
FOLLOWED: tuple[Which, ...] = ("control", "privacy")
"""Those of them that other roles follow."""
GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""Of the garbage collector, in every role: it is to look seldom at the many small objects of a batch."""
FREEZE_SECONDS = 1.0
"""After this a role has loaded what it needs: the garbage collector need not look at it again."""


def run_collect(settings: Settings) -> int:
    """Return the public edge and the journal; return the exit code."""

    async def main(stop: asyncio.Event) -> int:
        from hookline.collect.before_opening import known_by_all
        from hookline.collect.role import CollectRole

        asked = await known_by_all(settings, stop)
        return 0 if stop.is_set() else await CollectRole(settings, boot_id(), asked).run(stop)

    return _run("collect", settings, main, ending=Ending(END_SECONDS + settings.collect.drain_delay))


def run_deliver(settings: Settings) -> int:
    """Reader, lanes and sender; return the exit code."""

    async def main(stop: asyncio.Event) -> int:
        from hookline.database.installation import wait_for_database, wait_for_home, wait_for_schema, wait_for_version
        from hookline.database.open import count_commits
        from hookline.deliver.role import DeliverRole
        from hookline.journal.opening import FOLDER, journal_in

        await wait_for_database(settings, stop, writes="deliver")
        await wait_for_version(settings, "deliver", stop)
        journal = journal_in(settings.data_path / FOLDER)
        await journal.wait_for_partitions(settings.journal.partitions, stop)
        await wait_for_schema(settings, "deliver", stop)
        turn = await wait_for_home(settings, stop)
        if stop.is_set():
            return 0
        count_commits(settings, "deliver")
        role = DeliverRole(settings)
        await role.wait_for_connections(stop)
        await journal.wait_for_recovery(role.saved_positions(), settings.socket_path("collect.sock"), stop)
        if not stop.is_set():
            role.recover()
            await role.run(stop)
        if turn is not None:
            turn.close()
        return 0

    return _run("deliver", settings, main)


def run_profiles(settings: Settings) -> int:
    """People: their traits, identities and history; return the exit code."""

    async def main(stop: asyncio.Event) -> int:
        from hookline.database.installation import wait_for_database, wait_for_leader_lock, wait_for_schema
        from hookline.database.open import count_commits
        from hookline.people.role import ProfilesRole

        await wait_for_database(settings, stop, writes="profiles")
        turn = await wait_for_leader_lock(settings, "profiles", stop)
        await wait_for_schema(settings, "profiles", stop)
        if not stop.is_set():
            count_commits(settings, "profiles")
            await ProfilesRole(settings).run(stop)
        if turn is not None:
            turn.close()
        return 0

    return _run("profiles", settings, main)


def run_control(
    settings: Settings,
    connections_file: Path | None,
    one_time_link: bool = False,
    origins: Mapping[str, str] | None = None,
) -> int:
    """Admin API, pages and connections; return the exit code."""
    from hookline.api.auth.admin_token import AdminTokenError
    from hookline.database import installation as database
    from hookline.database.commits import any_went_back
    from hookline.database.sqlite import DatabaseAway, DatabaseError, engine
    from hookline.features.connections.service import CannotStart
    from hookline.journal.opening import claim
    from hookline.journal.port import JournalAway, JournalUnusable
    from hookline.listening import CannotListen

    log.configure("control", settings.log.format)
    _prepare(settings)
    descriptor = os.environ.get(SUPERVISOR_FD)
    try:
        claim(settings)
        database.verify_installation(settings)
        store = asyncio.run(_opened(settings, connections_file))
        if store is None:
            return 0
        from hookline.control.serve import run

        code = run(
            settings,
            store,
            one_time_link,
            pages=_pages,
            stop_descriptor=int(descriptor) if descriptor else None,
            origins=origins,
        )
        return code or int(any_went_back())
    except (CannotStart, CannotListen, AdminTokenError, DatabaseError, JournalUnusable) as error:
        log.logger().error("control_cannot_start", reason=str(error))
        sys.stderr.write(f"hookline control: {error}\n")
        return EXIT_UNUSABLE
    except JournalAway as away:
        log.logger().warning("waiting_for_journal", reason=str(away))
        return 1
    except DatabaseAway as away:
        log.logger().warning("waiting_for_database", reason=str(away))
        return 1
    except OSError as error:
        sys.stderr.write(f"hookline control: {error}\n")
        return 1
    except engine.DatabaseError as error:
        return _ended_by_damage(settings, error)


def _ended_by_damage(settings: Settings, error: Exception) -> int:
    """Say which database is damaged, in one line; what is no damage is a fault of ours, and goes on up."""
    from hookline.database.file_damage import explain

    if not explain(settings.data_path, error):
        raise error
    return 1


def _pages() -> Sequence[ControllerRouterHandler]:
    from hookline.control.pages import routes  # with the first page, not at the start

    return routes()


def notify_of_changes(settings: Settings) -> None:
    """Have control notify the roles beside it of what it commits; on PostgreSQL others commit as well, and they look by
    themselves."""
    if not settings.database.is_local:
        return
    from hookline.database.commits import commits_of
    from hookline.database.location import location_of
    from hookline.journal.reading import CHANGES, Wake

    wakes = [Wake(settings.socket_path(name), CHANGES) for name in ("collect.wake", "deliver.wake")]

    def notify() -> None:
        for wake in wakes:
            wake.poke()

    for which in FOLLOWED:
        if (commits := commits_of(location_of(settings, which))) is not None:
            commits.on_done = notify


def boot_id() -> str | None:
    """Return what all roles under one supervisor share, and no others: the pipe whose end ends them."""
    descriptor = os.environ.get(SUPERVISOR_FD)
    return f"pipe-{os.fstat(int(descriptor)).st_ino}" if descriptor else None


def _run(
    role: str, settings: Settings, main: Callable[[asyncio.Event], Awaitable[int]], ending: Ending | None = None
) -> int:
    import uvloop

    log.configure(role, settings.log.format)
    _prepare(settings)

    ending = ending or Ending()

    async def whole() -> int:
        asyncio.get_running_loop().call_later(FREEZE_SECONDS, gc.freeze)
        return await main(_until_stopped(ending))

    from hookline.database import installation as database
    from hookline.database.commits import any_went_back
    from hookline.database.sqlite import DatabaseAway, DatabaseError, DatabaseUnusable, engine
    from hookline.journal.opening import claim
    from hookline.journal.port import JournalError, JournalUnusable
    from hookline.listening import CannotListen

    try:
        claim(settings)
        database.verify_installation(settings)
        code = uvloop.run(whole())
        code = code or int(any_went_back())  # so that whoever looks after the role starts it again
        ending.finish(code)
        return code
    except (JournalUnusable, DatabaseUnusable, CannotListen) as error:
        sys.stderr.write(f"hookline: {error}\n")
        return EXIT_UNUSABLE
    except (JournalError, DatabaseError, DatabaseAway, OSError) as error:
        sys.stderr.write(f"hookline: {error}\n")
        return 1
    except engine.DatabaseError as error:
        return _ended_by_damage(settings, error)


def _until_stopped(ending: Ending) -> asyncio.Event:
    """Return what is set by a signal to end, or when the supervisor is gone."""
    stop = asyncio.Event()

    def ended() -> None:
        ending.begin()
        stop.set()

    def orphaned(descriptor: int) -> None:
        loop.remove_reader(descriptor)  # a closed pipe stays readable
        ended()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, ended)
    descriptor = os.environ.get(SUPERVISOR_FD)
    if descriptor:
        loop.add_reader(int(descriptor), orphaned, int(descriptor))
    return stop


async def _opened(settings: Settings, connections_file: Path | None) -> Store | None:
    """Wait for a server, until no other control works with the database, while that is of a newer version, and until
    no lock or full disk keeps control from what it writes before it serves; None when told to stop before.

    The turn is kept until the process ends.
    """
    from hookline.database.installation import until_done, wait_for_database, wait_for_leader_lock, wait_for_schema
    from hookline.database.open import count_commits
    from hookline.features.connections.service import open_connections
    from hookline.features.fleet.standing_by import StandingBy

    stop = _until_stopped(Ending())
    await wait_for_database(settings, stop, writes="control")
    await wait_for_leader_lock(settings, "control", stop, StandingBy(settings))
    for which in CONTROLS:
        await wait_for_schema(settings, which, stop)
    if stop.is_set():
        return None
    count_commits(settings, *CONTROLS)
    notify_of_changes(settings)
    opened: list[Store] = []
    await until_done(lambda: opened.append(open_connections(settings, connections_file, boot_id())), stop)
    return opened[0] if opened else None


def _prepare(settings: Settings) -> None:
    """Folders only we may read, as many sockets as allowed, and garbage collection that leaves the hot path alone."""
    os.umask(0o077)
    (settings.data_path / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1_048_576
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):
        pass  # macOS refuses very high limits; the soft limit then stays as it is
    gc.set_threshold(*GARBAGE_THRESHOLDS)
