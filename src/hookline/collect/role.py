"""The collect role: the journal's one appender behind the public edge, following the connections."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hookline.beats import Bell, next_beat
from hookline.collect.before_opening import JournalEnds, KeptConnections, ask_server, keep_ends_noted
from hookline.collect.server import Edge, connections_allowed
from hookline.connections.model import Snapshot
from hookline.connections.state import Feed
from hookline.database.installation import wait_for_database
from hookline.database.location import location_of
from hookline.database.outages import OUTAGES
from hookline.database.read_only import Unread
from hookline.database.sqlite import DatabaseAway, DatabaseNotMade, DatabaseUnreadable
from hookline.database.steady_clock import KEEP_SECONDS, steady_clock_of
from hookline.journal.opening import FOLDER, journal_in
from hookline.journal.port import Appender, JournalAway, JournalBackend, JournalError, JournalFailed, Needed
from hookline.journal.reading import listen_for_wakes, take_wakes
from hookline.journal.remote import serve_append
from hookline.listening import has_successor, listening_at
from hookline.outcomes.furthest import furthest
from hookline.privacy.suppressions import Suppressed, SuppressionFeed
from hookline.settings import Settings
from hookline.telemetry import metrics
from hookline.telemetry.log import logger
from hookline.telemetry.traces import traces_of

if TYPE_CHECKING:
    from hookline.collect.budget import Budget
    from hookline.privacy.shared_erased import SharedErased


POLL_SECONDS = 2.0


class JournalWatch:
    """Runs for the life of the role; an error that waiting does not mend ends it."""

    def __init__(
        self, appender: Appender, edge: Edge, steady_ms: Callable[[], int], was_there: Callable[[], object]
    ) -> None:
        """``was_there`` is as the port's ``open`` has it, and may raise DatabaseAway."""
        self._appender = appender
        self._edge = edge
        self._steady_ms = steady_ms
        self._was_there = was_there
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
            self._note(await asyncio.to_thread(self._appender.state))
            if not self._reason and time.monotonic() - retained >= RETENTION_SECONDS:
                retained = time.monotonic()
                await self._retain()
            await asyncio.sleep(POLL_SECONDS)

    async def _opened(self) -> bool:
        try:
            await asyncio.to_thread(self._appender.open, self._was_there)
        except (JournalAway, DatabaseAway) as away:
            self._note(str(away))
            return False
        self._note("")
        return True

    async def _retain(self) -> None:
        try:
            dropped = await asyncio.to_thread(self._appender.retain, self._steady_ms())
        except (JournalAway, OSError) as away:  # or this machine's disk has no room for the note of what was erased
            if self._not_dropped != (said := str(away)):
                self._not_dropped = said
                next_step = "events older than retention.events stay until the topic's own retention takes them"
                self._log.warning("retention_not_dropped", reason=said, next_step=next_step)
            return
        self._not_dropped = ""
        if dropped:
            self._log.info("retention_dropped", events=dropped)

    def _note(self, reason: str) -> None:
        self._edge.set_away(bool(reason))
        if reason and reason != self._reason:
            next_step = "events are answered 503 until brokers answer; start them or see what they say"
            self._log.error("journal_away", reason=reason, next_step=next_step)
        elif self._reason and not reason:
            self._log.info("journal_back")
        self._reason = reason


AnswerT = TypeVar("AnswerT")

CONNECTIONS_SECONDS = 0.25
NOTIFIED_SECONDS = 1.0
"""The same where control notifies us of its changes: then it is only for notifications that were lost."""
PUBLISH_SECONDS = 1.0
RETENTION_SECONDS = 30.0
NEEDED_SECONDS = 1.0
"""How old what lanes wait for may be: they only go on, and what is behind them is kept meanwhile."""
CONTROL_WAIT_SECONDS = 10.0
"""How long to wait for control to load the connections file before going on with those of before."""
READY_POLL_SECONDS = 0.02
"""From one look whether it has to the next."""


