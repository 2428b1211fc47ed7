"""Filters that change while events wait, are in flight or are remembered: which ones decided, and that why knows."""

from __future__ import annotations

from hookline.connections.model import Filter
from tests.unit.deliver.rig import Delete, Rig, destination, source
from tests.unit.deliver.test_filters import HEARTBEATS, begin, event, sampled, sent


def test_new_filters_hold_from_where_the_lane_is(rig: Rig, small_queues: tuple[int, int]) -> None:
    """What was sent stays sent, what waits meets the new filters, and the status names the version that decided."""
    begin(rig)
    rig.append(event(rig, "sent", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    rig.append(event(rig, "fly", "Heartbeat"))
    rig.turn()
    lane = rig.lane("crm")
    lane.breaker.allowance = 1  # what comes now is queued behind the one in flight
    rig.append(event(rig, "queued", "Heartbeat"))
    rig.turn()
    assert len(lane.queue) == 1
    rig.change(destination("crm", filters=(HEARTBEATS,)))
    rig.follow()
    rig.append(event(rig, "after", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    assert sent(rig) == ["sent", "fly"]
    assert [rig.status_at(id, "crm") for id in ("sent", "fly", "queued", "after")] == [
        "delivered",
        "delivered",
        "filtered",
        "filtered",
    ]
    rule = rig.event("queued").destinations[0].rule
    assert rule is not None
    assert "version 2 of the connections" in rule


def test_filters_that_are_gone_still_explain_what_they_did(rig: Rig) -> None:
    """After the filters change, or the destination goes, an event keeps the status it had."""
    begin(rig, HEARTBEATS)
    rig.append(event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    rig.change(destination("crm"))
    rig.follow()
    rig.append(event(rig, "second", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    assert [rig.status_at(id, "crm") for id in ("beat", "second")] == ["filtered", "delivered"]
    rig.change(Delete("destination", "crm"))
    rig.follow()
    rig.checkpoint()
    assert [rig.status_at(id, "crm") for id in ("beat", "second")] == ["filtered", "delivered"]


def test_a_destination_that_ends_with_events_waiting(rig: Rig) -> None:
    """What the lane had come to is filtered, what it had not is discarded."""
    begin(rig, HEARTBEATS)
    rig.append(event(rig, "m0"), event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.append(event(rig, "unread", "Heartbeat"))  # accepted, and not read when the destination goes
    rig.change(Delete("destination", "crm"))
    rig.role.follow_connections()
    rig.turn()
    rig.checkpoint()
    assert [rig.status_at(id, "crm") for id in ("m0", "beat", "unread")] == ["discarded", "filtered", "discarded"]


def test_a_kill_between_a_change_and_its_checkpoint(rig: Rig) -> None:
    """What only memory knew is decided anew by the new filters, as the status says; what was sent is not repeated."""
    begin(rig, Filter(condition='event = "Order"', do="drop"))
    rig.checkpoint()
    rig.append(event(rig, "order"), event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.answer_all(200)
    rig.change(destination("crm", filters=(HEARTBEATS,)))
    rig.role.follow_connections()
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    assert sent(rig) == ["beat", "order"]
    assert [rig.status_at(id, "crm") for id in ("order", "beat")] == ["delivered", "delivered"]


def test_a_kill_after_filters_let_through_what_the_lane_had_passed(rig: Rig, small_queues: tuple[int, int]) -> None:
    """What was queued is read once more and new filters let an event through that lies before the saved position: that
    it was delivered is known for good after a kill, and counted."""
    begin(rig, HEARTBEATS)
    rig.append(event(rig, "fly"))
    rig.turn()
    rig.lane("crm").breaker.allowance = 1  # what comes now is queued behind the one in flight
    rig.append(event(rig, "queued"), event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.checkpoint()
    rig.change(destination("crm"))
    rig.role.follow_connections()
    rig.turn()
    while rig.network.waiting:
        rig.answer_all(200)
        rig.turn()
    assert sent(rig) == ["fly", "queued", "beat"]
    rig.restart()
    rig.come_to_rest()
    rig.checkpoint()
    assert sent(rig) == ["fly", "queued", "beat"]
    assert rig.role.store.reader.totals()["crm"].delivered == 3
    (rig.settings.data_path / "progress.ring").unlink()
    assert rig.status_at("beat", "crm") == "delivered"


def test_a_filter_nobody_checked_makes_the_destination_wait(rig: Rig) -> None:
    """Filters that cannot be used send nothing and lose nothing; put right, everything goes out."""
    rig.change(source(), destination("crm", filters=(HEARTBEATS,)))
    document = "replace(document, 'event = ', 'evnt = ')"
    rig.store._connection.execute(f"UPDATE objects SET document = {document} WHERE kind = 'destination'")
    rig.start()
    rig.append(event(rig, "m"))
    rig.turn()
    rig.checkpoint()
    assert (sent(rig), rig.status_at("m", "crm")) == ([], "queued")
    rig.change(destination("crm", filters=()))
    rig.follow()
    rig.come_to_rest()
    assert rig.status_at("m", "crm") == "delivered"


def test_what_retention_dropped_needs_no_filters(rig: Rig) -> None:
    """Of a lane's filters only those that decide about events still kept stay on record; ended lanes leave nothing."""
    begin(rig, HEARTBEATS)
    for n in range(3):
        rig.append(event(rig, f"m{n}"))
        rig.turn()
        rig.come_to_rest()
        rig.change(destination("crm", filters=(HEARTBEATS, sampled(n))))
        rig.follow()
    rig.checkpoint()
    lane = rig.lane("crm").number
    versions = "SELECT version FROM lane_filters WHERE lane = ? ORDER BY id"
    rig.role.store.forget_below(0, 2)
    assert [row[0] for row in rig.role.store._read.execute(versions, (lane,))] == [3, 4]
    rig.change(Delete("destination", "crm"))
    rig.follow()
    rig.checkpoint()
    rig.role.store.forget_below(0, 9)
    assert rig.role.store._read.execute(versions, (lane,)).fetchall() == []
