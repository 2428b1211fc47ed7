"""Carry deletion requests out, one after the other, each step written down first, and count what came in of suppressed
people.

Of these, collect counts from its start on and stores nothing of these events, so what it counted in its last second
before it was killed is not known.

A request to delete is looked up; receivers are told and the journal overwritten; deliver and profiles take away what
they keep; and when every receiver has acknowledged, or given up on, the delete messages go the same way.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import date, timedelta
from itertools import chain

from hookline.api.services import Services, control_database, part
from hookline.beats import Bell
from hookline.connections.model import is_sink
from hookline.connections.store import Store
from hookline.database.connection import replacing
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseAway, engine
from hookline.features.events.service import event_log
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.fleet.service import role_metrics
from hookline.features.privacy.forgetting import ErasedIds, ErasedProfiles, EverSentTo, Forgetting
from hookline.features.privacy.messages import DeletionMessages
from hookline.features.replays.planning import Planner
from hookline.features.replays.service import replay_planner, replay_store
from hookline.features.sources.service import schema_watcher
from hookline.features.usage.service import EPOCH, By
from hookline.journal.port import JournalError
from hookline.journal.record import SYNC_SOURCE
from hookline.journal.remote import RemoteAppender
from hookline.outcomes.reader import DeliverReader
from hookline.people.definitions.definition import Key
from hookline.privacy import id_digest, identities
from hookline.privacy.id_digest import IdDigests
from hookline.privacy.identities import Identities
from hookline.privacy.model import DeletionRequest, Erased, Messages, Person, request_id
from hookline.privacy.requests import Planned, Requests
from hookline.privacy.search import SearchResult, message_ids, search, synced
from hookline.privacy.suppressions import LogNotEmptied, PrivacyStore, Suppressions, TooManySuppressed
from hookline.settings import Settings
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger
from hookline.telemetry.metrics import PROCESS_STARTED

METRIC = "hookline_collect_suppressed_total"
DAY_SECONDS = 86_400
_PUT_SEEN = replacing("suppressed_seen", ("source",), ("started", "events"))


class SuppressedUsage:
    """Adds up what is new since the last look, also across restarts of either role."""

    def __init__(self, store: PrivacyStore, metrics: RoleMetrics, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._last: tuple[float, dict[str, float]] | None = None
        """When collect started, and its counts: another process may come to the same ones."""

    def note(self) -> None:
        """Look once; without anything new nothing is written."""
        report = self._metrics.report("collect")
        counts = report.by_label(METRIC) if report is not None else {}
        if report is None or not counts or (report.number(PROCESS_STARTED), counts) == self._last:
            return
        started, day = report.number(PROCESS_STARTED), int(self._clock() // DAY_SECONDS)
        with self._store.database.transaction() as execute:
            for source, count in counts.items():
                row = execute("SELECT started, events FROM suppressed_seen WHERE source = ?", (source,)).fetchone()
                new = count - (row[1] if row is not None and row[0] == started else 0)
                execute(
                    "INSERT INTO suppressed_usage (day, source, events) VALUES (?, ?, ?)"
                    " ON CONFLICT (day, source) DO UPDATE SET"
                    " events = suppressed_usage.events + excluded.events",
                    (day, source, int(new)),
                )
                execute(_PUT_SEEN, (source, started, int(count)))
        self._last = started, counts

    def counts(self, first: date, last: date, by: By, source: str | None) -> dict[tuple[str, str], int]:
        """Return the counts of these days by (period, source)."""
        rows = self._store.database.rows(
            "SELECT day, source, events FROM suppressed_usage"
            " WHERE day >= ?1 AND day <= ?2 AND events > 0 AND (source = ?3 OR ?3 IS NULL)",
            ((first - EPOCH).days, (last - EPOCH).days, source),
        )
        sums: Counter[tuple[str, str]] = Counter()
        for day, name, events in rows:
            period = (EPOCH + timedelta(days=day)).isoformat()
            sums[period if by == "day" else period[:7], name] += events
        return dict(sums)


POLL_SECONDS = 0.5
"""While requests are under way."""
FOLLOWED_SECONDS = 0.5
"""Of one look, for requests that wait for receivers: there may be thousands, and others are to be carried out."""
REST_SECONDS = 1.0


EXPECTED = (engine.Error, OSError, JournalError, TooManySuppressed, LogNotEmptied)
"""Errors that a request may meet; for any other the log shows where it happened."""


class DeletionWatch:
    """Looks once a second, twice while requests are under way, and at once when one was made."""

    def __init__(
        self,
        settings: Settings,
        connections: Store,
        requests: Requests,
        messages: DeletionMessages,
        journal: RemoteAppender,
        forgetting: Forgetting,
        usage: SuppressedUsage,
        planner: Planner,
    ) -> None:
        self._data_path = settings.data_path
        self._connections = connections
        self._requests = requests
        self._messages = messages
        self._journal = journal
        self._forgetting = forgetting
        self._planner = planner
        self._usage = usage
        self._usage_fails = False
        self._followed = 0
        """The last request that was looked at while it waited for receivers: the next look goes on behind it."""
        self._delayed: dict[int, str] = {}
        """By request what it waits for, as it was said last: it is tried twice a second, and may wait for days."""
        self._deliver = DeliverReader(location_of(settings, "deliver"))
        self._profiles = ErasedProfiles(settings)
        self._sent_to = EverSentTo(location_of(settings, "control"))
        self._asked = Bell()

    def wake(self) -> None:
        """A request was made; for the event loop's thread."""
        self._asked.ring()

    def delay(self, request: int) -> str | None:
        """Return why a request does not go on, None when the last try took it on or it waits for a receiver."""
        return self._delayed.get(request)

    def close(self) -> None:
        """Let go of files; idempotent."""
        self._deliver.close()
        self._profiles.close()
        self._sent_to.close()

    async def run_forever(self) -> None:
        """Look until cancelled."""
        while True:
            self._note_usage()
            is_asked = False
            try:
                is_asked = await self.look()
            except DatabaseAway:
                pass  # nor can requests be found now
            await self._asked.rest(POLL_SECONDS if is_asked else REST_SECONDS)

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

    async def look(self) -> bool:
        """Take every request that is under way as far as it goes now, of those that wait for receivers as many as there
        is time for; return whether there were any. What fails is tried again at the next look."""
        await asyncio.to_thread(self._requests.empty_log)
        requests = await asyncio.to_thread(self._requests.under_way)
        away: DatabaseAway | None = None
        for request in requests:
            try:
                if request.state != "waiting":
                    await self._take_on(request)
            except DatabaseAway as error:  # which those that wait may do without
                away = error
                break
        until = time.monotonic() + FOLLOWED_SECONDS
        for request in await asyncio.to_thread(self._due, [each for each in requests if each.state == "waiting"]):
            self._followed = request.number
            await self._take_on(request)
            if time.monotonic() >= until:
                break
        if away is not None:
            raise away
        return bool(requests)

    async def _take_on(self, request: DeletionRequest) -> None:
        try:
            await self._advance(request)
            self._delayed.pop(request.number, None)
        except DatabaseAway as error:  # the pool has said so
            self._delayed[request.number] = str(error)
            raise
        except Exception as error:  # noqa: BLE001 - one request's border: no fault of it keeps the others waiting
            if self._delayed.get(request.number) != str(error):
                logger().warning(
                    "deletion_delayed",
                    request=request_id(request.number),
                    error=str(error),
                    exc_info=not isinstance(error, EXPECTED),
                )
            self._delayed[request.number] = str(error)

    def _due(self, waiting: Sequence[DeletionRequest]) -> list[DeletionRequest]:
        """Return those that may go on now, first those behind the last one that was looked at."""
        due = self._messages.due(waiting)
        found = [each for each in waiting if each.number in due]
        return sorted(found, key=lambda each: (each.number <= self._followed, each.number))

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
        await asyncio.to_thread(self._plan, request)

    def _plan(self, request: DeletionRequest) -> None:
        """Look everything up and write down what is to be done; a thousand people take too long for an event loop."""
        people = self._requests.people(request.number)
        given = [person.user_id or "" for person in people]
        known, sources = self._profiles.ids_of(given), self._profiles.sources_of(given)
        found = search(self._data_path, given, None, lambda id: known.get(id, {}))
        for events, gave_traits in zip(found.events, sources, strict=True):
            events.update(dict.fromkeys(gave_traits, 0))  # they had data of the person, and are told too
        self._add_synced(found, self._profiles.synced_by(given))
        crash_point("privacy.looked_up")
        if request.action == "suppress":
            self._requests.suppress_found(request.number, request.author, found.ids)
            return
        self._forget(found)
        self._requests.plan(request, found, self._planned(found), self._disabled_sinks())

    def _forget(self, found: SearchResult) -> None:
        ids = set(found.owners())
        slices = message_ids(self._data_path, found.positions)
        for some in chain([next(slices, set[str]())], slices):
            self._forgetting.forget(ids, some)
            self._planner.forget(ids, some)

    def _add_synced(self, found: SearchResult, synced_by: Sequence[Collection[Key]]) -> None:
        """Note where syncs have sent something about each person, also what the journal no longer holds: wherever their
        definitions ever sent it."""
        ever = self._sent_to.destinations(chain(*synced_by))
        for synced_to, definitions, events in zip(found.synced_to, synced_by, found.events, strict=True):
            synced_to.update(*(ever[definition] for definition in definitions))
            if synced_to:
                events[SYNC_SOURCE] += 0

    def _planned(self, found: SearchResult) -> list[Planned]:
        """Return who is told: for each person every source that has data of them, at its enabled destinations, and the
        destinations that have data of them from syncs alone. What Hookline writes itself may have rows of anybody whose
        events are gone."""
        by_source: dict[str, list[str]] = {}
        enabled = [stored.object for stored in self._connections.destinations() if stored.lane is not None]
        for destination in enabled:
            for source in destination.sources:
                by_source.setdefault(source, []).append(destination.id)
        has_disabled = bool(self._disabled_sinks())
        planned: list[Planned] = []
        for person, (events, synced_to) in enumerate(zip(found.events, found.synced_to, strict=True)):
            reached = {id for source in events for id in by_source.get(source, ())}
            others = [
                each.id for each in enabled if (each.id in synced_to or is_sink(each.kind)) and each.id not in reached
            ]
            if others or has_disabled:
                events[SYNC_SOURCE] += 0
            for source, count in sorted(events.items()):
                to = others if source == SYNC_SOURCE else by_source.get(source, ())
                planned.append((person, source, count, tuple(to)))
        return planned

    def _disabled_sinks(self) -> list[str]:
        """Return the destinations whose rows nobody searches."""
        stored = (each for each in self._connections.destinations() if each.lane is None)
        return [each.object.id for each in stored if is_sink(each.object.kind)]

    async def _erase(self, request: DeletionRequest) -> None:
        await self._messages.send(request)
        crash_point("privacy.sent")
        for partition, positions in self._requests.positions(request.number).items():
            await self._journal.erase(partition, list(positions))
        crash_point("privacy.journal_erased")
        ids = {id for each in self._requests.people(request.number) for id in each.identities or ()}
        self._planner.forget(ids, is_named=ErasedIds(ids).are_in)  # found before they were erased, as names were
        await asyncio.to_thread(self._forgetting.forget_names, ids)
        self._requests.clear(request.number)

    async def _clear(self, request: DeletionRequest) -> None:
        rows = self._deliver.erased(request.number, request.at_ms, request.round)
        profiles = self._profiles.answer(request)
        if rows is None or profiles is None:
            return
        erased = Erased(0, *rows, *profiles)
        if await self._clear_again(request, erased):
            return
        await asyncio.to_thread(self._requests.wait, request, erased)

    async def _clear_again(self, request: DeletionRequest, erased: Erased) -> bool:
        """Have erased what was stored about the people since the look-up; return whether there was anything."""
        people = self._requests.people(request.number)
        ids: Identities = {}
        for person in people:
            identities.add(ids, person.identities or {})
        if not ids:  # they are forgotten, and these were the delete messages
            return False
        if request.action == "both":
            # Of the further ids collect has heard with the plan, and took events until then.
            await self._journal.refresh()
            found = await asyncio.to_thread(self._search_again, request, people)
            # What is refused goes on to be taken where it names them by chance or cannot be read: it alone is no reason
            # for a third time, and without a user for no second one.
            are_theirs = found.has_accepted or (request.round == 1 and any(events.total() for events in found.events))
            if are_theirs:
                await asyncio.to_thread(self._forget, found)
                self._requests.plan_again(request, erased, found, self._planned(found))
            return are_theirs
        # A sync may have told something about them between the look-up and the end of their profile.
        users = frozenset(id for id, is_user in ids.items() if is_user)  # a sync is about users alone
        synced_to = await asyncio.to_thread(synced, self._data_path, users) if self._profiles.exist else {}
        if synced_to:
            self._requests.clear_again(request, erased, synced_to)
        return bool(synced_to)

    def _search_again(self, request: DeletionRequest, people: Sequence[Person]) -> SearchResult:
        known = {person.user_id or "": person.identities or {} for person in people}
        found = search(self._data_path, list(known), None, lambda id: known.get(id, {}))
        for number, source in self._requests.sources(request.number):
            found.events[number][source] += 0  # their destinations have their messages already
        return found

    async def _follow_up(self, request: DeletionRequest) -> None:
        await self._messages.send(request)
        if not await self._messages.all_closed(request):
            return
        positions = await self._messages.positions(request)
        if positions:
            self._requests.begin_round(request, positions)
        else:
            await asyncio.to_thread(self._requests.finish, request.number)  # which waits for readers of the log


