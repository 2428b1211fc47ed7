"""Erases what deliver keeps about events whose people asked for it: queued copies, retry rows, dead letters, failed
attempts with the receivers' answers, and whose events the index says they are.

Control has overwritten the events in the journal before; so what is given back here is read again as erased, and not
sent. Every step may be done twice: a restart begins a round that was not answered anew.
"""

from __future__ import annotations

from collections import Counter

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.retry.scheduler import Retries
from hookline.deliver.store.batch import Batch, ErasureRow
from hookline.deliver.store.writer import DeliverStore
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.privacy.shared_erased import Erasure, ErasureFeed
from hookline.replays.offset_set import OffsetSet
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger


class Erasures:
    """Follows control's erasures and answers each when nothing of it is left in deliver's files."""

    def __init__(
        self, engine: Dispatcher, feeder: Feeder, retries: Retries, store: DeliverStore, feed: ErasureFeed
    ) -> None:
        self._engine = engine
        self._feeder = feeder
        self._retries = retries
        self._store = store
        self._feed = feed
        self._wanted: list[Erasure] | None = None
        """What control wants, until it is known which of it is done."""
        self._waiting: list[Erasure] = []
        self._writing: tuple[Erasure, Batch] | None = None
        self._closed: Counter[tuple[int, int, int]] = Counter()
        """Retry rows closed for those that are not answered yet."""
        self._log = logger()

    def follow(self) -> None:
        """Look what is wanted, and take the oldest a step on; called several times a second."""
        wanted = self._feed.poll()
        if wanted is not None:
            self._wanted = wanted
        if self._wanted is not None:
            self._waiting = [erasure for erasure in self._wanted if self._store.reader.erased(*erasure.key) is None]
            self._wanted = None
        if self._writing is not None:
            self._answer(*self._writing)
        elif self._waiting:
            erasure = self._next()
            if erasure is not None:
                self._begin(erasure)

    def _next(self) -> Erasure | None:
        return self._waiting[0]

    def _begin(self, erasure: Erasure) -> None:
        for partition in erasure.positions:
            self._feeder.read_anew(partition)
        lanes = list(self._engine.lanes.values())
        for lane in lanes:
            self._give_back(lane, erasure)
            self._closed[erasure.key] += self._retries.drop(lane, erasure.positions)
        under_way = (position for lane in (*lanes, *self._engine.ended.values()) for position in lane.in_flight)
        if any(_holds(erasure, position) for position in under_way):
            # What comes of it is written down once more: it ends within seconds. The code of a sink may take for ever,
            # so the others go first.
            self._waiting.sort(key=lambda each: each.key == erasure.key)
            return
        for partition, positions in erasure.positions.items():
            try:
                if not self._forget_users(partition, positions):
                    return
            except OSError as error:
                self._warn(error)
                return
        self._write(erasure)

    def _write(self, erasure: Erasure) -> None:
        """Put on record, with the next checkpoint, that nothing is left of it."""
        batch = self._engine.batch
        batch.erasures.append(ErasureRow(*erasure.key, self._closed.pop(erasure.key, 0), erasure.positions))
        self._writing = erasure, batch

    def _forget_users(self, partition: int, positions: OffsetSet) -> bool:
        shared = self._feeder.shared.get(partition)
        return shared is None or shared.duplicates.forget_users(list(positions))

    def _warn(self, error: Exception) -> None:
        self._log.warning("index_not_erased", error=str(error), next_step="it is tried again")

    def _give_back(self, lane: Lane, erasure: Erasure) -> None:
        queued = [event.position for event in lane.queue]
        if lane.order is not None:
            queued += lane.order.held
        if any(_holds(erasure, position) for position in queued):
            self._feeder.detach(lane)
            self._feeder.room(lane)

    def _answer(self, erasure: Erasure, batch: Batch) -> None:
        """When the rows are gone, and the log that held them is emptied, say so."""
        if batch is self._engine.batch or batch.log_emptied is None:
            return
        self._writing = None
        if batch.log_emptied:
            crash_point("deliver.erased_before_answer")
            self._engine.batch.erased.append((self._engine.clock.now_ms(), *erasure.key, 0))
            self._waiting = [each for each in self._waiting if each.key != erasure.key]
            self._log.info("erased", request=erasure.request, round=erasure.round)


def _holds(erasure: Erasure, position: int) -> bool:
    positions = erasure.positions.get(position >> POSITION_SHIFT)
    return positions is not None and position & OFFSET_MASK in positions
