"""Know sources: when each was last seen, and the schema of what came in."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from hookline.api.services import Services, part
from hookline.beats import seconds_to_beat
from hookline.database.connect import connect, insert_many
from hookline.database.connection import transaction
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.sqlite import engine as sqlite
from hookline.insights.schema import News, SchemaLog, SchemaReader, SchemaStore
from hookline.journal.port import JournalError
from hookline.telemetry.log import logger

_LATER = (
    "ON CONFLICT (source) DO UPDATE SET last_event_at = excluded.last_event_at"
    " WHERE source_activity.last_event_at < excluded.last_event_at"
)


class SourceActivity:
    """The table ``source_activity``; used from one thread at a time."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._connection = connect(location)

    def load(self) -> dict[str, int]:
        """Milliseconds since the epoch by source."""
        return dict(self._connection.execute("SELECT source, last_event_at FROM source_activity").fetchall())

    def of(self, ids: Sequence[str]) -> dict[str, int]:
        """As ``load``, of these sources."""
        marks = ",".join("?" * len(ids))
        query = f"SELECT source, last_event_at FROM source_activity WHERE source IN ({marks})"
        return dict(self._connection.execute(query, tuple(ids)).fetchall())

    def save(self, moved: Mapping[str, int], gone: Iterable[str] = ()) -> None:
        """Remember later times, and forget sources, in one transaction."""
        with transaction(self._connection):
            insert_many(self._connection, "source_activity", ("source", "last_event_at"), list(moved.items()), _LATER)
            self._connection.executemany("DELETE FROM source_activity WHERE source = ?", [(id,) for id in gone])

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._connection.close()


READ_SECONDS = 0.01
REST_SECONDS = 0.05
"""While there is more to read; a sixth of one core at most, and never longer than a page waits for anything."""
CROWDED_REST_SECONDS = 2.0
"""Where others had the core for most of that time: what is read pushes what they work with out of the cache."""
IDLE_SECONDS = 2.0
FAILED_SECONDS = 10.0
LOWEST_PRIORITY = 19
_SCHEDULED = Path("/proc/thread-self/schedstat")


class SchemaWatch:
    """The one loop that reads."""

    def __init__(self, data_path: Path, store: SchemaStore) -> None:
        self._reader = SchemaReader(data_path, store)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schemas", initializer=lowest_priority)

    async def run_forever(self) -> None:
        """Read until cancelled."""
        loop = asyncio.get_running_loop()
        failing = False
        while True:
            try:
                failing, rest = False, await loop.run_in_executor(self._thread, self._read)
            except (sqlite.Error, OSError, JournalError) as error:
                if not failing:
                    logger().warning("schemas_not_followed", error=str(error), next_step="it is tried again")
                failing, rest = True, FAILED_SECONDS
            except Exception:  # noqa: BLE001 - the loop's border: an event we cannot read must not end all schemas
                logger().error("schema_watch_failed", exc_info=True)
                rest = FAILED_SECONDS
            await asyncio.sleep(seconds_to_beat(rest) if rest == IDLE_SECONDS else rest)

    def _read(self) -> float:
        """Read on for a moment; return how long to rest then."""
        before = _kept_waiting_seconds()
        if not self._reader.read(READ_SECONDS):
            return IDLE_SECONDS
        return CROWDED_REST_SECONDS if _kept_waiting_seconds() - before > READ_SECONDS / 2 else REST_SECONDS

    def take_news(self) -> list[News]:
        """Return what was read since the last call: new names, and rejected items; may be called from any thread."""
        news, taken = self._reader.news, []
        with suppress(IndexError):  # the reader appends meanwhile: taken one by one, nothing is lost
            while True:
                taken.append(news.popleft())
        return taken

    def forget(self, is_named: Callable[[str], bool]) -> bool:
        """Forget the names of events and properties of which that is so; for any other thread, which waits for it.
        Return False where it is to be done again."""
        return self._thread.submit(self._reader.forget, is_named).result()

    def run_once(self) -> None:
        """Read to the end, and save."""
        while self._reader.read(IDLE_SECONDS):
            pass
        self._reader.save()

    def close(self) -> None:
        """Save what was noted and stop the thread; idempotent."""
        self._thread.shutdown()
        with suppress(sqlite.Error, OSError):
            self._reader.close()


def _kept_waiting_seconds() -> float:
    """Return how long this thread was ready while others had the core, as far as the system tells (Linux)."""
    try:
        return int(_SCHEDULED.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def lowest_priority() -> None:
    """On Linux a thread has a priority of its own."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


@part
def source_activity(services: Services) -> SourceActivity:
    """Return when each source was last seen."""
    return SourceActivity(location_of(services.settings, "control"))


@part
def schema_store(services: Services) -> SchemaStore:
    """Return where schemas are written."""
    return SchemaStore(location_of(services.settings, "insights"))


@part
def schema_log(services: Services) -> SchemaLog:
    """Return what reads schemas."""
    return SchemaLog(location_of(services.settings, "insights"))


@part
def schema_watcher(services: Services) -> SchemaWatch:
    """Return what writes schemas from what collect saw."""
    return SchemaWatch(services.settings.data_path, schema_store(services))
