"""Taking a partition: its epoch is raised, and then everything read that goes on from where the last owner was.

This waits for the database and for brokers, and may read much, so it runs in a thread; ``takeover`` puts the result to
work on the event loop.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hookline.connections.feed import Feed
from hookline.connections.model import Snapshot
from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseError
from hookline.deliver.cluster.fence import raise_epoch
from hookline.deliver.cluster.shared_index_store import SharedIndexStore
from hookline.deliver.cluster.shared_ring import delivered, settled
from hookline.deliver.store.retry_rows import bring_near
from hookline.deliver.store.writer import RetryBacklog, SavedCheckpoint, SavedLane
from hookline.index.duplicates import Duplicates
from hookline.journal.lost import Lost, note_lost
from hookline.journal.opening import FOLDER, journal_in
from hookline.journal.port import JournalAway
from hookline.journal.record import Record, journal_ms
from hookline.outcomes import places
from hookline.outcomes.progress import PLACE_SHIFT
from hookline.replays.offset_set import decode_offset_sets
from hookline.settings import Settings
from hookline.telemetry.log import logger


class Claim(NamedTuple):
    """A partition that was taken, and its state; ``records`` are what lanes had taken and not finished, by place."""

    partition: int
    epoch: int
    next_offset: int
    end: int
    then: Snapshot
    """The connections that were in force at the last checkpoint."""
    open_places: Mapping[int, places.Ranges]
    lanes: Mapping[int, SavedLane]
    backlogs: Mapping[int, RetryBacklog]
    records: Mapping[int, Record]
    duplicates: Duplicates
    delivered: Mapping[int, Mapping[int, bytes]]
    """What processes delivered that no checkpoint may tell of: entries of their rings, by lane and place."""
    settled: Sequence[tuple[int, int]]
    """Lane and place of retry rows whose event is among them."""


class Short(NamedTuple):
    """A partition that ended before its place when it was to be taken: where, and when that was first seen."""

    end: int
    seen_ms: int


class Claims:
    """Takes partitions for one worker, one after another; for one thread."""

    def __init__(self, settings: Settings, shelf: SharedIndexStore, steady_ms: Callable[[], int]) -> None:
        place = location_of(settings, "deliver")
        self.worker = f"{socket.gethostname()}:{os.getpid()}"
        self._settings = settings
        self._steady_ms = steady_ms
        self._shelf = shelf
        self._connection = connect(place, synchronous="FULL")
        self._feed = Feed(location_of(settings, "control"))
        self._backend = journal_in(settings.data_path / FOLDER)
        self._journal = self._backend.reader()
        self._short: dict[int, Short] = {}

    def take(self, partition: int, is_wanted: Callable[[], bool]) -> Claim | None:
        """Become a partition's owner and read its state; None when by then it is not wanted any more.

        Raise JournalAway and the database's errors as they come. The epoch is raised first: what is read afterwards
        nobody else changes any more.
        """
        if not is_wanted():
            return None
        epoch = self._raise(partition)
        self._learn_erased(partition)
        start, end = self._journal.start(partition), self._journal.end(partition)
        saved = self._checkpoint(partition)
        next_offset = saved.next_offset if saved else start
        if next_offset > end:
            self._short.setdefault(partition, Short(end, self._steady_ms()))
            # Nothing is passed over and nothing read twice by itself: who leads it now may be about to catch up.
            raise JournalAway(f"partition {partition} ends at {end}, before {next_offset}, which was read before")
        self._note_lost(partition, next_offset)
        version = saved.version if saved else 0
        then = self._feed.at(version)
        if then.version != version:
            raise DatabaseError(f"connections version {version} is needed to go on and cannot be read yet")
        open_places = places.decode_offset_sets(saved.blob).lanes if saved else {}
        lanes = self._lanes(partition)
        undone = {offset for ranges in open_places.values() for offset in places.to_offsets(ranges)}
        for row in lanes.values():
            undone.update(places.to_offsets(places.decode_cursor(row.blob).undone))
        backlogs = self._backlogs(partition)
        known = delivered(self._connection, partition)
        return Claim(
            partition,
            epoch,
            next_offset,
            end,
            then,
            open_places,
            lanes,
            backlogs,
            {partition << PLACE_SHIFT | offset: record for offset, record in self._records(partition, undone).items()},
            self._index(partition, epoch, start, next_offset),
            known,
            settled(self._connection, partition, known, backlogs),
        )

    def close(self) -> None:
        """Let go of connections."""
        self._connection.close()
        self._feed.close()
        self._journal.close()

    def _raise(self, partition: int) -> int:
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            epoch = raise_epoch(cursor, partition, self.worker, int(time.time() * 1000))
            now_ms = self._steady_ms()
            bring_near(cursor, now_ms, now_ms + int(self._settings.deliver.retry_window * 1000), partition)
            cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        return epoch

    def _note_lost(self, partition: int, next_offset: int) -> None:
        """Note what brokers lost of a partition that was too short, when others have its offsets now: those are not
        sent by themselves. What was only late to be seen had been stored before."""
        short = self._short.get(partition)
        if short is None:
            return
        found = self._journal.get(partition, short.end)
        if found is None or journal_ms(found) >= short.seen_ms:
            lost = Lost(partition, short.end, next_offset, int(time.time() * 1000), ("deliver",))
            note_lost(self._settings.data_path / FOLDER, [lost])
            logger().error("offsets_given_again", partition=partition, first=short.end, next_offset=next_offset)
        del self._short[partition]

    def _learn_erased(self, partition: int) -> None:
        """Blank what was erased while this data folder had no part in it."""
        for (blob,) in self._connection.execute("SELECT places FROM erased_parts WHERE partition = ?", (partition,)):
            self._backend.note_erased(partition, decode_offset_sets(blob).get(partition, ()))

    def _checkpoint(self, partition: int) -> SavedCheckpoint | None:
        query = "SELECT next_offset, version, blob FROM checkpoints WHERE partition = ?"
        row = self._connection.execute(query, (partition,)).fetchone()
        return SavedCheckpoint(*row) if row else None

    def _lanes(self, partition: int) -> dict[int, SavedLane]:
        query = "SELECT lane, partition, next_offset, state, blob FROM lanes WHERE partition = ?"
        return {row[0]: SavedLane(*row) for row in self._connection.execute(query, (partition,))}

    def _backlogs(self, partition: int) -> dict[int, RetryBacklog]:
        query = "SELECT lane, count(*), min(due) FROM retries WHERE partition = ? GROUP BY lane"
        return {lane: RetryBacklog(count, due) for lane, count, due in self._connection.execute(query, (partition,))}

    def _records(self, partition: int, offsets: set[int]) -> dict[int, Record]:
        found: dict[int, Record] = {}
        for offset in sorted(offsets):
            record = self._journal.get(partition, offset)
            if record is not None and not record.erased:
                found[offset] = record
        return found

    def _index(self, partition: int, epoch: int, start: int, next_offset: int) -> Duplicates:
        folder = self._settings.data_path / "index" / str(partition)
        self._shelf.fetch(partition, folder, start)
        duplicates = Duplicates(
            folder,
            self._journal,
            partition,
            window_seconds=self._settings.dedup.window,
            bytes_max=self._settings.dedup.bytes,
            on_sealed=lambda: self._shelf.keep(partition, epoch, folder, start),
        )
        duplicates.read_up_to(next_offset)
        return duplicates
