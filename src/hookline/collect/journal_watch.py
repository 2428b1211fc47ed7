"""Looking after a journal whose bytes brokers see to: whether they take records, and what is too old."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hookline.collect.server import Edge
from hookline.journal.port import Appender, JournalAway
from hookline.telemetry.log import logger

POLL_SECONDS = 2.0
RETENTION_SECONDS = 30.0


class JournalWatch:
    """Runs for the life of the role; an error that waiting does not mend ends it."""

    def __init__(self, appender: Appender, edge: Edge, steady_ms: Callable[[], int]) -> None:
        self._appender = appender
        self._edge = edge
        self._steady_ms = steady_ms
        self._reason = ""
        self._not_dropped = ""
        """Why old events could not be dropped the last time."""
        self._log = logger()

    async def run(self) -> None:
        """Open the journal as soon as brokers answer, then look after it."""
        self._edge.set_away(True)
        while not await self._opened():  # noqa: ASYNC110 - brokers tell nobody when they are back
            await asyncio.sleep(POLL_SECONDS)
        retained = 0.0
        while True:
            self._tell(await asyncio.to_thread(self._appender.state))
            if not self._reason and time.monotonic() - retained >= RETENTION_SECONDS:
                retained = time.monotonic()
                await self._retain()
            await asyncio.sleep(POLL_SECONDS)

    async def _opened(self) -> bool:
        try:
            await asyncio.to_thread(self._appender.open)
        except JournalAway as away:
            self._tell(str(away))
            return False
        self._tell("")
        return True

    async def _retain(self) -> None:
        try:
            dropped = await asyncio.to_thread(self._appender.retain, self._steady_ms())
        except JournalAway as away:
            if self._not_dropped != (said := str(away)):
                self._not_dropped = said
                next_step = "events older than retention.events stay until the topic's own retention takes them"
                self._log.warning("retention_not_dropped", reason=said, next_step=next_step)
            return
        self._not_dropped = ""
        if dropped:
            self._log.info("retention_dropped", events=dropped)

    def _tell(self, reason: str) -> None:
        self._edge.set_away(bool(reason))
        if reason and reason != self._reason:
            next_step = "events are answered 503 until brokers answer; start them or see what they say"
            self._log.error("journal_away", reason=reason, next_step=next_step)
        elif self._reason and not reason:
            self._log.info("journal_back")
        self._reason = reason
