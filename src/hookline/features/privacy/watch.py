"""Carries deletion requests out, one after the other; what it did is written down step by step, so that a restart goes
on where it was, and every step may be done twice.

A request to delete is looked up; receivers are told and the journal overwritten; deliver and profiles take away what
they keep; and when every receiver has acknowledged, or given up on, the delete messages go the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hookline.connections.store import Store
from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.database.sqlite import DatabaseAway, engine
from hookline.features.privacy.erased_profiles import ErasedProfiles
from hookline.features.privacy.forgetting import Forgetting
from hookline.features.privacy.messages import DeletionMessages
from hookline.features.privacy.suppressed_usage import SuppressedUsage
from hookline.journal.port import JournalError
from hookline.journal.remote import RemoteAppender
from hookline.privacy.model import DeletionRequest, Erased, request_id
from hookline.privacy.requests import Planned, Requests
from hookline.privacy.search import SearchResult, search, synced
from hookline.settings import Settings
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

POLL_SECONDS = 0.5


class DeletionWatch:
    """Looks twice a second, and at once when a request was made."""

    def __init__(
        self,
        settings: Settings,
        connections: Store,
        requests: Requests,
        messages: DeletionMessages,
        journal: RemoteAppender,
        forgetting: Forgetting,
        usage: SuppressedUsage,
    ) -> None:
        self._data_path = settings.data_path
        self._connections = connections
        self._requests = requests
        self._messages = messages
        self._journal = journal
        self._forgetting = forgetting
        self._usage = usage
        self._usage_fails = False
        self._deliver = ReadOnly(location_of(settings, "deliver"))
        self._profiles = ErasedProfiles(settings)
        self._asked = asyncio.Event()

    def wake(self) -> None:
        """A request was made; for the event loop's thread."""
        self._asked.set()

    def close(self) -> None:
        """Let go of files; idempotent."""
        self._deliver.close()
        self._profiles.close()

    async def run_forever(self) -> None:
        """Look until cancelled."""
        while True:
            self._note_usage()
            try:
                await self.look()
            except DatabaseAway:
                pass  # nor can requests be found now
            try:
                await asyncio.wait_for(self._asked.wait(), POLL_SECONDS)
            except TimeoutError:
                pass
            self._asked.clear()

    def _note_usage(self) -> None:
        try:
            self._usage.note()
        except DatabaseAway:
            return  # the pool has said so
        except (engine.Error, OSError) as error:
            if not self._usage_fails:
                logger().warning("suppressed_usage_not_noted", error=str(error))
            self._usage_fails = True
            return
        self._usage_fails = False

    async def look(self) -> None:
        """Take every request that is under way as far as it goes now; what fails is tried again at the next look."""
        for request in self._requests.under_way():
            try:
                await self._advance(request)
            except DatabaseAway:
                raise
            except (engine.Error, OSError, JournalError) as error:
                logger().warning("deletion_delayed", request=request_id(request.number), error=str(error))

    async def _advance(self, request: DeletionRequest) -> None:
        """Do steps until one has to wait for somebody else."""
        steps: dict[str, Callable[[DeletionRequest], object]] = {
            "looking": self._look_up,
            "erasing": self._erase,
            "clearing": self._clear,
            "waiting": self._follow_up,
        }
        current: DeletionRequest | None = request
        while current is not None and current.state != "done":
            done = steps[current.state](current)
            if asyncio.iscoroutine(done):
                await done
            before, current = current, self._requests.get(current.number)
            if current is None or (current.state, current.round) == (before.state, before.round):
                return
        logger().info("deletion_request_done", request=request_id(request.number), people=request.people)

    async def _look_up(self, request: DeletionRequest) -> None:
        if request.action == "both":  # so that what is looked up is all there is
            await self._journal.refresh()
        people = self._requests.people(request.number)
        given = [person.user_id or "" for person in people]
        known, sources = self._profiles.ids_of(given), self._profiles.sources_of(given)
        found = await asyncio.to_thread(search, self._data_path, given, None, lambda id: known.get(id, ()))
        for events, gave_traits in zip(found.events, sources, strict=True):
            events.update(dict.fromkeys(gave_traits, 0))  # they had data of the person, and are told too
        crash_point("privacy.looked_up")
        if request.action == "suppress":
            self._requests.suppress_found(request.number, request.author, [tuple(ids) for ids in found.ids])
            return
        await asyncio.to_thread(self._forgetting.forget, set(found.owners()), found.message_ids)
        self._requests.plan(request, found, self._planned(found))

    def _planned(self, found: SearchResult) -> list[Planned]:
        """Return who is told: for each person every source that has data of them, at its enabled destinations."""
        by_source: dict[str, list[str]] = {}
        for stored in self._connections.destinations():
            if stored.lane is not None:
                for source in stored.object.sources:
                    by_source.setdefault(source, []).append(stored.object.id)
        return [
            (person, source, count, tuple(by_source.get(source, ())))
            for person, events in enumerate(found.events)
            for source, count in sorted(events.items())
        ]

    async def _erase(self, request: DeletionRequest) -> None:
        await self._messages.send(request)
        crash_point("privacy.told")
        for partition, places in self._requests.places(request.number).items():
            await self._journal.erase(partition, list(places))
        crash_point("privacy.journal_erased")
        self._requests.clear(request.number)

    async def _clear(self, request: DeletionRequest) -> None:
        connection = self._deliver.open()
        row = None
        if connection is not None:
            row = connection.execute(
                "SELECT retries, dead_letters, attempts FROM erasures"
                ' WHERE request = ? AND asked_at = ? AND "round" = ? AND done_at IS NOT NULL',
                (request.number, request.at_ms, request.round),
            ).fetchone()
        profiles = self._profiles.answer(request)
        if row is None or profiles is None:
            return
        retries, dead_letters, attempts = row
        erased = Erased(0, retries, dead_letters, attempts, *profiles)
        # A sync may have told something about them between the look-up and the end of their profile.
        ids = frozenset(id for person in self._requests.people(request.number) for id in person.identities or ())
        told = await asyncio.to_thread(synced, self._data_path, ids) if ids and self._profiles.exist else {}
        if told:
            self._requests.clear_again(request, erased, told)
        else:
            self._requests.wait(request, erased)

    async def _follow_up(self, request: DeletionRequest) -> None:
        await self._messages.send(request)
        if not await self._messages.all_closed(request):
            return
        places = await self._messages.places(request)
        if places:
            self._requests.begin_round(request, places)
        else:
            self._requests.finish(request.number)
