"""What this process's progress ring knows, in the database for whoever takes its partitions up (decision 44).

The ring stays with its process, and where deliver is many of them a partition may go to another one. That finds all in
the last checkpoint, unless the database has lost that, or the process died before it: then only the ring knows what was
delivered since. Its entries stay true for ever, so they may be written at any time, and need neither epoch nor turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from hookline.database.commits import commits_of
from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import engine as sqlite
from hookline.database.upsert import replacing
from hookline.outcomes.progress import OFFSET_MASK, PLACE_SHIFT, ProgressRing, deliveries
from hookline.telemetry.log import logger

KEPT_MS = 86_400_000
"""Entries of a data folder that is gone; those of one that is there are replaced at each start."""

_PUT = replacing("ring_entries", ("folder", "partition"), ("at", "entries"))

Deliveries = dict[int, dict[int, bytes]]
"""Entries by lane and place."""


class SharedRing:
    """Writes what a ring knows; on the event loop, where nothing is sent yet or any more."""

    def __init__(self, location: DatabaseLocation, ring: ProgressRing) -> None:
        self._location = location
        self._ring = ring

    def publish(self) -> None:
        """Write down all deliveries that the ring knows, in place of those it knew the last time; what fails is told,
        and costs repeats."""
        by_partition: dict[int, list[bytes]] = {}
        for _, place, entry in deliveries(self._ring.everything()):
            by_partition.setdefault(place >> PLACE_SHIFT, []).append(entry)
        commits, now_ms = commits_of(self._location), time.time_ns() // 1_000_000
        folder = "" if commits is None else commits.writer.hex()
        rows = [(folder, partition, now_ms, b"".join(entries)) for partition, entries in by_partition.items()]
        connection = connect(self._location, synchronous="NORMAL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM ring_entries WHERE folder = ? OR at < ?", (folder, now_ms - KEPT_MS))
            connection.executemany(_PUT, rows)
            connection.execute("COMMIT")
        except sqlite.Error as error:
            logger().warning("ring_not_shared", error=str(error), next_step="some events may be sent again")
        finally:
            connection.close()  # undoes what is open

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
        for lane, place, entry in deliveries(entries):
            found.setdefault(lane, {})[place] = entry
    return found


def settled(connection: Connection, partition: int, known: Deliveries, lanes: Iterable[int]) -> list[tuple[int, int]]:
    """Return lane and place of the retry rows of some lanes whose events were delivered."""
    query = 'SELECT "offset" FROM retries WHERE lane = ? AND partition = ? AND "offset" BETWEEN ? AND ?'
    found = []
    for lane in known.keys() & set(lanes):
        offsets = [place & OFFSET_MASK for place in known[lane]]
        for (offset,) in connection.execute(query, (lane, partition, min(offsets), max(offsets))):
            place = partition << PLACE_SHIFT | offset
            if place in known[lane]:
                found.append((lane, place))
    return found