@part
def privacy_store(services: Services) -> PrivacyStore:
    """Return ``privacy.db``."""
    return PrivacyStore(location_of(services.settings, "privacy"))


@part
def id_digests(services: Services) -> IdDigests:
    """Return the keyed hashes of people's ids; raise PrivacyKeyError when the key is not the installation's."""
    location = location_of(services.settings, "privacy")
    return id_digest.load_shared(location, privacy_store(services).database, services.settings.data_path)


@part
def suppressions(services: Services) -> Suppressions:
    """Return who is suppressed."""
    return Suppressions(privacy_store(services), id_digests(services))


@part
def suppressed_usage(services: Services) -> SuppressedUsage:
    """Return how much came in of suppressed people."""
    return SuppressedUsage(privacy_store(services), role_metrics(services))


@part
def deletion_requests(services: Services) -> Requests:
    """Return the deletion requests."""
    return Requests(privacy_store(services), id_digests(services), suppressions(services))


@part
def delete_messages(services: Services) -> Messages:
    """Return the delete messages that were sent."""
    return Messages(privacy_store(services), services.store.steady_ms)


@part
def deletion_watch(services: Services) -> DeletionWatch:
    """Return what carries out deletion requests."""
    settings, store = services.settings, services.store
    requests, journal = deletion_requests(services), RemoteAppender(settings.socket_path("collect.sock"))
    messages = DeletionMessages(
        settings.data_path,
        delete_messages(services),
        requests,
        journal,
        event_log(services),
        store.steady_ms,
        lambda: [stored.object.id for stored in store.destinations() if is_sink(stored.object.kind)],
    )
    forgetting = Forgetting(control_database(services), replay_store(services), schema_watcher(services).forget)
    usage, planner = suppressed_usage(services), replay_planner(services)
    return DeletionWatch(settings, store, requests, messages, journal, forgetting, usage, planner)
