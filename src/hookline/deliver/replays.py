"""The replays being sent: opens, changes and ends their lanes as control asks for it, and counts what comes of them.

What is wanted stands in ``control.db`` and is followed as the connections are; how far each one has come is saved in
``deliver.db`` with the checkpoints, so a restart goes on exactly where the positions do.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress

from hookline.connections.model import Destination, LaneConfig, Pause, Snapshot
from hookline.database.sqlite import DatabaseAway
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane_set import LANE_ENDED, LaneSet
from hookline.deliver.lanes.replay_lane import ReplayLane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.store.batch import Batch, RangeRow, ReplayedRow, ReplayRow
from hookline.deliver.store.writer import DeliverStore
from hookline.outcomes.positions import decode_cursor, to_offsets
from hookline.outcomes.progress import ENTRY_BYTES, OFFSET_MASK, POSITION_SHIFT, URL_BITS
from hookline.outcomes.reader import NEVER_MS, SavedLane
from hookline.replays.model import Replay
from hookline.replays.store import ReplayFeed
from hookline.route.filters import rules_of
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

CANCELLED = "the replay was cancelled"
UNUSABLE = "the destination's settings cannot be used; see the log"
POLL_SECONDS = 1.0
"""How often is looked whether other workers have done their parts of replays."""


class Replays:
    """Follows control's replays and discards."""

    def __init__(
        self,
        engine: Dispatcher,
        feeder: Feeder,
        lane_set: LaneSet,
        store: DeliverStore,
        feed: ReplayFeed,
        is_shared: bool = False,
    ) -> None:
        """``is_shared`` says that others may own some of the partitions."""
        self.lanes: dict[int, ReplayLane] = {}
        self.delivered = 0
        """Events that replays delivered since the process started."""
        self._engine = engine
        self._running_max = engine.limits.replays_running_max
        self._feeder = feeder
        self._lane_set = lane_set
        self._feed = feed
        self._store = store
        self._is_shared = is_shared
        self._kept: dict[int, dict[int, SavedLane]] = {}
        """By lane and partition: where replays stood that were not open here when the partition came."""
        self._looked_seconds = 0.0
        self._is_full = False
        """Whether a replay waits for a place among those that run."""
        self._opened_seconds = 0.0
        """When was looked last whether there is one."""
        self._known: dict[int, Replay] = {}
        self._is_read = False
        self._has_actions = False
        self._changed = False
        """Whether lanes have not followed yet what is known."""
        self._ended = {lane for lane, state in store.reader.replay_states().items() if state != "running"}
        self._begun = {lane for lane, state in store.reader.replay_states().items() if state == "running"}
        self._ending: dict[int, tuple[ReplayLane, ReplayRow]] = {}
        """Lanes that have ended since the last checkpoint, or have answers to come."""
        self._last_action = store.reader.last_action()
        self._snapshot = Snapshot(version=0)
        self._log = logger()

    @property
    def forgotten(self) -> list[int]:
        """Return the lanes of ended replays that control no longer remembers; none as long as it cannot be asked."""
        return [lane for lane in self._ended if lane not in self._known] if self._is_read else []

    def forget(self, lanes: Iterable[int]) -> None:
        """Their counts are gone from the database."""
        self._ended.difference_update(lanes)

    def reopen(
        self, snapshot: Snapshot, positions: Mapping[tuple[int, int], int], delivered: Container[int]
    ) -> Iterator[ReplayLane]:
        """After a restart: open the lanes of replays that had begun, at their saved (lane, partition) positions.

        ``delivered`` are the lanes of which the ring knows deliveries: a replay among them had begun although no
        checkpoint says so, and what it delivered must be taken from the ring now, not whenever it is opened.
        """
        self._snapshot = snapshot
        if not snapshot.version:
            return  # nothing has begun, and control may not have made its database yet
        self.look()
        for replay in self._known.values():
            destination = self._destination(replay)
            is_new = replay.lane in delivered and replay.lane not in self._ended and replay.ended_ms is None
            if destination is not None and (replay.lane in self._begun or is_new):
                yield self._open(
                    replay, destination, {p: at for (lane, p), at in positions.items() if lane == replay.lane}
                )

    def recover_last_answers(self, delivered: Mapping[int, Mapping[int, bytes]]) -> None:
        """After a restart: save the answers that cancelled replays had when their end was saved and these were not yet.

        ``delivered`` is what the ring knows, by lane and position.
        """
        cancelled = {lane for lane, state in self._store.reader.replay_states().items() if state == "cancelled"}
        for lane in cancelled & delivered.keys() & self._known.keys():
            replay = self._known[lane]
            done: dict[int, bytes] = {}
            for partition in self._feeder.shared:
                here = {at: each for at, each in delivered[lane].items() if at >> POSITION_SHIFT == partition}
                saved = self._store.reader.attempts.saved(partition, here.values())
                done |= {position: entry for position, entry in here.items() if entry not in saved}
            if done:
                self._note_delivered(replay, done, ReplayRow(lane, "cancelled", self._engine.clock.now_ms()))

    def follow(self, snapshot: Snapshot | None) -> None:
        """Do what changed: ``snapshot`` is the connections when those did. After DatabaseAway the next call does it."""
        self._changed |= self.look() or snapshot is not None
        if snapshot is not None:
            self._snapshot = snapshot
        if not self._changed:
            return
        for lane in list(self.lanes.values()):
            self._update(lane)
        self._open_waiting()
        self._changed = False

    def tick(self, committing: Batch | None) -> None:
        """End what is finished and let the others go on; ``committing`` is the batch not yet on the disk."""
        if not self.lanes:
            return
        before = len(self.lanes)
        self._look_at_others()
        # Dead letters on their way back to waiting are counted as waiting only once that is saved.
        batches = (self._engine.batch, committing)
        requeueing = {requeue.lane for batch in batches if batch is not None for requeue in batch.requeues}
        for lane in list(self.lanes.values()):
            if lane.finished and lane.number not in requeueing:
                self._finish(lane)
            elif not lane.full and lane.detached:
                self._feeder.room(lane)
        is_due = self._is_full and self._engine.clock.monotonic() - self._opened_seconds >= POLL_SECONDS
        if is_due or len(self.lanes) < before:
            try:
                self._open_waiting()
            except DatabaseAway:
                self._changed = True

    def gather(self, batch: Batch, entries: bytes) -> None:
        """Add to a checkpoint what replays have come to by the results it saves; the rows of events are counted as they
        are written, without those whose partition was lost meanwhile."""
        ending, self._ending = self._ending, {}
        if not (ending or self.lanes):
            return
        destinations = {number: lane.destination.id for number, lane in self.lanes.items()}
        destinations |= {number: lane.destination.id for number, (lane, _) in ending.items()}
        delivered = self._note_results(batch, entries, destinations)
        now_ms = self._engine.clock.now_ms()
        touched = (
            {letter.lane for letter in batch.dead_letters} | {requeue.lane for requeue in batch.requeues} | delivered
        )
        for number, (lane, row) in ending.items():
            batch.replays[number] = row
            if lane.in_flight:
                self._ending[number] = lane, row
        for number in touched & self.lanes.keys():
            batch.replays[number] = ReplayRow(number, "running", now_ms)

    def _note_results(self, batch: Batch, entries: bytes, destinations: Mapping[int, str]) -> set[int]:
        """Note what replays delivered; return their lanes."""
        seen: set[tuple[int, int]] = set()
        tags = memoryview(entries).cast("I")[4 :: ENTRY_BYTES // 4].tolist()
        results = memoryview(entries).cast("H")[10 :: ENTRY_BYTES // 2].tolist()
        for at, tag in enumerate(tags):
            number = tag >> URL_BITS
            if number in destinations and 200 <= results[at] < 300:
                position = int.from_bytes(entries[at * ENTRY_BYTES : at * ENTRY_BYTES + 8], "little")
                if (number, position) not in seen:
                    seen.add((number, position))
                    batch.replayed.append(_replayed(number, position, destinations[number]))
        self.delivered += len(seen)
        return {number for number, _ in seen}

    # with other workers

    def cursor(self, replay: Replay, partition: int, at: int | None) -> LaneCursor:
        """Return the cursor of a replay's lane in a partition, at its beginning or at the position ``at``."""
        first, end = replay.starts.get(partition, 0), replay.ends.get(partition, 0)
        positions = self._feed.positions(replay.lane)
        some = None if positions is None or partition not in positions else positions[partition]
        return LaneCursor(partition, first if at is None else at, False, end, positions=some)

    def keep_positions(self, rows: Iterable[SavedLane]) -> None:
        """Note where lanes stood in a partition that came, for replays that this worker has not opened yet; what those
        that ended while nobody owned it have left goes."""
        for row in [each for each in rows if each.lane not in self._engine.lanes]:
            replay = self._known.get(row.lane)
            if row.lane in self._ended or (replay is not None and replay.ended_ms is not None):
                self._discard(row)
            else:
                self._kept.setdefault(row.lane, {})[row.partition] = row

    def close_ended(self) -> None:
        """Close the lanes of replays that other workers have ended; raise DatabaseAway."""
        states = self._store.reader.replay_states()
        if "cancelled" in [states.get(number) for number in self.lanes]:
            self._changed |= self.look()  # what control says of it is the reason
        for lane in [each for each in self.lanes.values() if states.get(each.number, "running") != "running"]:
            if states[lane.number] == "cancelled":  # another one was first to hear of it
                self._end(lane, "cancelled", self._reason(lane.number))
            else:
                self._close(lane)
                self._log.info("replay_ended", replay=lane.replay.id, destination=lane.destination.id, state="done")

    def _finish(self, lane: ReplayLane) -> None:
        if not self._is_shared:
            self._end(lane, "done")
        elif lane.cursors.keys() - lane.reported:
            lane.reported.update(lane.cursors)
            self._engine.open_lanes.add(lane)
            now_ms = self._engine.clock.now_ms()
            self._engine.batch.replays.setdefault(lane.number, ReplayRow(lane.number, "running", now_ms))
            self._engine.batch.parts_done.append((now_ms, lane.number, max(lane.replay.ends, default=-1) + 1))

    def _look_at_others(self) -> None:
        now = self._engine.clock.monotonic()
        if not self._is_shared or now - self._looked_seconds < POLL_SECONDS:
            return
        self._looked_seconds = now
        with suppress(DatabaseAway):
            self.close_ended()

    # opening, changing, ending

    def _open_waiting(self) -> None:
        self._is_full, self._opened_seconds = False, self._engine.clock.monotonic()
        for replay in self._known.values():
            if replay.lane in self.lanes or replay.lane in self._ended:
                continue
            if replay.ended_ms is not None:
                self._discard_kept(replay.lane)
                continue
            if replay.version > self._snapshot.version:
                continue
            destination = self._destination(replay)
            if destination is None:
                self._never_begins(replay, "the destination is not enabled")
            elif replay.state == "cancelled":
                self._never_begins(replay, CANCELLED)
            elif replay.state == "running" and replay.is_prepared:
                if self._has_place(destination):
                    self._begin(replay, destination)
                else:
                    self._is_full = True

    def _begin(self, replay: Replay, destination: Destination) -> None:
        """Open the lane of a replay; what others had begun of it in a partition goes on as they have left it."""
        number = replay.lane
        kept = {each: row for each, row in self._kept.get(number, {}).items() if each in self._feeder.shared}
        cursors = {each: decode_cursor(row.blob) for each, row in kept.items()}
        at = {each: min((row.next_offset, *cursors[each].undone[:1])) for each, row in kept.items()}
        # All is read before anything is opened: while the database is away nothing is forgotten.
        backlogs = [found[number] for each in kept if number in (found := self._store.reader.backlogs(each))]
        undone = {each: set(to_offsets(cursor.undone)) for each, cursor in cursors.items()}
        # What lies behind the first one undone was delivered, or waits as a row, or was given up.
        done = [
            each << POSITION_SHIFT | offset
            for each, row in kept.items()
            for offset in (*range(at[each], row.next_offset), *to_offsets(cursors[each].done))
            if offset not in undone[each]
        ]
        lane = self._open(replay, destination, at)
        self._kept.pop(number, None)
        lane.skip_done(done)
        for backlog in backlogs:
            self._lane_set.add_rows(lane, backlog)
        if backlogs and lane.order is None:
            # What waits for its user's turn is due, and nothing else sooner: an order may have ended meanwhile.
            self._engine.batch.reorder(number, self._engine.clock.steady_ms(), NEVER_MS - 1)
        for each, cursor in cursors.items():
            if cursor.paused_ms:
                self._lane_set.leave_out_pause(lane, each, cursor.paused_ms)
        self._prompt(lane)

    def _open(self, replay: Replay, destination: Destination, at: Mapping[int, int]) -> ReplayLane:
        """Open the lane of a replay, at its beginning or at the positions ``at``."""
        engine = self._engine
        start = self._start(replay)
        live = engine.lanes[self._snapshot.lanes[destination.id].number]
        targets, _, mapped = self._lane_set.usable(destination, start, replay.id)
        lane = ReplayLane(replay, destination, start, targets, live, mapped)
        engine.on_lane(lane)
        for partition in self._feeder.shared:
            cursor = self.cursor(replay, partition, at.get(partition))
            lane.enter(cursor)
            self._lane_set.skip_delivered(lane, partition, replay.starts.get(partition, 0), cursor.end or 0)
        self.lanes[lane.number] = engine.lanes[lane.number] = lane
        engine.open_lanes.add(lane)
        engine.batch.replays[lane.number] = ReplayRow(lane.number, "running", engine.clock.now_ms())
        if not lane.targets:
            lane.breaker.open(UNUSABLE)
        crash_point("deliver.replay_opened")
        return lane

    def _update(self, lane: ReplayLane) -> None:
        replay = self._known.get(lane.number)
        destination = self._destination(lane.replay)
        if replay is None or replay.state == "cancelled" or destination is None:
            self._end(lane, "cancelled", self._reason(lane.number))
            return
        lane.go_beside(self._engine.lanes[self._snapshot.lanes[destination.id].number])
        lane.replay = replay
        self._change(lane, destination, self._start(replay))

    def _change(self, lane: ReplayLane, destination: Destination, start: LaneConfig) -> None:
        pause = lane.start.paused
        # The end of a pause has the stream look anew at its secrets, too, which may read otherwise by then.
        changed = lane.destination != destination or (start.paused is None and pause is not None)
        targets, mapped = lane.targets, lane.mapped
        if changed:
            targets, _, mapped = self._lane_set.usable(destination, start, lane.replay.id)
        if (start.paused is not None and pause is None) or rules_of(lane.destination) != rules_of(destination):
            self._feeder.detach(lane)  # given back, so that every event from here on meets the new filters
        self._lane_set.configure(lane, destination, start, targets, None, mapped)
        self._lane_set.leave_pause(lane, pause)
        if start.paused != pause:
            self._engine.open_lanes.add(lane)  # its rows say since when it is paused
        if not lane.targets:
            lane.breaker.open(UNUSABLE)
        elif changed and lane.breaker.state == "open":
            self._engine.probing.add(lane)
        if start.paused is None and changed:
            self._prompt(lane)

    def _start(self, replay: Replay) -> LaneConfig:
        """Return how the lane of a replay begins: paused while the replay, or its destination, is, and since the first
        of them is."""
        live = self._snapshot.lanes.get(replay.request.destination)
        own = None if replay.paused_ms is None else Pause(since=replay.paused_ms, steady_since=replay.paused_ms)
        pauses = [each for each in (own, None if live is None else live.paused) if each is not None]
        first = min(pauses, key=lambda each: each.began_ms, default=None)
        return LaneConfig(number=replay.lane, sources={}, paused=first)

    def _prompt(self, lane: ReplayLane) -> None:
        """Somebody wants it sent now: if its receiver was down, look at once whether it is back."""
        lane.live.try_now()
        lane.try_now()
        if not lane.paused:
            self._feeder.room(lane)
            self._engine.dispatch(lane)

    def _end(self, lane: ReplayLane, state: str, reason: str | None = None) -> None:
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        if state == "cancelled":
            engine.batch.ranges.extend(_rest(lane, now_ms, reason or ""))
        self._close(lane)
        self._ending[lane.number] = lane, ReplayRow(lane.number, state, now_ms, ended_ms=now_ms, reason=reason)
        engine.batch.replays[lane.number] = self._ending[lane.number][1]
        self._log.info("replay_ended", replay=lane.replay.id, destination=lane.destination.id, state=state)

    def _close(self, lane: ReplayLane) -> None:
        engine = self._engine
        lane.close()
        engine.take_back(lane)
        engine.ended[lane.number] = engine.lanes.pop(lane.number)
        for lanes in (engine.probing, engine.open_lanes, engine.retrying):
            lanes.discard(lane)
        engine.batch.lanes_ended.add(lane.number)
        self.lanes.pop(lane.number)
        self._ended.add(lane.number)

    def _never_begins(self, replay: Replay, reason: str) -> None:
        """End a replay that has no lane; what it delivered before a crash, unknown to any checkpoint, counts."""
        now_ms = self._engine.clock.now_ms()
        done = self._lane_set.delivered.get(replay.lane, {})
        self._note_delivered(replay, done, ReplayRow(replay.lane, "cancelled", now_ms, ended_ms=now_ms, reason=reason))
        self._ended.add(replay.lane)
        self._discard_kept(replay.lane)

    def _discard_kept(self, number: int) -> None:
        for partition, row in self._kept.pop(number, {}).items():
            if partition in self._feeder.shared:
                self._discard(row)

    def _discard(self, row: SavedLane) -> None:
        """Discard, on the record, what is left in a partition of a replay that has ended and has no lane here."""
        replay, batch = self._known.get(row.lane), self._engine.batch
        batch.lanes_ended.add(row.lane)
        if replay is None or row.state == "finished":
            return
        first, end = replay.starts.get(row.partition, 0), replay.ends.get(row.partition, 0)
        if first < end:
            what = row.lane, replay.request.destination, row.partition, first, end - 1
            batch.ranges.append(RangeRow(*what, "discarded", self._engine.clock.now_ms(), self._reason(row.lane)))

    def _reason(self, number: int) -> str:
        """Return why a replay was ended before it was done."""
        replay = self._known.get(number)
        return CANCELLED if replay is None or replay.state == "cancelled" else LANE_ENDED

    def _note_delivered(self, replay: Replay, done: Mapping[int, bytes], row: ReplayRow) -> None:
        """Save what a replay without a lane delivered, by position, with the next checkpoint."""
        engine = self._engine
        for position, entry in done.items():
            engine.recover_result(entry)
            engine.batch.replayed.append(_replayed(replay.lane, position, replay.request.destination))
        engine.batch.replays[replay.lane] = row

    def look(self) -> bool:
        """Read what control wants, and carry its discards out; return whether anything changed. Raise DatabaseAway."""
        replays = self._feed.poll()
        if replays is not None:
            self._known = {replay.lane: replay for replay in replays}
            self._is_read = self._has_actions = self._changed = True
        if self._has_actions:
            actions = self._feed.actions(self._last_action)
            for action in actions:
                self._engine.batch.actions.append(action)
                self._last_action = action.id
            self._has_actions = bool(actions)  # they come a page at a time
        return replays is not None

    def _destination(self, replay: Replay) -> Destination | None:
        wanted = replay.request.destination
        found = (each for each in self._snapshot.destinations if each.id == wanted and wanted in self._snapshot.lanes)
        return next(found, None)

    def _has_place(self, destination: Destination) -> bool:
        """Return whether another replay may begin. Those whose receivers are down take no place of the others', nor do
        those that only other workers have something of; further ones to a receiver that is down wait."""
        active = [lane for lane in self.lanes.values() if lane.state not in ("paused", "finished")]
        down = sum(lane.is_held_up for lane in active)
        if len(active) - down >= self._running_max:
            return False
        live = self._engine.lanes[self._snapshot.lanes[destination.id].number]
        return live.breaker.state != "open" or down < self._running_max


def _replayed(lane: int, position: int, destination: str) -> ReplayedRow:
    return ReplayedRow(lane, position >> POSITION_SHIFT, position & OFFSET_MASK, destination)


def _rest(lane: ReplayLane, now_ms: int, reason: str) -> Iterable[RangeRow]:
    """Yield what a cancelled replay has not sent: results and dead letters of single events say more where there are
    any."""
    for partition, cursor in lane.cursors.items():
        first = cursor.next_offset
        if lane.busy or lane.retry_count > 0:
            first = lane.replay.starts.get(partition, 0)
        end = cursor.end or 0
        if first < end:
            yield RangeRow(lane.number, lane.destination.id, partition, first, end - 1, "discarded", now_ms, reason)
