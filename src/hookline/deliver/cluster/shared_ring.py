"""Keep in the database what the next owner of a partition goes on from: the progress ring and the sealed runs of the
index of repeats.

The ring stays with its process, and where deliver is many of them a partition may go to another one. That finds all in
the last checkpoint, unless the database has lost that, or the process died before it: then only the ring knows what was
delivered since. Its entries stay true for ever, so they may be written at any time, and need neither epoch nor turn.

A run never changes, so a worker that takes a partition up needs only those it does not have. What could not be kept is
tried again with the next run; until then whoever takes the partition up reads those events from the journal.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from hookline.database.commits import commits_of
from hookline.database.connect import connect
from hookline.database.connection import Connection, replacing, transaction
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import engine as sqlite
from hookline.deliver.cluster.fence import Fenced, check
from hookline.index.run import SUFFIX
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT, ProgressRing, deliveries
from hookline.outcomes.reader import DeliverReader
from hookline.telemetry.log import logger
from hookline.whole_file import is_readable

KEPT_MS = 86_400_000
"""Entries of a data folder that is gone; those of one that is there are replaced at each start."""

_PUT = replacing("ring_entries", ("folder", "partition"), ("at", "entries"))

Deliveries = dict[int, dict[int, bytes]]
"""Entries by lane and position."""


class SharedRing:
    """Writes what a ring knows; on the event loop, where nothing is sent yet or any more."""

    def __init__(self, location: DatabaseLocation, ring: ProgressRing) -> None:
        self._location = location
        self._ring = ring

    def publish(self) -> None:
        """Write down all deliveries that the ring knows, in place of those it knew the last time; what fails is
        reported, and costs repeats."""
        by_partition: dict[int, list[bytes]] = {}
        for _, position, entry in deliveries(self._ring.everything()):
            by_partition.setdefault(position >> POSITION_SHIFT, []).append(entry)
        commits, now_ms = commits_of(self._location), time.time_ns() // 1_000_000
        folder = "" if commits is None else commits.writer.hex()
        rows = [(folder, partition, now_ms, b"".join(entries)) for partition, entries in by_partition.items()]
        connection = connect(self._location, synchronous="NORMAL")
        try:
            with transaction(connection) as execute:
                execute("DELETE FROM ring_entries WHERE folder = ? OR at < ?", (folder, now_ms - KEPT_MS))
                connection.executemany(_PUT, rows)
        except sqlite.Error as error:
            logger().warning("ring_not_shared", error=str(error), next_step="some events may be sent again")
        finally:
            connection.close()

    def hand_over(self) -> None:
        """Publish where the database lacks what this process had committed: before others get its partitions."""
        commits = commits_of(self._location)
        if commits is not None and commits.is_behind:
            commits.go_on_behind()
            self.publish()


def delivered(connection: Connection, partition: int) -> Deliveries:
    """Return what all rings know of a partition."""
    found: Deliveries = {}
    for (entries,) in connection.execute("SELECT entries FROM ring_entries WHERE partition = ?", (partition,)):
        for lane, position, entry in deliveries(entries):
            found.setdefault(lane, {})[position] = entry
    return found


def settled(saved: DeliverReader, partition: int, known: Deliveries, lanes: Iterable[int]) -> list[tuple[int, int]]:
    """Return lane and position of the retry rows of some lanes whose events were delivered."""
    found = []
    for lane in known.keys() & set(lanes):
        offsets = [position & OFFSET_MASK for position in known[lane]]
        for offset in saved.retried_between(lane, partition, min(offsets), max(offsets)):
            position = partition << POSITION_SHIFT | offset
            if position in known[lane]:
                found.append((lane, position))
    return found


_PUT_RUN = replacing("index_runs", ("partition", "first_offset"), ("next_offset", "digest", "run"))


class SharedIndexStore:
    """Brings runs from a partition's folder to the database and back; may be used on any thread."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._connection = connect(location, synchronous="NORMAL")
        self._lock = threading.Lock()

    def fetch(self, partition: int, folder: Path, journal_start: int) -> int:
        """Make the folder hold the runs that are kept of what the journal still has; return how many came new."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock:
            kept = self._kept(partition, journal_start)
            for path in folder.glob("*" + SUFFIX):
                # It would overlap with those of others, or tell whose events were that are erased.
                if not _is_as_kept(path, kept):
                    path.unlink()
            missing = [name for name in kept if not (folder / name).exists()]
            for name in missing:
                query = "SELECT run FROM index_runs WHERE partition = ? AND first_offset = ?"
                row = self._connection.execute(query, (partition, kept[name].first_offset)).fetchone()
                if row is not None:
                    temporary = folder / (name + ".part")
                    temporary.write_bytes(row[0])
                    temporary.rename(folder / name)
        return len(missing)

    def keep(self, partition: int, epoch: int, folder: Path, journal_start: int) -> None:
        """Add what the folder has and the database lacks, and drop what the journal has dropped."""
        try:
            with self._lock:
                kept = self._kept(partition, 0)
                for path in sorted(folder.glob("*" + SUFFIX)):
                    if path.name not in kept and (content := _content(path)) is not None:
                        self._put(partition, epoch, path, content)
                query = "DELETE FROM index_runs WHERE partition = ? AND next_offset <= ?"
                self._connection.execute(query, (partition, journal_start))
        except (sqlite.Error, OSError) as error:
            logger().warning("index_run_not_kept", partition=partition, error=str(error))
        except Fenced:
            return  # whoever owns the partition by now seals runs of its own

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def renew(self, partition: int, epoch: int, folder: Path, offsets: Sequence[int]) -> None:
        """Keep the runs that hold some of these ascending offsets as they are now, and no longer those that are gone,
        or that the disk cannot read: nobody overwrites what is kept of them; raise what disk and database raise."""
        with self._lock:
            kept = self._kept(partition, 0)
        for name, run in kept.items():
            if bisect_left(offsets, run.first_offset) == bisect_left(offsets, run.next_offset):
                continue
            content = _content(folder / name)
            if content is not None and _digest(content) == run.digest:
                continue  # a step that is done again sends nothing again
            with self._lock:  # for one run at a time: a partition that is being taken waits for it
                if content is None:
                    self._remove(partition, epoch, run)
                else:
                    self._put(partition, epoch, folder / name, content)

    def drop_stale(self, partition: int, folder: Path, first: int, end: int) -> None:
        """Remove the runs of a partition of others that hold some of ``[first, end)`` and are not as they are kept."""
        for path in folder.glob("*" + SUFFIX):
            begins, ends = (int(part) for part in path.stem.split("-"))
            if ends <= first or end <= begins:
                continue
            with self._lock:  # for one run at a time, as kept by then: a partition that is being taken waits for it
                if not _is_as_kept(path, self._kept(partition, 0)):
                    path.unlink(missing_ok=True)

    def _kept(self, partition: int, journal_start: int) -> dict[str, _StoredRun]:
        rows = self._connection.execute(
            "SELECT first_offset, next_offset, digest FROM index_runs WHERE partition = ? AND next_offset > ?"
            " ORDER BY first_offset",
            (partition, journal_start),
        )
        return {f"{row[0]:020d}-{row[1]:020d}{SUFFIX}": _StoredRun(*row) for row in rows}

    def _put(self, partition: int, epoch: int, path: Path, run: bytes) -> None:
        first, end = (int(part) for part in path.stem.split("-"))
        with transaction(self._connection) as execute:
            check(self._connection, {partition: epoch})
            execute(_PUT_RUN, (partition, first, end, _digest(run), run))

    def _remove(self, partition: int, epoch: int, run: _StoredRun) -> None:
        with transaction(self._connection) as execute:
            check(self._connection, {partition: epoch})
            execute("DELETE FROM index_runs WHERE partition = ? AND first_offset = ?", (partition, run.first_offset))


class _StoredRun(NamedTuple):
    first_offset: int
    next_offset: int
    digest: str


def _is_as_kept(path: Path, kept: Mapping[str, _StoredRun]) -> bool:
    content = _content(path) if path.name in kept else None
    return content is not None and _digest(content) == kept[path.name].digest


def _content(path: Path) -> bytes | None:
    """Return what a run holds; None for one that is gone, or that the disk cannot read."""
    try:
        with path.open("rb", buffering=0) as file:
            return file.read() if is_readable(file.fileno()) else None
    except FileNotFoundError:
        return None


def _digest(run: bytes) -> str:
    return blake2b(run, digest_size=16).hexdigest()
