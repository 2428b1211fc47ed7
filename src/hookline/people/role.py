"""The profiles role: follows the journal behind everybody else, keeps the database of people, and tells
destinations the news.

It runs at the lowest priority, in steps of one batch. Whatever it cannot do now (the disk is full) it tries again.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hookline.connections.model import Snapshot
from hookline.connections.state import Feed
from hookline.database.location import location_of
from hookline.database.outages import OUTAGES
from hookline.database.sqlite import DatabaseNotMade
from hookline.database.sqlite import engine as sqlite
from hookline.database.steady_clock import steady_clock_of
from hookline.freed_memory import EVERY_SECONDS, give_back
from hookline.journal.opening import journal_in
from hookline.journal.port import JournalError
from hookline.journal.remote import RemoteAppender
from hookline.people.definitions.definition import Key, in_order
from hookline.people.definitions.feature import Feature, windows_of
from hookline.people.ingest.cpu_throttle import CpuThrottle, lower_priority, processors
from hookline.people.ingest.erasing import Erasures, Trim
from hookline.people.ingest.ingest import BATCH_RECORDS, Backfill, Ingest
from hookline.people.previews import PreviewRequests, Previews
from hookline.people.store.catalog import FeatureCatalog, Span, Windows
from hookline.people.store.store import ProfileStore
from hookline.people.sync.results import SyncRequests
from hookline.people.sync.sync import Sync
from hookline.privacy.shared_erased import ErasureFeed
from hookline.privacy.suppressions import SuppressionLookup
from hookline.settings import Settings
from hookline.telemetry import metrics
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

POLL_SECONDS = 0.25
"""From one look at the journal's end to the next while there is nothing to read."""
PUBLISH_SECONDS = 1.0
FAILED_SECONDS = 2.0
AHEAD_RECORDS = 4 * BATCH_RECORDS
"""How much there has to be to read for another process to read ahead."""
ALONE_SECONDS = 30.0
"""Without another process once the machine was busy, or that process failed."""
NOTHING: frozenset[Feature] = frozenset()


