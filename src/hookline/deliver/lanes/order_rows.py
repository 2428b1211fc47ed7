"""Makes the retry rows of an ordered lane pending again: after a restart, and when dead letters were called back."""

from __future__ import annotations

from hookline.deliver.lanes.lane import Lane
from hookline.deliver.lanes.order import NEVER_MS
from hookline.deliver.store.writer import DeliverStore
from hookline.journal.port import Reader
from hookline.outcomes.progress import PLACE_SHIFT


def load_order(lane: Lane, store: DeliverStore, journal: Reader) -> None:
    """Note every row that holds up its user, and call the turn of those that wait to be called and are first."""
    order = lane.order
    if order is None:
        return
    waiting: list[int] = []
    for row in store.rows.oldest(lane.number, lane.retry_count + len(lane.settling)):
        place = row.partition << PLACE_SHIFT | row.offset
        # What the next checkpoint changes is known already, or done.
        if place in lane.settling or place in lane.in_flight or row.attempt >= lane.options.set_aside_after:
            continue
        record = journal.get(row.partition, row.offset)
        if record is not None and not record.erased:
            order.note(place, record.user_key)
        if row.due_ms >= NEVER_MS:
            waiting.append(place)
    # Those called whose row is not saved yet were passed over above: they stay called.
    order.called[:] = [place for place in order.called if place in lane.settling]
    for place in waiting:
        order.call(place)
