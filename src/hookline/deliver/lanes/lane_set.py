"""Which lanes exist: follows the connections from version to version, and brings lanes back after a restart.

A lane exists exactly while its destination is enabled. Its first offset was written when it was enabled, so whenever
this role learns of it, it starts there: behind the shared reader it first catches up, and nothing is missed or
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from hookline.connections.kinds import plan_of, resolved_auth, unfit_settings, usual_settings
from hookline.connections.model import Destination, LaneConfig, Pause, Snapshot, is_sink, is_webhook
from hookline.connections.secrets import SecretMissing, resolve_all
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane import Lane, MappedRequests, Target
from hookline.deliver.lanes.mapped import Gathering, Mapped
from hookline.deliver.lanes.sinks import Sinks
from hookline.deliver.read.catch_up import SharedReader
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.send.pool import Exchanges
from hookline.deliver.send.port import Route, Sender
from hookline.deliver.send.proxy import proxy_of
from hookline.deliver.send.request import mapped_templates, templates_of
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.deliver.send.tokens import TokenKeeper, TokenRoute
from hookline.deliver.store.batch import FilterRow, RangeRow
from hookline.kinds.model import Auth
from hookline.kinds.settings import secrets_in
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.outcomes.reader import RetryBacklog
from hookline.route.filters import Filters, filters_of, keeps_away, rules_of
from hookline.settings import Settings
from hookline.telemetry.log import logger

LANE_ENDED = "the destination was disabled or deleted"


class LaneSet:
    """Opens, changes and ends lanes."""

    def __init__(
        self, engine: Dispatcher, feeder: Feeder, sender: Sender, settings: Settings, *, is_traced: bool = False
    ) -> None:
        self._engine = engine
        self._feeder = feeder
        self._sender = sender
        self._settings = settings
        self._is_traced = is_traced
        self._fetching: Exchanges | None = None
        self._keepers: dict[Auth, TokenKeeper] = {}
        """What has the tokens of clients; as many as destinations ever had in this process."""
        self.sinks = Sinks(engine, settings)
        self._log = logger()
        self._version = 0
        self._draining: set[Lane] = set()
        """Lanes of disabled destinations that still get what was accepted before."""
        self.delivered: dict[int, dict[int, bytes]] = {}
        """By lane and position: ring entries of what an earlier process delivered, for lanes and sources that were new
        after its last checkpoint."""
        self.on_skipped: Callable[[int, Iterable[bytes]], object] = lambda partition, entries: None
        """Called with those of a partition that a lane will pass over: no checkpoint may have saved them."""

    def apply(self, snapshot: Snapshot) -> None:
        """Bring the lanes in line with a version of the connections."""
        engine = self._engine
        self._version = snapshot.version
        wanted = {
            snapshot.lanes[d.id].number: (d, snapshot.lanes[d.id])
            for d in snapshot.destinations
            if d.id in snapshot.lanes
        }
        for number in [number for number, lane in engine.lanes.items() if number not in wanted and not lane.is_replay]:
            self._end(engine.lanes[number])
        for number, (destination, start) in wanted.items():
            lane = engine.lanes.get(number)
            if lane is None:
                lane = self.open(destination, start)
                if keeps_away(destination):
                    self.note_filters(lane, dict.fromkeys(self._feeder.shared, 0), at_ms=0)
            elif lane.destination is not destination and (lane.destination != destination or lane.start != start):
                self._change(lane, destination, start)
        self.sinks.keep_only({lane.destination.id for lane in engine.lanes.values()})
        self._sender.keep_only({target.route for lane in engine.lanes.values() for target in lane.targets})
        for partition, shared in self._feeder.shared.items():
            engine.batch.versions.append((partition, snapshot.version, shared.next_offset))
        self._feeder.wake()

    def open(self, destination: Destination, start: LaneConfig, cursors: Iterable[LaneCursor] = ()) -> Lane:
        """Open a lane; ``cursors`` are its own from before a restart, by default it begins at its start offsets."""
        targets, filters, mapped = self.usable(destination, start)
        lane = Lane(destination, start, targets, filters, self._engine.limits, mapped)
        self._engine.on_lane(lane)
        self._feeder.filtering = None
        known = {cursor.partition: cursor for cursor in cursors}
        for partition, shared in self._feeder.shared.items():
            fresh = fresh_cursor(start, shared)
            # From the reader's position on: what is aimed at the destination may lie before its sources' begin.
            self.skip_delivered(lane, partition, min(fresh.next_offset, shared.next_offset), shared.end)
            lane.enter(known.get(partition, fresh))
        self._engine.lanes[lane.number] = lane
        self._join(lane)
        self._engine.open_lanes.add(lane)
        if lane.catch_up_rate is not None:
            self._engine.catching_up.add(lane)
        return lane

    @property
    def has_draining(self) -> bool:
        """Return whether lanes are to end once they have sent what they have."""
        return bool(self._draining)

    def look_at_draining(self) -> None:
        """Read on for lanes that end, and put on the record which have ended; called several times a second."""
        for lane in list(self._draining):
            if lane.closed:
                self._draining.discard(lane)
            elif lane.is_drained:
                self._engine.open_lanes.add(lane)
            else:
                self._feeder.room(lane)

    def _join(self, lane: Lane) -> None:
        if lane.start.until is not None:
            self._draining.add(lane)
            for partition, cursor in lane.cursors.items():
                cursor.end_at(lane.start.until.get(partition, 0))  # one that was added later has nothing for it
        for partition, shared in self._feeder.shared.items():
            if lane.cursors[partition].attached:
                shared.attach(lane)
        if not lane.targets:
            lane.breaker.open("its settings cannot be used; see the log")
            self._feeder.detach(lane)
        elif lane.paused or lane.drains:
            self._feeder.detach(lane)
        elif lane.detached:
            self._feeder.room(lane)

    def note_filters(
        self, lane: Lane, offsets: dict[int, int], version: int | None = None, at_ms: int | None = None
    ) -> None:
        """Put on the record from where and when on which filters decide, so that an event's status can name the one."""
        version = self._version if version is None else version
        at_ms = self._engine.clock.now_ms() if at_ms is None else at_ms
        for partition, offset in offsets.items():
            self._engine.batch.filters.append(FilterRow(lane.number, partition, offset, version, at_ms))

    def _change(self, lane: Lane, destination: Destination, start: LaneConfig) -> None:
        if rules_of(destination) != rules_of(lane.destination):
            # What is queued is given back, so that every event from the lane's position on meets the new filters.
            self._feeder.detach(lane)
            self.note_filters(lane, {p: cursor.next_offset for p, cursor in lane.cursors.items()})
        if start.sources.keys() - lane.starts.keys():
            # What is queued may be given back later and read once more, then with the new source's events: not
            # twice, so the position before which they come from a backfill must be settled now.
            self._feeder.detach(lane)
        for partition, shared in self._feeder.shared.items():
            cursor = lane.cursors[partition]
            self.add_backfills(lane, partition, start, lane.starts.keys())
            if cursor.attached:
                shared.leave(lane)
                cursor.attach()
        was_unusable = not lane.targets
        pause = lane.start.paused
        self.configure(lane, destination, start, *self.usable(destination, start))
        self._feeder.filtering = None
        self.leave_pause(lane, pause)
        if was_unusable and lane.targets:  # the receiver was not what it was shut for
            lane.half_open()
            self._engine.probing.discard(lane)
        self._join(lane)
        self._engine.open_lanes.add(lane)
        self._engine.look_at_catch_up(lane)  # a pause that was over before it was seen leaves nothing to catch up with
        lane.try_now()  # whoever changed the settings wants to know whether it helped
        self._log.info("destination_changed", destination=destination.id)

    def add_backfills(self, lane: Lane, partition: int, start: LaneConfig, before: Set[str]) -> None:
        """Have a lane read what sources that were not ``before`` had until where it stands in a partition."""
        cursor = lane.cursors[partition]
        position = self._feeder.shared[partition].next_offset if cursor.attached else cursor.next_offset
        for source in start.sources.keys() - before:
            first = start.sources[source].get(partition, 0)
            if first < position:
                lane.backfill(LaneCursor(partition, first, attached=False, end=position, source=source))
                self.skip_delivered(lane, partition, first, position)

    def configure(
        self,
        lane: Lane,
        destination: Destination,
        start: LaneConfig,
        targets: tuple[Target, ...],
        filters: Filters | None,
        mapped: MappedRequests | None,
    ) -> None:
        """Give a lane its new settings; what waits of it, and what is under way, follows."""
        self._engine.take_back(lane)
        if lane.options.order != destination.delivery.order:
            self._change_order(lane)
        was_apart, urls = lane.is_apart, lane.urls
        lane.configure(destination, start, targets, filters, mapped)
        for partition in self._feeder.shared:
            self._engine.failures.move_urls(lane, urls, partition)
        self._engine.in_flight += len(lane.in_flight) * (was_apart - lane.is_apart)

    def _change_order(self, lane: Lane) -> None:
        """Begin anew with all that is in memory, so that nothing waits for a turn that is no longer called."""
        self._feeder.detach(lane)
        self._engine.failures.reorder_rows(lane)

    def leave_pause(self, lane: Lane, before: Pause | None) -> None:
        """The time of a pause that is over does not count: neither for the window of what was tried before, nor as a
        failure. Another may hold already."""
        if before is None or lane.start.paused == before:
            return
        for partition in self._feeder.shared:
            self.leave_out_pause(lane, partition, before.began_ms)
        if lane.paused:
            return
        lane.look_at_rows(self._engine.clock.steady_ms())
        lane.answers_again()
        if lane.breaker.allowance == 0:
            lane.breaker.half_open()
        self._engine.probing.discard(lane)
        self._log.info("destination_resumed", destination=lane.destination.id)

    def add_rows(self, lane: Lane, backlog: RetryBacklog) -> None:
        """Have a lane try the rows of a partition that came, or of one whose rows nobody has counted for it yet."""
        lane.count_rows(lane.retry_count + backlog.rows)
        lane.row_due(backlog.due_ms)
        lane.reorder_rows()
        self._engine.retrying.add(lane)

    def leave_out_pause(self, lane: Lane, partition: int, since_ms: int) -> None:
        """Count no time towards the window of a lane's rows in a partition from when it was paused until it was not, or
        until the pause that holds now began."""
        until_ms = self._engine.clock.steady_ms() if lane.start.paused is None else lane.start.paused.began_ms
        if until_ms > since_ms:
            self._engine.batch.shift(lane.number, partition, until_ms - since_ms)
            self._engine.stale.add(lane)

    def skip_delivered(self, lane: Lane, partition: int, first: int, end: int) -> None:
        """Do not send again what an earlier process delivered in ``[first, end)``."""
        done = {
            position: entry
            for position, entry in self.delivered.get(lane.number, {}).items()
            if position >> POSITION_SHIFT == partition and first <= position & OFFSET_MASK < end
        }
        if done:
            lane.skip_done(done)
            self.on_skipped(partition, done.values())

    def _end(self, lane: Lane) -> None:
        """The destination was disabled or deleted: what still waits is discarded, on the record."""
        engine = self._engine
        for partition, shared in self._feeder.shared.items():
            cursor = lane.cursors[partition]
            # Up to the journal's end: what was accepted before the change and not read yet is this lane's too.
            end = max(shared.end, shared.next_offset) if cursor.end is None else cursor.end
            position = shared.next_offset if cursor.attached else cursor.next_offset
            if keeps_away(lane.destination):
                self.note_filters(lane, {partition: position}, version=0)
            pending = [row & OFFSET_MASK for row in lane.pending_rows if row >> POSITION_SHIFT == partition]
            waiting = [*lane.undone(partition), *pending]
            waiting.append(position)
            waiting += [backfill.next_offset for backfill in lane.backfills if backfill.partition == partition]
            if cursor.attached:
                shared.leave(lane)
            if min(waiting) < end or lane.retry_count or lane.requeueing:
                engine.batch.ranges.append(
                    RangeRow(
                        lane.number,
                        lane.destination.id,
                        partition,
                        min(waiting),
                        end - 1,
                        "discarded",
                        engine.clock.now_ms(),
                        LANE_ENDED,
                        with_retries=True,
                    )
                )
        lane.close()
        engine.take_back(lane)
        self._feeder.filtering = None
        engine.ended[lane.number] = engine.lanes.pop(lane.number)
        engine.probing.discard(lane)
        engine.open_lanes.discard(lane)
        engine.batch.lanes_ended.add(lane.number)
        self._log.info("destination_ended", destination=lane.destination.id)

    def usable(
        self, destination: Destination, start: LaneConfig, replay: str | None = None
    ) -> tuple[tuple[Target, ...], Filters | None, Gathering | None]:
        """Return the targets, the filters, and of a kind with a mapping what makes its requests; no targets, so that
        events wait, when something of them cannot be used."""
        filters = None
        try:
            filters = filters_of(destination)
            if (unfit := unfit_settings(destination)) is not None:
                raise ValueError(unfit)
            clock, name = self._engine.clock, self._settings.service_name
            resolved = resolve_all(destination, self._settings, clock.steady_ms())
            if not is_webhook(destination.kind):
                mapped = self._gathering(resolved, start, filters, replay)
                return mapped.targets, filters, mapped
            secret = resolved.settings.shared_secret
            templates = templates_of(resolved, secret, name, clock, filters, replay)
            if self._is_traced:
                from hookline.deliver.traced import traced

                templates = traced(templates, resolved)
            pair = resolved.settings.certificate_pair
            targets = (
                Target(template, index, start.number, self._sender.of(template.receiver, pair))
                for index, template in enumerate(templates)
            )
            return tuple(targets), filters, None
        except (SecretMissing, ValueError) as error:
            self._log.error("destination_unusable", destination=destination.id, error=str(error))
            return (), filters, None

    def _gathering(
        self, resolved: Destination, start: LaneConfig, filters: Filters | None, replay: str | None
    ) -> Gathering:
        if is_sink(resolved.kind):
            return self.sinks.requests_of(resolved, start.number, filters, is_replay=replay is not None)
        plan = plan_of(resolved)
        if not plan.requests:
            raise ValueError(f"the kind {resolved.kind!r} makes no requests here")
        secrets = [secret for _, secret in secrets_in(resolved.kind, usual_settings(resolved))]
        templates = mapped_templates(resolved, plan, secrets, self._settings.service_name, replay)
        pair = resolved.settings.certificate_pair
        routes: list[Route] = [self._sender.of(template.receiver, pair) for template in templates]
        auth = resolved_auth(resolved)
        if auth is not None and auth.type == "oauth2":
            keeper = self._keepers.get(auth) or TokenKeeper(auth, self._exchanges, self._engine)
            self._keepers[auth] = keeper
            routes = [TokenRoute(route, keeper) for route in routes]
            for template in templates:
                template.hide_fetched(keeper.newest)
        return Mapped(plan, templates, routes, start.number, filters)

    def _exchanges(self) -> Exchanges:
        """Return what fetches tokens, by the rules of all that is sent."""
        if self._fetching is None:
            deliver = self._settings.deliver
            resolver = Resolver(Guard(deliver.allow_networks), limits=self._engine.limits)
            proxy = proxy_of(self._settings)
            self._fetching = Exchanges(resolver, tls_context(deliver.ca_file), deliver.timeout, proxy)
        return self._fetching


def fresh_cursor(start: LaneConfig, shared: SharedReader) -> LaneCursor:
    """Return where a lane begins in a partition when nothing is known of it there."""
    begins = [*start.sources.values(), *([] if start.since is None else [start.since])]
    starts = (begin.get(shared.partition, 0) for begin in begins)
    first = min(starts, default=shared.next_offset)
    return LaneCursor(shared.partition, first, attached=first >= shared.next_offset)
