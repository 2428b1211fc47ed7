"""Carries deletion requests out, one after the other; what it did is written down step by step, so that a restart goes
on where it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hookline.control.suppressed_usage import SuppressedUsage
from hookline.database.sqlite import engine
from hookline.journal.port import JournalError
from hookline.privacy.model import DeletionRequest, request_id
from hookline.privacy.requests import Requests
from hookline.privacy.search import search
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

LOOK_SECONDS = 1.0


class DeletionWatch:
    """Looks once a second, and at once when a request was made."""

    def __init__(self, data_path: Path, requests: Requests, usage: SuppressedUsage) -> None:
        self._data_path = data_path
        self._requests = requests
        self._usage = usage
        self._asked = asyncio.Event()

    def wake(self) -> None:
        """A request was made; for the event loop's thread."""
        self._asked.set()

    async def run_forever(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                self._usage.note()
                await self.look()
            except (engine.Error, OSError, JournalError) as error:
                logger().warning("deletion_delayed", error=str(error), next_step="it goes on in a second")
            try:
                await asyncio.wait_for(self._asked.wait(), LOOK_SECONDS)
            except TimeoutError:
                pass
            self._asked.clear()

    async def look(self) -> None:
        """Take every request that is under way as far as it goes now."""
        for request in self._requests.under_way():
            await self._advance(request)

    async def _advance(self, request: DeletionRequest) -> None:
        people = self._requests.people(request.number)
        given = [person.user_id or "" for person in people]
        found = await asyncio.to_thread(search, self._data_path, given)
        crash_point("privacy.looked_up")
        self._requests.suppress_found(request.number, request.author, [tuple(ids) for ids in found.ids])
        logger().info("deletion_request_done", request=request_id(request.number), people=len(people))
