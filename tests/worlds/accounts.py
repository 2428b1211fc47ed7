"""The books at the end of a run: what the system has on record against what happened.

Read from the files by themselves, as ``why`` does: blocks of results, dead letters, ranges, retry rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.outcomes.event_status import EventStatuses
from hookline.outcomes.progress import DUPLICATE_TAG, ENTRY, OFFSET_MASK, POSITION_SHIFT, URL_BITS
from hookline.settings import Deliver, Settings
from tests.worlds.asked_replay import AskedReplay
from tests.worlds.ledger import LanePlace, Ledger, Place
from tests.worlds.totals import Totals
from tests.worlds.watch import Tries, Watch

FATES_ASKED_MAX = 12
"""Events per run whose status is also asked as ``why`` does."""
OPEN_STATUSES = frozenset({"queued", "retrying"})


class Accounts:
    """Compares the records of one data folder with the ledger and the watch."""

    def __init__(self, data: Path, ledger: Ledger, watch: Watch, deliver: Deliver, back_ms: int) -> None:
        """``back_ms`` says how far the wall clock was set back: by so much may times on record be out of order."""
        self._data = data
        self._ledger = ledger
        self._watch = watch
        self._back_ms = back_ms
        self._window_ms = int(deliver.retry_window * 1000)
        self._delivered: set[LanePlace] = set()
        self._saved: set[LanePlace] = set()
        self._dead: dict[LanePlace, tuple[str, int]] = {}
        self._replays: dict[int, tuple[str, int]] = {}
        """By lane: state, and how many events the books say were delivered."""
        self._asked = EventStatuses(Settings(data_dir=str(data)))

    def wrong(self) -> Iterator[str]:
        """Yield what is missing, or on record without having happened."""
        connection = connect(self._data / "deliver.db", read_only=True)
        try:
            self._read(connection)
            yield from self._retries_left(connection)
            yield from self._erased_left(connection)
            yield from Totals(self._ledger).wrong(connection, self._saved)
            yield from self._in_ring_alone()
            if not self._back_ms:
                yield from self._tried_early(connection)
        finally:
            connection.close()
        for position, event in self._ledger.events.items():
            if event.duplicate or position in self._ledger.erasing:
                continue
            for lane, destination in self._ledger.lanes_of(position).items():
                yield from self._of(position, lane, destination)
        yield from self._never_happened()
        for replay in self._ledger.replays.values():
            yield from self._of_replay(replay)
        yield from self._statuses()
        self._asked.close()

    def _read(self, connection: Connection) -> None:
        ring = (self._data / "progress.ring").read_bytes()
        blocks = [bytes(row[0]) for row in connection.execute("SELECT entries FROM outcome_blocks")]
        self._saved = {key for block in blocks for key in _successes(block)}
        self._delivered = self._saved | set(_successes(ring))
        for lane, partition, offset, status, at_ms in connection.execute(
            'SELECT lane, partition, "offset", status, at FROM dead_letters'
        ):
            self._dead[lane, (partition, offset)] = (status, at_ms)
        for lane, state, delivered in connection.execute("SELECT lane, state, delivered FROM replays"):
            self._replays[lane] = state, delivered

    def _of(self, position: Place, lane: int, destination: str) -> Iterator[str]:
        key = lane, position
        name = f"{self._ledger.events[position].record.message_id} in lane {lane}"
        tries = self._watch.tries.get(key)
        if (
            tries is not None
            and tries.answered_at is not None
            and key not in self._delivered
            and not self._is_mixed(key)
        ):
            yield f"{name}: its success was known and is not on record"
        if key in self._delivered:
            return
        if key in self._dead:
            yield from self._of_dead_letter(name, self._dead[key], tries)
        else:
            yield from self._of_the_rest(name, position, lane, destination, tries)

    def _of_the_rest(
        self, name: str, position: Place, lane: int, destination: str, tries: Tries | None
    ) -> Iterator[str]:
        """Neither a result nor a row: a range may cover it, or what ``why`` derives from the connections."""
        event = self._ledger.events[position]
        statuses = {found.id: found.status for found in self._asked.of_record(*position, event.record).destinations}
        status = statuses.get(destination)
        was_taken = tries is not None and tries.taken
        not_delivered = self._ledger.disconnected(position, lane, destination)
        # Where it changed meanwhile how many URLs must accept it, one that has may have decided nothing.
        is_untried = self._watch.is_untried((lane, position)) or self._is_mixed((lane, position))
        if status == "filtered" and is_untried and self._may_be_filtered(position, lane, destination):
            return
        if self._is_settled_by_replay(position, lane, tries):
            return
        if not not_delivered:
            yield f"{name}: neither delivered nor given up, its status is {status}"
        elif status != "discarded" and not (status == "delivered" and was_taken):
            yield f"{name}: it was given up with its destination or source, and its status is {status}"

    def _may_be_filtered(self, position: Place, lane: int, destination: str) -> bool:
        """Filters that changed together with what fed the destination explain what was given up as well."""
        return self._ledger.may_be_filtered(position, lane) or self._ledger.disconnected(position, lane, destination)

    def _is_settled_by_replay(self, position: Place, lane: int, tries: Tries | None) -> bool:
        """Whether it was given up, and a later replay to the same destination took the place of the dead letter."""
        others = (each.lane for each in self._ledger.replays_to(self._ledger.name_of(lane)) if each.lane != lane)
        return tries is not None and any((each, position) in self._watch.tries for each in others)

    def _is_mixed(self, key: LanePlace) -> bool:
        """Whether it changed meanwhile how many URLs must accept the event: then the sender knows best."""
        return self._ledger.urls_of_all(key[1], key[0]) is None

    def _of_replay(self, replay: AskedReplay) -> Iterator[str]:
        name, lane = f"replay r{replay.lane} to {replay.destination}", replay.lane
        state, count = self._replays.get(lane, ("unknown", 0))
        may_end = replay.cancelled_at is not None or self._ledger.was_absent(replay)
        if state not in ("done", "cancelled"):
            yield f"{name}: it never ended, its state is {state}"
        if state == "cancelled" and not may_end:
            yield f"{name}: nobody cancelled it, and it was"
        delivered = {key[1] for key in self._delivered if key[0] == lane}
        if count != len(delivered):
            yield f"{name}: {len(delivered)} events are on record as delivered, its count is {count}"
        for position in self._ledger.events if state == "done" else ():
            key = lane, position
            if not self._ledger.must_be_replayed(position, lane) or position in delivered:
                continue
            tries = self._watch.tries.get(key)
            if key in self._dead:
                yield from self._of_dead_letter(f"{name}: {position}", self._dead[key], tries)
            elif not self._is_settled_by_replay(position, lane, tries):
                yield f"{name}: {position} was neither delivered nor given up"

    def _of_dead_letter(self, name: str, dead: tuple[str, int], tries: Tries | None) -> Iterator[str]:
        status, at_ms = dead
        if tries is None:
            yield f"{name}: a dead letter without any attempt"
        elif status == "expired" and at_ms + self._back_ms < tries.began_ms + self._window_ms:
            yield f"{name}: expired {tries.began_ms + self._window_ms - at_ms} ms before its window's end"
        elif status == "failed" and not tries.final:
            yield f"{name}: failed for good without a final answer"

    def _never_happened(self) -> Iterator[str]:
        for key in sorted(self._delivered):
            tries = self._watch.tries.get(key)
            if tries is None or not tries.taken:
                yield f"offset {key[1]} in lane {key[0]} is on record as delivered and no receiver has it"
            elif len(tries.takers) < (self._ledger.urls_of_all(key[1], key[0]) or 1):
                yield f"offset {key[1]} in lane {key[0]} is on record as delivered and only URLs {tries.takers} have it"

    def _retries_left(self, connection: Connection) -> Iterator[str]:
        ((count,),) = connection.execute("SELECT count(*) FROM retries").fetchall()
        if count:
            yield f"{count} retry rows are left although every lane is at rest"

    def _in_ring_alone(self) -> Iterator[str]:
        """Results that no block has; of a lane that had ended nobody looks in the ring after a crash."""
        for lane, place in sorted(self._delivered - self._saved):
            if self._ledger.gone_since(lane) is None:
                yield f"only the ring knows that offset {place} was delivered in lane {lane}"

    def _erased_left(self, connection: Connection) -> Iterator[str]:
        """Rows that are about events that were erased."""
        for table in ("dead_letters", "attempts", "remarks"):
            for lane, partition, offset in connection.execute(f'SELECT lane, partition, "offset" FROM {table}'):
                if (partition, offset) in self._ledger.erasing:
                    yield f"offset {partition, offset} was erased, and {table} of lane {lane} have it"

    def _tried_early(self, connection: Connection) -> Iterator[str]:
        """Attempts on record before the time that the one before had set; probes have their own times."""
        rows = connection.execute(
            'SELECT b.lane, b.partition, b."offset", b.number, a.next_at - b.at FROM attempts AS a JOIN attempts AS b'
            ' ON b.partition = a.partition AND b."offset" = a."offset" AND b.lane = a.lane AND b.url = a.url'
            " AND b.number = a.number + 1 AND b.id > a.id WHERE b.at < a.next_at"
        )
        for lane, partition, offset, number, early_ms in rows.fetchall():
            if (lane, (partition, offset)) not in self._watch.hurried:
                yield f"attempt {number} of offset {partition, offset} in lane {lane} came {early_ms} ms early"

    def _statuses(self) -> Iterator[str]:
        """What ``why`` says of the events that were not simply delivered, and of some that were."""
        undelivered = [key[1] for key in self._dead]
        known = [position for position in self._ledger.events if position not in self._ledger.erasing]
        chosen = list(dict.fromkeys([*undelivered, *known]))[:FATES_ASKED_MAX]
        for position in chosen:
            event = self._ledger.events[position]
            if event.duplicate:
                continue
            lanes = {destination: lane for lane, destination in self._ledger.lanes_of(position).items()}
            for found in self._asked.of_record(*position, event.record).destinations:
                yield from self._of_status(position, lanes.get(found.id), found.id, found.status)

    def _of_status(self, position: Place, lane: int | None, destination: str, status: str) -> Iterator[str]:
        name = f"{self._ledger.events[position].record.message_id} at {destination}"
        if (lane is None) != (status == "not_routed"):
            yield f"{name}: its status is {status}, its lane {lane}"
        elif lane is not None and status in OPEN_STATUSES:
            yield f"{name}: its status is still {status}"
        elif lane is not None and status == "filtered" and not self._may_be_filtered(position, lane, destination):
            yield f"{name}: its status is {status}, and no filter stops it"
        elif lane is not None and (status == "delivered") != ((lane, position) in self._delivered):
            yield f"{name}: its status is {status}, which the results do not say"


def _successes(entries: bytes) -> Iterator[LanePlace]:
    for position, at_ms, tag, result, _ in ENTRY.iter_unpack(entries):
        if at_ms and tag != DUPLICATE_TAG and 200 <= result < 300:
            yield tag >> URL_BITS, (position >> POSITION_SHIFT, position & OFFSET_MASK)
