"""The sealed runs of the index of repeats, kept in the database too, where a partition may go to another machine.

A run never changes, so a worker that takes a partition up needs only those it does not have. What could not be kept is
tried again with the next run; until then whoever takes the partition up reads those events from the journal.
"""

from __future__ import annotations

import threading
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import engine as sqlite
from hookline.database.upsert import replacing
from hookline.deliver.cluster.fence import Fenced, check
from hookline.index.run import SUFFIX
from hookline.telemetry.log import logger

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
                if path.name not in kept or _digest(path.read_bytes()) != kept[path.name].digest:
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
                    if path.name not in kept:
                        self._put(partition, epoch, path)
                query = "DELETE FROM index_runs WHERE partition = ? AND next_offset <= ?"
                self._connection.execute(query, (partition, journal_start))
        except (sqlite.Error, OSError) as error:
            logger().warning("index_run_not_kept", partition=partition, error=str(error))
        except Fenced:
            return  # whoever owns the partition by now seals runs of its own

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def renew(self, partition: int, epoch: int, folder: Path, first: int, end: int) -> None:
        """Keep the runs that hold some of ``[first, end)`` as they are now; raise what disk and database raise."""
        with self._lock:
            for name, run in self._kept(partition, 0).items():
                if run.first_offset < end and first < run.next_offset and (folder / name).exists():
                    self._put(partition, epoch, folder / name)

    def drop_stale(self, partition: int, folder: Path, first: int, end: int) -> None:
        """Remove the runs of a partition of others that hold some of ``[first, end)`` and are not as they are kept."""
        with self._lock:
            kept = self._kept(partition, 0)
            for path in folder.glob("*" + SUFFIX):
                begins, ends = (int(part) for part in path.stem.split("-"))
                if ends <= first or end <= begins:
                    continue
                if path.name not in kept or _digest(path.read_bytes()) != kept[path.name].digest:
                    path.unlink(missing_ok=True)

    def _kept(self, partition: int, journal_start: int) -> dict[str, _StoredRun]:
        rows = self._connection.execute(
            "SELECT first_offset, next_offset, digest FROM index_runs WHERE partition = ? AND next_offset > ?"
            " ORDER BY first_offset",
            (partition, journal_start),
        )
        return {f"{row[0]:020d}-{row[1]:020d}{SUFFIX}": _StoredRun(*row) for row in rows}

    def _put(self, partition: int, epoch: int, path: Path) -> None:
        first, end = (int(part) for part in path.stem.split("-"))
        run = path.read_bytes()
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            check(cursor, {partition: epoch})
            cursor.execute(_PUT_RUN, (partition, first, end, _digest(run), run))
            cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise


class _StoredRun(NamedTuple):
    first_offset: int
    next_offset: int
    digest: str


def _digest(run: bytes) -> str:
    return blake2b(run, digest_size=16).hexdigest()
