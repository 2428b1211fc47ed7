"""Erasures where deliver is many processes: each does its partitions' part of them, and the last part ends one.

What was erased is noted in the database too, by partition: whoever takes one up blanks it in what brokers still have.
"""

from __future__ import annotations

from pathlib import Path

from hookline.database.sqlite import engine as sqlite
from hookline.deliver.cluster.fence import Fence, Fenced
from hookline.deliver.cluster.shared_ring import SharedIndexStore
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.erasures import Erasures
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.retry.scheduler import Retries
from hookline.deliver.store.batch import Batch, ErasureRow
from hookline.deliver.store.writer import DeliverStore
from hookline.journal.opening import FOLDER, journal_in
from hookline.privacy.shared_erased import ErasedNotes, Erasure, ErasureFeed
from hookline.replays.offset_set import OffsetSet


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

    def follow(self) -> None:
        """As for one process; what is done everywhere is gone from runs of partitions of others here, too."""
        before = list(self._waiting)
        super().follow()
        under_way = {erasure.key for erasure in self._waiting}
        for erasure in before:
            if erasure.key not in under_way:
                self._drop_runs_of_others(erasure)

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
            batch.erasures.append(ErasureRow(*erasure.key, 0, {}))
        batch.erased.append((self._engine.clock.now_ms(), *erasure.key, len(erasure.positions)))

    def _forget_users(self, partition: int, positions: OffsetSet) -> bool:
        if not super()._forget_users(partition, positions):
            return False
        folder = self._data_path / "index" / str(partition)
        try:
            self._shelf.renew(partition, self._fence.epochs[partition], folder, list(positions))
        except (sqlite.Error, Fenced) as error:
            raise OSError(f"the runs in the database are as they were: {error}") from error
        return True

    def _drop_runs_of_others(self, erasure: Erasure) -> None:
        """Of partitions that were this worker's once: their owners' runs say no more whose events those were."""
        for partition, positions in erasure.positions.items():
            if partition not in self._feeder.shared:
                folder = self._data_path / "index" / str(partition)
                try:
                    self._shelf.drop_stale(partition, folder, positions.first, positions.end)
                except (sqlite.Error, OSError) as error:
                    self._log.warning("index_not_erased", error=str(error), next_step="it goes with the partition")

    def _answer(self, erasure: Erasure, batch: Batch) -> None:
        """The part is on record with what was deleted."""
        if batch is self._engine.batch or batch.log_emptied is None:
            return
        self._writing = None
        self._log.info("erased_in_part", request=erasure.request, partitions=sorted(erasure.positions))
