"""Lets the schemas of sources follow the journal at leisure: in a thread of the lowest priority that rests most of the
time, so that neither collect nor deliver nor the pages wait for it."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from hookline.database.sqlite import engine as sqlite
from hookline.insights.schema_reader import SchemaReader
from hookline.insights.schema_store import SchemaStore
from hookline.journal.port import JournalError
from hookline.telemetry.log import logger

READ_SECONDS = 0.01
REST_SECONDS = 0.05
"""While there is more to read; a sixth of one core at most, and never longer than a page waits for anything."""
IDLE_SECONDS = 1.0
FAILED_SECONDS = 10.0
LOWEST_PRIORITY = 19


class SchemaWatch:
    """The one loop that reads."""

    def __init__(self, data_path: Path, store: SchemaStore) -> None:
        self._reader = SchemaReader(data_path, store)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schemas", initializer=_step_back)

    async def run_forever(self) -> None:
        """Read until cancelled."""
        loop = asyncio.get_running_loop()
        failing = False
        while True:
            try:
                more = await loop.run_in_executor(self._thread, self._reader.read, READ_SECONDS)
                failing, rest = False, REST_SECONDS if more else IDLE_SECONDS
            except (sqlite.Error, OSError, JournalError) as error:
                if not failing:
                    logger().warning("schemas_not_followed", error=str(error), next_step="it is tried again")
                failing, rest = True, FAILED_SECONDS
            except Exception:  # noqa: BLE001 - the loop's border: an event we cannot read must not end all schemas
                logger().error("schema_watch_failed", exc_info=True)
                rest = FAILED_SECONDS
            await asyncio.sleep(rest)

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


def _step_back() -> None:
    """On Linux a thread has a priority of its own."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
