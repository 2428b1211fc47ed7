"""Erasures where deliver is many processes: each does its partitions' part of them, and the last part ends one.

What was erased is noted in the database too, by partition: whoever takes one up blanks it in what brokers still have.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from hookline.database.sqlite import engine as sqlite
from hookline.deliver.cluster.fence import Fence, Fenced
from hookline.deliver.cluster.shared_ring import SharedIndexStore
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.erasures import Clearing, Erasures
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.retry.scheduler import Retries
from hookline.deliver.store.batch import ErasureRow
from hookline.deliver.store.writer import DeliverStore
from hookline.index.run import in_background
from hookline.journal.opening import FOLDER, journal_in
from hookline.privacy.shared_erased import ErasedNotes, Erasure, ErasureFeed


class SharedErasures(Erasures):
    """One worker's part of every erasure; ``data_path`` is its data folder."""

    def __init__(
        self,
        engine: Dispatcher,
        feeder: Feeder,
        retries: Retries,
        store: DeliverStore,
        feed: ErasureFeed,
        fence: Fence,
        shelf: SharedIndexStore,
        data_path: Path,
    ) -> None:
        super().__init__(engine, feeder, retries, store, feed)
        self._fence = fence
        self._shelf = shelf
        self._data_path = data_path
        self._notes = ErasedNotes(journal_in(data_path / FOLDER))
        self._epochs: Mapping[int, int] = {}
        """Of the partitions of the erasure that is under way, as the index began to forget it."""
        self._dropping: deque[Clearing] = deque()

    def follow(self) -> None:
        """As for one process; what is done everywhere is gone from runs of partitions of others here, too."""
        before = list(self._waiting)
        super().follow()
        under_way = {erasure.key for erasure in self._waiting}
        for erasure in before:
            if erasure.key not in under_way:
                self._dropping.append(self._drop_runs_of_others(erasure))
        while self._dropping and next(self._dropping[0], None) is None:
            self._dropping.popleft()

    def _next(self) -> Erasure | None:
        """Return what is left to do of the oldest erasure that is this worker's in part, once this machine's disk has
        taken note of it; those that are done are ended."""
        for erasure in list(self._waiting):
            done = self._store.reader.erased_partitions(*erasure.key)
            mine = {
                partition: positions
                for partition, positions in erasure.positions.items()
                if partition in self._feeder.shared and partition not in done
            }
            if mine:
                return erasure._replace(positions=mine) if self._notes.take(mine.items()) else None
            if self._store.reader.erased(*erasure.key) is not None:
                self._waiting.remove(erasure)
            elif done >= erasure.positions.keys():
                self._end(erasure)
        return None

    def _end(self, erasure: Erasure) -> None:
        batch = self._engine.batch
        if not erasure.positions:
            batch.erasures.append(ErasureRow(*erasure.key, 0, (), {}))
        batch.erased.append((self._engine.clock.now_ms(), *erasure.key, len(erasure.positions)))

    def _clear(self, erasure: Erasure, forgetting: Sequence[Clearing]) -> Clearing:
        """Renew the runs in the database too: each is megabytes."""
        self._epochs = {partition: self._fence.epochs[partition] for partition in erasure.positions}
        for steps in forgetting:
            yield from steps
        for partition, epoch in self._epochs.items():  # one after another, so that runs are sealed in between
            offsets = array("q", erasure.positions[partition])
            yield from in_background(self._shelf.renew, partition, epoch, self._folder(partition), offsets)
        if self._is_mine_still:
            self._write(erasure)

    @property
    def _is_mine_still(self) -> bool:
        """Return whether nothing was given up meanwhile. What was, and came back, has its index from others: the
        erasure is begun anew."""
        return self._epochs.items() <= self._fence.epochs.items()

    def _go_on_clearing(self, clearing: Clearing) -> None:
        try:
            super()._go_on_clearing(clearing)
        except (sqlite.Error, Fenced) as error:
            self._warn(error)
            self._clearing = None

    def _write_some(self, erasure: Erasure) -> None:
        if self._is_mine_still:
            super()._write_some(erasure)

    def _drop_runs_of_others(self, erasure: Erasure) -> Clearing:
        """Of partitions that were this worker's once: their owners' runs say no more whose events those were. A
        partition that it takes up meanwhile seals no run before, for that is done by the same thread."""
        for partition, positions in erasure.positions.items():
            if partition not in self._feeder.shared:
                try:
                    parts = partition, self._folder(partition), positions.first, positions.end
                    yield from in_background(self._shelf.drop_stale, *parts)
                except (sqlite.Error, OSError) as error:
                    self._log.warning("index_not_erased", error=str(error), next_step="it goes with the partition")

    def _folder(self, partition: int) -> Path:
        return self._data_path / "index" / str(partition)

    def _answer(self, erasure: Erasure, log_emptied: bool) -> None:
        """The part is on record with what was deleted."""
        self._log.info("erased_in_part", request=erasure.request, partitions=sorted(erasure.positions))