class ProfilesRole:
    """Everything of one profiles process."""

    def __init__(self, settings: Settings) -> None:
        data = settings.data_path
        self._run_folder = data / "run"
        self._journal_folder = data / "journal"
        self._steady = steady_clock_of(settings)
        backend = journal_in(self._journal_folder)
        self.journal = backend.reader()
        self.store = ProfileStore(location_of(settings, "profiles"), settings.people.search_traits)
        self.registry = FeatureCatalog(self.store)
        self.ingest = Ingest(self.journal, self.store)
        self.ingest.keep(self.registry.features())
        self.backfill = Backfill(self.journal, self.store, self.registry)
        self.trim = Trim(self.store, self.registry)
        self.sync = Sync(self.store)
        self.sync_requests = SyncRequests(self._run_folder)
        previews = PreviewRequests(self._run_folder)
        self.previews = Previews(self.store, self.registry, self.ingest, self.backfill, self.sync, previews)
        self.feed = Feed(location_of(settings, "control"), kinds=("destination", "audience", "computedTrait"))
        self.erasure_feed = ErasureFeed(location_of(settings, "privacy"))
        self.suppressions = SuppressionLookup(location_of(settings, "privacy"), data)
        self.erasures = Erasures(self.store, self.ingest, self.erasure_feed, backend)
        self._latest: Snapshot | None = None
        self._snapshot: Snapshot | None = None
        """The latest, until it is taken."""
        self._wanted = self.registry.wanted()
        """The features that definitions ask for, each with its window in milliseconds (None: no end)."""
        self._asks_anew = False
        self.appender = RemoteAppender(settings.socket_path("collect.sock"))
        self._batches = [0] * (len(metrics.DURATION_BUCKETS_MS) + 1)
        self._batches_ms = 0
        self._failing = False
        self._failures = 0
        self._published = 0.0
        self._lag = 0
        self._left = 0
        """Events that were to be read, as last published: at the journal's end, and of its past."""
        self._alone_until = 0.0
        self._gave_back = 0.0
        self._log = logger()

    def keep(self, wanted: Windows) -> None:
        """Keep the history of exactly these features from now on, each for its window in milliseconds (None: no end),
        and of those that previews ask for.

        What the journal still has is read up for new ones; between batches only.
        """
        spans = {p: Span(self.journal.start(p), self.ingest.position(p).next_offset) for p in self.journal.partitions()}
        self.registry.keep(wanted, spans, self.previews.wanted())
        self.ingest.keep(self.registry.features())

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the journal until told to stop; a batch that has begun is finished."""
        lower_priority()
        throttle = CpuThrottle()
        self._log.info("following", persons=self.ingest.person_count)
        while not stop.is_set():
            failures = self._failures
            worked = self.work()
            worked = await self._sync() or worked
            self._failing = self._failures > failures
            if worked and time.monotonic() - self._gave_back >= EVERY_SECONDS:
                self._gave_back = time.monotonic()
                give_back()
            rest = throttle.rest_seconds()
            if throttle.is_busy:
                self._read_alone()
            await self._rest(stop, FAILED_SECONDS if self._failing else rest if worked else POLL_SECONDS)
        await self.appender.close()
        self.close()

    async def _rest(self, stop: asyncio.Event, seconds: float) -> None:
        """Wait so long, or until told to stop or to erase somebody; how far behind it is, is told meanwhile."""
        ends = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._published >= PUBLISH_SECONDS:
                self._published = time.monotonic()
                self._publish()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), min(seconds, PUBLISH_SECONDS))
            seconds = ends - time.monotonic()
            if stop.is_set() or seconds <= 0:
                return
            with suppress(sqlite.Error, OSError):  # the next step meets it again, and says so
                if self.erasures.look():
                    return

    def work(self) -> bool:
        """Take one step of everything there is to do; return whether there was anything."""
        try:
            self.follow_definitions()
            self._take_requests()
            if self.erasures.follow(int(time.time() * 1000)):
                self.previews.begin_again()
                return True  # whoever is next does not wait for what may take its time
            worked = self._read() or self.erasures.is_under_way
            worked = self._look_at_people() or worked
        except (sqlite.Error, JournalError, OSError) as error:
            self._failed(error)
            return False
        store = self.store
        steps = (store.chunks.put_together, store.trait_chunks.fold, self.backfill.step, store.search.step)
        for step in (*steps, self.registry.let_go):
            worked = self._took(step) or worked
        return worked or self._took(lambda: self.trim.step(self._steady.now_ms()))

    def _took(self, step: Callable[[], bool]) -> bool:
        """Take a step that others do not wait for, also where it fails whenever it is taken."""
        try:
            return step()
        except (sqlite.Error, JournalError, OSError) as error:
            self._failed(error)
            return False

    def follow_definitions(self) -> None:
        """Keep what the audiences and computed traits ask for, and previews of some, if those changed."""
        try:
            changed = self.feed.poll()
        except DatabaseNotMade:  # there are no definitions yet, or control is about to bring them to a newer schema
            changed = None
        self._latest = changed or self._latest
        # After a failure what is in memory may not be what was written: the answer to a commit may get lost.
        if changed is not None or self._failing:
            self._snapshot = self._latest
        self._asks_anew = self.previews.follow(int(time.time() * 1000)) or self._asks_anew
        if self._snapshot is not None:
            self._take(self._snapshot)
            self._snapshot = None
        if self._asks_anew:
            self.keep(self._wanted)
            self._asks_anew = False

    def _take(self, snapshot: Snapshot) -> None:
        audiences, traits = snapshot.audiences, snapshot.computed_traits
        kinds = {each.id: each.kind for each in snapshot.destinations}
        made_in = self.feed.made()
        made: dict[Key, int] = {
            **{("audience", each.id): made_in.get(("audience", each.id), snapshot.version) for each in audiences},
            **{("trait", each.id): made_in.get(("computedTrait", each.id), snapshot.version) for each in traits},
        }
        ready = in_order(audiences, traits, kinds)
        # Of those alone that are followed now: one that stays disabled would have all changes since then read.
        followed = self.sync.followed()
        versions = [followed[each.key] for each in ready if each.key in followed]
        since = self.feed.definitions_after(min(versions)) if versions else ()
        self.sync.follow(ready, made, snapshot.version, since)
        self.previews.traits = {each.id: each for each in traits}
        # Of disabled ones too: the journal may not have it any more when they are enabled again.
        self._wanted = windows_of([*audiences, *traits])
        self._asks_anew = True

    def _take_requests(self) -> None:
        for key in self.sync_requests.asked():
            if self.sync.bring_forward(key):
                self.sync_requests.done(key)

    def _look_at_people(self) -> bool:
        """Take a step of a sync or, when none is due, of a preview."""
        now_ms = self._steady.now_ms()  # nobody leaves an audience because a clock was set
        near = self.ingest.lag() <= BATCH_RECORDS  # what is said of people should not be long out of date
        return (near and self.sync.evaluate(now_ms, self._unready())) or self.previews.step(now_ms)

    def _unready(self) -> frozenset[Feature]:
        unready = self.registry.unready()
        if not unready:
            return NOTHING
        return frozenset(feature for feature, id in self.registry.for_definitions().items() if id in unready)

    async def _sync(self) -> bool:
        """Bring the next messages of a sync into the journal, but for those about people who are suppressed or being
        erased; return whether there was a sync to go on with."""
        try:
            found = self.sync.to_send(now_ms := int(time.time() * 1000))
            if found is None:
                return False
            sending, messages = found
            withheld: set[int] = set()
            if messages:
                ids = self.suppressions.withheld(record.user_key for _, record in messages)
                withheld = {person for person, record in messages if record.user_key in ids}
                await self.appender.append([record for person, record in messages if person not in withheld])
                crash_point("profiles.appended")
            self.sync.sent(sending, [person for person, _ in messages], now_ms, withheld)
        except (sqlite.Error, JournalError, OSError) as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        if not self._failing:
            self._log.error("profiles_not_followed", error=str(error), next_step="it is tried again")
            self._failing = True
        self._failures += 1

    def close(self) -> None:
        """Let go of the files and threads."""
        self.erasures.close()
        self.ingest.read_alone()
        self.store.close()
        self.journal.close()
        self.feed.close()
        self.erasure_feed.close()
        self.suppressions.close()

    def _read(self) -> bool:
        began = time.monotonic()
        try:
            if began >= self._alone_until and self.ingest.lag() >= AHEAD_RECORDS and processors() > 1:
                self.ingest.read_ahead(self._journal_folder)
            if not self.ingest.step():
                return False
        except OSError:
            self._read_alone()
            raise
        milliseconds = round((time.monotonic() - began) * 1000)
        self._batches[bisect_left(metrics.DURATION_BUCKETS_MS, milliseconds)] += 1
        self._batches_ms += milliseconds
        return True

    def _read_alone(self) -> None:
        """Leave the other processors to the others for a while."""
        self._alone_until = time.monotonic() + ALONE_SECONDS
        self.ingest.read_alone()

    def _publish(self) -> None:
        with suppress(sqlite.Error, JournalError, OSError):  # as they were when that could be told
            self._lag, self._left = self.ingest.lag(), self.backfill.left()
        lag = self._lag
        behind_ms = (
            int(time.time() * 1000) - self.ingest.last_received_at if lag and self.ingest.last_received_at else 0
        )
        values: dict[str, Any] = {
            "hookline_profiles_applied_total": self.ingest.applied,
            "hookline_profiles_missed_total": sum(position.missed for position in self.ingest.positions.values()),
            "hookline_profiles_lag_events": lag,
            "hookline_profiles_lag_seconds": behind_ms / 1000,
            "hookline_profiles_persons": self.ingest.person_count,
            "hookline_profiles_synced_total": self.sync.sent_total,
            "hookline_profiles_database_trouble": OUTAGES.gauge(),
            "hookline_profiles_backfill_events": self._left,
            "hookline_profiles_batch_seconds": metrics.histogram(
                metrics.DURATION_BUCKETS_MS, self._batches, self._batches_ms
            ),
        }
        troubles = {**OUTAGES.codes(), "not_following": self._failing}
        metrics.publish(self._run_folder, "profiles", values, troubles)
