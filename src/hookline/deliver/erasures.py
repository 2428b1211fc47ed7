"""Erases what deliver keeps about events whose people asked for it: queued copies, retry rows, dead letters, failed
attempts with the receivers' answers, and whose events the index says they are.

Control has overwritten the events in the journal before; so what is given back here is read again as erased, and not
sent. Every step may be done twice: a restart begins a round that was not answered anew.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.retry.scheduler import Retries
from hookline.deliver.store.batch import Batch, ErasureRow
from hookline.deliver.store.writer import DeliverStore
from hookline.index.run import Step
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.privacy.shared_erased import Erasure, ErasureFeed
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

EVENTS_PER_CHECKPOINT = 10_000
"""Of which one checkpoint deletes the rows, in tens of milliseconds: what else it is to save waits as long."""

Clearing = Generator[Step, None, None]

_DONE = object()


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
        self._clearing: Clearing | None = None
        """What is left to do in the index for the one that is under way; it waits for the disk beside the loop."""
        self._writing: tuple[Erasure, Batch] | None = None
        self._unwritten: Iterator[tuple[int, int]] = iter(())
        """Partition and offset of its events whose rows no checkpoint has deleted yet."""
        self._is_last = True
        """Whether the checkpoint that is waited for deletes the last of them."""
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
            self._go_on_writing(*self._writing)
        elif self._clearing is not None:
            self._go_on_clearing(self._clearing)
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
        steps = []
        for partition, positions in erasure.positions.items():
            shared = self._feeder.shared.get(partition)
            if shared is not None:
                forgetting = shared.duplicates.forget_users(array("q", positions))
                if forgetting is None:
                    return
                steps.append(forgetting)
        self._clearing = self._clear(erasure, steps)
        self._go_on_clearing(self._clearing)

    def _clear(self, erasure: Erasure, forgetting: Sequence[Clearing]) -> Clearing:
        for steps in forgetting:
            yield from steps
        self._write(erasure)

    def _go_on_clearing(self, clearing: Clearing) -> None:
        try:
            if next(clearing, _DONE) is not _DONE:
                return
        except OSError as error:
            self._warn(error)
        self._clearing = None

    def _write(self, erasure: Erasure) -> None:
        """Put on record, with the next checkpoints, that nothing is left of it."""
        self._unwritten = ((partition, offset) for partition, each in erasure.positions.items() for offset in each)
        self._write_some(erasure)

    def _write_some(self, erasure: Erasure) -> None:
        batch = self._engine.batch
        rows = tuple(islice(self._unwritten, EVENTS_PER_CHECKPOINT))
        self._is_last = len(rows) < EVENTS_PER_CHECKPOINT
        closed = self._closed.pop(erasure.key, 0)
        batch.erasures.append(ErasureRow(*erasure.key, closed, rows, erasure.positions if self._is_last else {}))
        self._writing = erasure, batch

    def _go_on_writing(self, erasure: Erasure, batch: Batch) -> None:
        if batch is self._engine.batch or batch.log_emptied is None:
            return
        self._writing = None
        if self._is_last:
            self._answer(erasure, batch.log_emptied)
        else:
            self._write_some(erasure)

    def _warn(self, error: Exception) -> None:
        self._log.warning("index_not_erased", error=str(error), next_step="it is tried again")

    def _give_back(self, lane: Lane, erasure: Erasure) -> None:
        queued = [event.position for event in lane.queue]
        if lane.order is not None:
            queued += lane.order.held
        if any(_holds(erasure, position) for position in queued):
            self._feeder.detach(lane)
            self._feeder.room(lane)

    def _answer(self, erasure: Erasure, log_emptied: bool) -> None:
        """When the rows are gone, and the log that held them is emptied, say so."""
        if log_emptied:
            crash_point("deliver.erased_before_answer")
            self._engine.batch.erased.append((self._engine.clock.now_ms(), *erasure.key, 0))
            self._waiting = [each for each in self._waiting if each.key != erasure.key]
            self._log.info("erased", request=erasure.request, round=erasure.round)


def _holds(erasure: Erasure, position: int) -> bool:
    positions = erasure.positions.get(position >> POSITION_SHIFT)
    return positions is not None and position & OFFSET_MASK in positions
