"""Erasures where deliver is many processes: each does its partitions' part of them, and the last part ends one.

What was erased is noted in the database too, by partition: whoever takes one up blanks it in what brokers still have.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import NamedTuple

from hookline.database.sqlite import engine as sqlite
from hookline.deliver.cluster.fence import Fence, Fenced
from hookline.deliver.cluster.shared_ring import SharedIndexStore
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.erasures import Erasures
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.retry.scheduler import Retries
from hookline.deliver.store.batch import Batch, ErasureRow
from hookline.deliver.store.writer import DeliverStore
from hookline.index.run import Step, in_background
from hookline.journal.opening import FOLDER, journal_in
from hookline.privacy.shared_erased import ErasedNotes, Erasure, ErasureFeed


class _Renewal(NamedTuple):
    """An erasure of which the database still keeps runs, and the epochs of its partitions as the index forgot it."""

    erasure: Erasure
    epochs: Mapping[int, int]
    steps: Generator[Step, None, None]


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
        self._renewal: _Renewal | None = None

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
        taken note of it; those that are done are ended. None too while the one before is renewed in the database."""
        if self._renewal is not None:
            self._go_on(self._renewal)
            return None
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

    def _write(self, erasure: Erasure) -> None:
        """Renew the runs in the database before: in the background, for each is megabytes."""
        epochs = {partition: self._fence.epochs[partition] for partition in erasure.positions}
        self._renewal = _Renewal(erasure, epochs, self._renew(erasure, epochs))
        self._go_on(self._renewal)

    def _renew(self, erasure: Erasure, epochs: Mapping[int, int]) -> Generator[Step, None, None]:
        for partition, epoch in epochs.items():  # one after another, so that runs are sealed in between
            folder = self._data_path / "index" / str(partition)
            yield from in_background(self._shelf.renew, partition, epoch, folder, list(erasure.positions[partition]))

    def _go_on(self, renewal: _Renewal) -> None:
        try:
            if next(renewal.steps, None) is not None:
                return
        except (sqlite.Error, OSError, Fenced) as error:
            self._warn(error)
        else:
            # What was given up meanwhile, and came back, has its index from others: it is begun anew.
            if renewal.epochs.items() <= self._fence.epochs.items():
                super()._write(renewal.erasure)
        self._renewal = None

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
