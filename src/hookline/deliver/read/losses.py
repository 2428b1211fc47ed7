"""Events that a lane should have had and that can no longer be read: one range record, and a line in the log."""

from __future__ import annotations

from typing import NamedTuple

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.store.batch import RangeRow
from hookline.journal.port import JournalCorrupt, Lookups, OffsetExpired
from hookline.outcomes.positions import Ranges
from hookline.outcomes.reader import DeliverReader
from hookline.telemetry.log import logger

RETENTION_PASSED = "the journal's retention passed the lane"
UNREADABLE = "journal segment damaged or missing: the event cannot be read any more"
"""Begins as ``JournalCorrupt`` does: the notice of damage finds its destinations by that."""


class Loss(NamedTuple):
    """Hold what cannot be read, up to the offset ``until``."""

    until: int
    status: str
    reason: str


def loss_by(error: OffsetExpired | JournalCorrupt) -> Loss:
    """Return what an error of a reader means for a lane."""
    if isinstance(error, OffsetExpired):
        return Loss(error.start, "expired_by_retention", RETENTION_PASSED)
    return Loss(error.next_offset, "discarded", str(error))


def record_unreadable(
    engine: Dispatcher, lane: Lane, journal: Lookups, reader: DeliverReader, partition: int, offset: int
) -> None:
    """Say so of one event that a lane had taken and whose record is not to be had, unless that is on record."""
    if offset >= journal.start(partition):
        record_loss(engine, lane, partition, offset, Loss(offset + 1, "discarded", UNREADABLE))
    elif reader.range_of(lane.number, partition, offset) is None:  # retention was here since it was looked at last
        record_loss(engine, lane, partition, offset, Loss(offset + 1, "expired_by_retention", RETENTION_PASSED))


def record_loss(engine: Dispatcher, lane: Lane, partition: int, first: int, loss: Loss) -> None:
    """Say so on the record of a lane that stood at the offset ``first``."""
    until, status, reason = loss
    destination = lane.destination.id
    logger().error("events_passed_over", destination=destination, events=until - first, status=status, reason=reason)
    row = RangeRow(lane.number, destination, partition, first, until - 1, status, engine.clock.now_ms(), reason)
    engine.batch.ranges.append(row)


def note_missing(engine: Dispatcher, lane: Lane, partition: int, missing: Ranges) -> None:
    """Put on a lane's record what it was to send and the journal has no more, for that lost its end once; it is told
    as a whole where that is found (``journal_behind``)."""
    now_ms, destination = engine.clock.now_ms(), lane.destination.id
    for first, count in zip(missing[::2], missing[1::2], strict=True):
        row = RangeRow(lane.number, destination, partition, first, first + count - 1, "discarded", now_ms, UNREADABLE)
        engine.batch.ranges.append(row)