class CollectRole:
    """Everything of one collect process."""

    def __init__(self, settings: Settings, boot_id: str | None, asked: JournalEnds) -> None:
        data = settings.data_path
        self._log = logger()
        self._settings = settings
        self._boot_id = boot_id
        self._reporter = metrics.Reporter(data / "run", "collect")
        self._last_event_seconds: dict[str, float] = {}
        self.failed = asyncio.Event()
        self._is_all_known = asked.is_all
        self.steady = steady_clock_of(settings)
        journal = journal_in(data / FOLDER)
        self.appender = journal.appender(settings, self._on_failed, self.steady.now_ms, asked.known)
        self.tracing = traces_of(settings, "collect")
        self.edge = Edge(self.appender, settings, connections_max=connections_allowed(), tracing=self.tracing)
        self.feed = Feed(location_of(settings, "control"), kinds=("source",))
        self.suppressions = SuppressionFeed(location_of(settings, "privacy"), data)
        self._suppressing = asyncio.Lock()
        self._suppressions_thread = ThreadPoolExecutor(1, thread_name_prefix="suppressions")
        """Reads the list: of a million ids that takes half a second, in which the edge must go on."""
        self._keeping = asyncio.Lock()
        self._must_wait = not settings.database.is_local
        """Whether a database may keep who asks it waiting: a file does once it was found locked."""
        self._suppressed: Suppressed | None = None
        self._knows_suppressed = False
        """Whether that was read, or taken from what was kept."""
        self._list_is_unreadable = False
        self._asked_for_kept = False
        self._bell = Bell()
        """Rings when there is something to follow."""
        self._is_notified = settings.database.is_local
        self._could_look = False
        self._erased = self._erased_elsewhere(settings, journal)
        self._kept = KeptConnections(data)
        self._snapshot: Snapshot | None = None
        """The connections as last read; None before that, also where kept ones are in force."""
        self._is_of_this_boot = False
        """Whether control has finished its start-up, and so they are what the connections file says."""
        self._unread = {what: Unread(what) for what in ("connections", "suppressions", "erasures")}
        self.budget: Budget | None = None
        """Of a local journal, once it is looked after."""

    async def run(self, stop: asyncio.Event) -> int:
        """Collect until told to stop or until the disk fails; return the exit code."""
        inner = await serve_append(self._settings.socket_path("collect.sock"), self.appender, self._refresh)
        host, port = await self.edge.start(listening_at("collect.listen", self._settings.collect.listen))
        self._log.info("collecting", address=f"{host}:{port}")
        loop = asyncio.get_running_loop()
        wake = listen_for_wakes(self._settings.socket_path("collect.wake"))
        loop.add_reader(wake, self._woken, wake)
        beats = [
            loop.create_task(self._follow_connections()),
            loop.create_task(self._every(PUBLISH_SECONDS, self._publish)),
            loop.create_task(self._look_after_journal()),
            loop.create_task(self._every(KEEP_SECONDS, self.steady.keep)),
        ]
        if self._settings.journal.is_local and not self._settings.database.is_local:
            beats.append(loop.create_task(keep_ends_noted(self._settings, self.appender.ends)))
        ends: list[asyncio.Task[Any]] = [loop.create_task(stop.wait()), loop.create_task(self.failed.wait())]
        done, _ = await asyncio.wait([*beats, *ends], return_when=asyncio.FIRST_COMPLETED)
        if ends[0] in done:
            ends[0] = loop.create_task(self.edge.leave(self._settings.collect.drain_delay, has_successor()))
            done, _ = await asyncio.wait([*beats, *ends], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        for task in [*beats, *ends]:
            task.cancel()
        await asyncio.gather(*beats, *ends, return_exceptions=True)
        loop.remove_reader(wake)
        wake.close()
        await self.edge.stop(is_handed_on=has_successor())
        inner.close()
        await self.appender.close()
        if self.tracing is not None:
            self.tracing.close()
        self.feed.close()
        self._suppressions_thread.shutdown()  # a look goes on although nobody waits for it any more
        self.suppressions.close()
        if self._erased is not None:
            self._erased.close()
        return 1 if self.failed.is_set() else 0

    def _on_failed(self, error: JournalFailed) -> None:
        self._log.error("journal_failed", error=str(error), next_step="nothing is acknowledged any more; exiting")
        self.failed.set()

    async def _follow_connections(self) -> None:
        await wait_for_database(self._settings, asyncio.Event(), self._begin_with_kept)  # ends with the task
        if not self._is_all_known:
            await self._ask_late()
        patience_ends = time.monotonic() + CONTROL_WAIT_SECONDS
        while True:
            is_patient = time.monotonic() < patience_ends
            was_ready = self.edge.ready
            await self._look(is_patient)
            if self.edge.ready != was_ready:
                self._publish()  # whoever asks about the whole hears at once what /readyz says
            is_early = is_patient and not self._is_of_this_boot
            rest_seconds = NOTIFIED_SECONDS if self._is_notified and self._could_look else CONNECTIONS_SECONDS
            await self._bell.rest(READY_POLL_SECONDS if is_early else rest_seconds)

    def _woken(self, wake: socket.socket) -> None:
        take_wakes(wake)
        self._bell.ring()

    async def _ask_late(self) -> None:
        """The journal was opened while PostgreSQL was away: have it opened anew if it should have gone on behind."""
        while True:
            try:
                known = (await ask_server(self._settings, asyncio.Event())).known
                break
            except DatabaseAway:
                self._begin_with_kept()
                await asyncio.sleep(CONNECTIONS_SECONDS)
        ends = self.appender.ends()
        behind = {number: parts for number, parts in known.items() if max(parts.values()) > ends.get(number, 0)}
        if behind and not self.failed.is_set():
            self._log.error("journal_behind", known=behind, ends=ends, next_step="it is opened anew, behind all of it")
            self.failed.set()

    async def _look(self, is_patient: bool = False) -> None:
        """Follow what control wrote, with patience until it says that all is there; what cannot be read stays as it was
        known last."""
        self._could_look = True
        try:
            await self._follow_suppressions()  # before the first event is taken
        except DatabaseAway:
            self._could_look = False  # what that means for events is decided there
        try:
            if not (self._is_of_this_boot or await self._is_due(is_patient)):
                return
            await self._read_connections()
        except DatabaseAway as away:
            self._could_look = False
            self.edge.doubt(may_be_old=True)
            if isinstance(away, DatabaseUnreadable):
                self._unread["connections"].begin(away)
            self._begin_with_kept()
        await self._follow_erased()

    async def _is_due(self, is_patient: bool) -> bool:
        """Return whether connections may be read: of an earlier boot only when control takes long, never half made
        ones."""
        self._is_of_this_boot = await self._ask(partial(self.feed.ready, self._boot_id))
        if not (self._is_of_this_boot or is_patient or await self._ask(self.feed.ready)):
            raise DatabaseNotMade("control has not finished its first start-up yet")
        return self._is_of_this_boot or not is_patient

    async def _read_connections(self) -> None:
        # poll() has nothing to tell while there is no object at all
        snapshot = await self._ask(self.feed.load if self._snapshot is None else self.feed.poll)
        self._unread["connections"].end()
        if snapshot is not None:
            self._snapshot = snapshot
            self.edge.set_snapshot(snapshot)
            await self._keep()
        self.edge.doubt(may_be_old=not self._is_of_this_boot)

    def _begin_with_kept(self) -> None:
        """Go by what was known last until it can be read: at the start, for what was not read yet."""
        if self._asked_for_kept:
            return
        self._asked_for_kept = True
        found = self._kept.read()
        if found is None:
            return
        snapshot, suppressed = found
        if not self._knows_suppressed:
            self._suppress(suppressed)
        if self._snapshot is None:
            self.edge.set_snapshot(snapshot, kept=True)
            next_step = "events are taken by these sources and keys until the database can be read"
            self._log.warning("connections_kept_in_force", version=snapshot.version, next_step=next_step)

    async def _follow_suppressions(self) -> None:
        """Look whose events are not to be stored.

        Raise DatabaseUnreadable: then none are stored, for somebody may be on the list by now whom we do not know. Or
        DatabaseAway: then nobody can write to it, and whom we know, or else kept, are all.
        """
        async with self._suppressing:
            try:
                # At the start at once: calls that wait for this process are answered only when it is known.
                thread = self._suppressions_thread if self._knows_suppressed else None
                await self._ask(self.suppressions.changed, thread)
            except DatabaseUnreadable as error:
                self._list_is_unreadable = True
                self.edge.stand_by(True)
                self._unread["suppressions"].begin(error)
                raise
            except DatabaseAway:
                self._begin_with_kept()
                self.edge.stand_by(self._list_is_unreadable or not self._knows_suppressed)
                raise
            self._list_is_unreadable = False
            self._unread["suppressions"].end()
            # Not whether this look saw a change: who waited for the one that did may have gone before it was over.
            if not self._knows_suppressed or self._suppressed is not self.suppressions.current:
                self._suppress(self.suppressions.current)
                await self._keep()
            self.edge.stand_by(False)

    def _suppress(self, suppressed: Suppressed | None) -> None:
        self._suppressed, self._knows_suppressed = suppressed, True
        self.edge.suppress(suppressed)

    async def _keep(self) -> None:
        """Keep what is in force, for a start at which it cannot be read."""
        async with self._keeping:  # what is in force then: control may ask for a look beside the one that is under way
            if self._snapshot is not None and self._knows_suppressed:
                await asyncio.to_thread(self._kept.write, self._snapshot, self._suppressed)

    def _erased_elsewhere(self, settings: Settings, journal: JournalBackend) -> SharedErased | None:
        if not settings.is_shared:
            return None
        from hookline.privacy.shared_erased import SharedErased  # only where there is somebody else

        return SharedErased(settings, journal)

    async def _follow_erased(self) -> None:
        if self._erased is not None:
            try:
                await asyncio.to_thread(self._erased.follow)
                self._unread["erasures"].end()
            except DatabaseUnreadable as error:
                self._unread["erasures"].begin(error)
            except DatabaseAway:
                pass  # said once, by the pool

    async def _refresh(self) -> None:
        try:
            await self._follow_suppressions()
        except DatabaseAway as away:
            raise JournalError(f"the suppression list cannot be read: {away}") from away

    async def _ask(self, question: Callable[[], AnswerT], thread: Executor | None = None) -> AnswerT:
        """Look into a database: in a thread if one is given, otherwise a file at once and PostgreSQL in any thread, for
        the edge must not wait for a server."""
        try:
            if thread is None and not self._must_wait:
                return question()
            return await asyncio.get_running_loop().run_in_executor(thread, question)
        except DatabaseUnreadable:
            raise
        except DatabaseAway:
            self._must_wait = True
            raise

    async def _look_after_journal(self) -> None:
        bounded = self.appender.bounded
        if bounded is not None:
            from hookline.collect.budget import FLOOD_POLL_SECONDS, Budget

            budget = self.budget = Budget(self._settings, bounded)
            # Not before the first request is answered, which the look would hold up.
            self.edge.on_client = partial(asyncio.get_running_loop().call_later, FLOOD_POLL_SECONDS, budget.bell.ring)
            try:
                await self._follow_budget(self.budget)
            finally:
                self.budget.save()
                self.budget.close()
        else:
            # The folder of a new machine knows nothing of the topic, but the databases may.
            was_there = partial(furthest, self._settings)
            await JournalWatch(self.appender, self.edge, self.steady.now_ms, was_there).run()

    async def _every(self, seconds: float, beat: Any) -> None:
        while True:
            beat()
            await next_beat(seconds)

    async def _follow_budget(self, budget: Budget) -> None:
        """Retention of a local journal: by age now and then, by bytes as soon as they are spent."""
        retained = asked = -RETENTION_SECONDS
        needed: Needed | None = None
        while True:
            now, now_ms = time.monotonic(), self.steady.now_ms()
            is_due, is_near = now - retained >= RETENTION_SECONDS, budget.is_near()
            if is_due or (is_near and now - asked >= NEEDED_SECONDS):
                needed, asked = await self._ask(partial(budget.needed, now_ms)), now
            if is_due and needed is not None:
                retained = now
                budget.retain(now_ms, needed)
                budget.save()
            self.edge.refuse(budget.look(now_ms, needed if is_near else None))
            await budget.wait(is_quiet=self.edge.is_quiet)

    def _publish(self) -> None:
        counters = self.edge.counters
        self._last_event_seconds.update(dict.fromkeys(counters.heard, round(time.time(), 3)))
        counters.heard.clear()
        values: dict[str, Any] = {
            "hookline_collect_requests_total": {
                "status": {status.decode(): count for status, count in counters.requests.items()}
            },
            "hookline_collect_accepted_total": counters.accepted,
            "hookline_collect_rejected_total": {"code": dict(counters.rejected)},
            "hookline_collect_warnings_total": {"code": dict(counters.warnings)},
            "hookline_collect_refused_pixels_total": {"code": dict(counters.refused_pixels)},
            "hookline_collect_suppressed_total": {"source": dict(counters.suppressed)},
            "hookline_collect_rate_limited_total": {"source": dict(counters.rate_limited)},
            "hookline_collect_rate_limited_addresses_total": counters.rate_limited_addresses,
            "hookline_collect_body_bytes_total": counters.body_bytes,
            "hookline_collect_repaired_total": counters.repaired_surrogates,
            "hookline_collect_connections": counters.open_connections,
            "hookline_collect_refused_connections_total": counters.refused_connections,
            "hookline_collect_shed_connections_total": counters.shed_connections,
            "hookline_collect_buffered_bytes": counters.buffered_bytes,
            "hookline_collect_source_last_event_seconds": {"source": self._last_event_seconds},
            "hookline_journal_end_offset": sum(self.appender.ends().values()),
            "hookline_journal_away": int(self.edge.away),
            "hookline_collect_connections_kept": int(self.edge.kept),
            "hookline_collect_database_trouble": OUTAGES.gauge(),
        }
        if self.budget is not None:
            wall_ms = self.steady.wall_ms
            since = {name: wall_ms(since_ms) / 1000 for name, since_ms in self.budget.since_ms.items()}
            values |= {
                "hookline_journal_bytes": self.budget.stored_bytes,
                "hookline_journal_waited_bytes": self.budget.insisted_bytes,
                "hookline_collect_over_budget_total": {"source": dict(counters.over_budget)},
                "hookline_collect_over_budget_since_seconds": {"source": since},
            }
        if self.tracing is not None:
            values["hookline_collect_spans_total"] = {"outcome": self.tracing.counts}
        troubles = {"journal_away": self.edge.away, "not_taking_events": not self.edge.ready}
        self._reporter.publish(values, troubles)
