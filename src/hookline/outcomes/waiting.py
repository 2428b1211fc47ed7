"""From which offset on a partition of the journal is still waited for: by lanes that work, and by lanes that are held.

A lane that is paused, or whose breaker is open, is held: for what only such lanes wait, retention need not stop intake.
What is unknown counts as waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.outcomes import places

HELD_STATES = frozenset(("paused", "open", "gone"))
ENDED_STATES = frozenset(("finished", "drained"))
NOBODY = 2**63 - 1


class FirstNeeded(NamedTuple):
    """The first offset that a working lane waits for, and the first one that a held lane does."""

    working: int
    held: int


ALL_IS_WAITED_FOR = FirstNeeded(0, NOBODY)
"""Of a partition about which deliver has not said anything."""


def waited_for(connection: Connection) -> Mapping[int, FirstNeeded]:
    """By partition, as deliver's last checkpoint has it."""
    found: dict[int, FirstNeeded] = {}
    for partition, next_offset, blob in connection.execute("SELECT partition, next_offset, blob FROM checkpoints"):
        opened = [ranges[0] for ranges in places.decode_offset_sets(blob).lanes.values() if ranges] if blob else []
        found[partition] = FirstNeeded(min((next_offset, *opened)), NOBODY)
    held: set[int] = set()
    query = "SELECT lane, partition, next_offset, state, blob FROM lanes"
    for lane, partition, next_offset, state, blob in connection.execute(query).fetchall():
        if state in ENDED_STATES:
            continue
        if state in HELD_STATES:
            held.add(lane)
        cursor = places.decode_cursor(blob)
        own = [backfill.next_offset for backfill in cursor.backfills] + [*cursor.undone[:1]]
        _wait(found, partition, min((*own, *([] if cursor.attached else [next_offset])), default=NOBODY), lane in held)
    query = 'SELECT lane, partition, min("offset") FROM retries GROUP BY lane, partition'
    for lane, partition, first in connection.execute(query).fetchall():
        _wait(found, partition, first, lane in held)
    return found


def _wait(found: dict[int, FirstNeeded], partition: int, offset: int, is_held: bool) -> None:
    working, held = found.get(partition, ALL_IS_WAITED_FOR)
    found[partition] = FirstNeeded(working, min(held, offset)) if is_held else FirstNeeded(min(working, offset), held)
