"""Counting usage: each event once, whatever crashes, and as filtered only if no destination gets it."""

from __future__ import annotations

from hookline.connections.model import Filter
from hookline.deliver.read.feeder import DAY_MS
from hookline.deliver.store.writer import USAGE_DAYS_KEPT
from hookline.journal.record import Rejection
from tests.unit.deliver.rig import START_MS, Rig, destination, source
from tests.unit.deliver.test_filters import HEARTBEATS, event

DAY = (START_MS + 1_000_000) // DAY_MS


def usage(rig: Rig) -> dict[tuple[int, str], tuple[int, int]]:
    """What the table says."""
    rows = rig.role.store._read.execute("SELECT day, source, events, filtered FROM usage").fetchall()
    return {(day, source): (events, filtered) for day, source, events, filtered in rows}


def begin(rig: Rig, *filtered_by: tuple[str, Filter | None]) -> None:
    """Start with destinations that have one filter or none."""
    made = [destination(id, filters=() if filter is None else (filter,)) for id, filter in filtered_by]
    rig.change(source(), source("app"), *made)
    rig.start()


def test_each_event_counts_once(rig: Rig) -> None:
    """Repeats, refused items and Hookline's own messages are no usage; sources and days are kept apart."""
    begin(rig, ("crm", None))
    rejection = Rejection("missing_user_id", "Give a userId.")
    rig.append(
        "m0",
        "m0",
        "m1",
        rig.record("a0", "app"),
        rig.record("m2", received_at=START_MS + DAY_MS),
        rig.record("bad", rejection=rejection),
        rig.record("own", origin="audience", to=("crm",)),
    )
    rig.turn()
    rig.come_to_rest()
    assert usage(rig) == {(DAY, "website"): (2, 0), (DAY, "app"): (1, 0), (DAY + 1, "website"): (1, 0)}


def test_filtered_is_what_no_destination_gets(rig: Rig) -> None:
    """One destination that takes the event is enough; an event routed nowhere is not filtered."""
    begin(rig, ("crm", HEARTBEATS), ("mail", Filter(condition='userId = "u2"', do="drop")))
    both = b'{"type":"track","event":"Heartbeat","userId":"u2"}'
    rig.append(event(rig, "beat", "Heartbeat"), rig.record("both", body=both), rig.record("a0", "app"))
    rig.turn()
    rig.come_to_rest()
    assert usage(rig) == {(DAY, "website"): (2, 1), (DAY, "app"): (1, 0)}
    assert (rig.role.engine.counters.events["website"], rig.role.engine.counters.filtered["website"]) == (2, 1)


def test_a_lane_that_is_behind_has_its_say(rig: Rig) -> None:
    """A detached destination will still get the event, or filter it: both are counted when the event is read."""
    begin(rig, ("crm", HEARTBEATS), ("mail", None))
    rig.role.feeder.detach(rig.lane("mail"))
    rig.append(event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.role.feeder.room(rig.lane("mail"))
    rig.come_to_rest()
    assert rig.offsets("mail") == [0]
    assert usage(rig) == {(DAY, "website"): (1, 0)}
    rig.change(destination("mail", filters=(HEARTBEATS,)))
    rig.follow()
    for id in ("crm", "mail"):
        rig.role.feeder.detach(rig.lane(id))
    rig.append(event(rig, "second", "Heartbeat"))
    rig.turn()
    for id in ("crm", "mail"):
        rig.role.feeder.room(rig.lane(id))
    rig.come_to_rest()
    assert usage(rig) == {(DAY, "website"): (2, 1)}


def test_who_gets_nothing_more_has_no_say(rig: Rig) -> None:
    """A destination that is drained gets nothing that came after, so it does not keep an event from being filtered."""
    begin(rig, ("crm", HEARTBEATS), ("mail", None))
    rig.append(event(rig, "before", "Heartbeat"))
    rig.turn()
    rig.store.drain("mail", "test", rig.appender.ends)
    rig.follow()
    rig.append(event(rig, "after", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    assert rig.offsets("mail") == [0]
    assert usage(rig) == {(DAY, "website"): (2, 1)}


def test_filters_decide_without_a_secret_too(rig: Rig) -> None:
    """While a destination's settings cannot be used, its events wait, and those that it filters are still filtered."""
    secret = "env:HOOKLINE_SECRET_NOT_THERE"
    rig.change(source(), destination("crm", filters=(HEARTBEATS,), secret=secret))
    rig.start()
    rig.append(event(rig, "beat", "Heartbeat"), "m1")
    rig.turn()
    rig.checkpoint()
    assert usage(rig) == {(DAY, "website"): (2, 1)}


def test_a_kill_counts_nothing_twice(rig: Rig) -> None:
    """Counts are saved with the place up to which they count."""
    begin(rig, ("crm", HEARTBEATS))
    rig.append("m0", event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.restart()
    rig.turn()
    rig.checkpoint()
    rig.append("m1")
    rig.turn()
    rig.answer_all()
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    assert usage(rig) == {(DAY, "website"): (3, 1)}


def test_old_days_go(rig: Rig) -> None:
    """A little more than a year is kept, by the service's own clock: one that was set ahead drops nothing."""
    begin(rig, ("crm", None))
    rig.append("m0")
    rig.turn()
    rig.come_to_rest()
    later = DAY + USAGE_DAYS_KEPT + 1
    rig.append(rig.record("m1", received_at=later * DAY_MS))
    rig.turn()
    rig.come_to_rest()
    assert usage(rig) == {(DAY, "website"): (1, 0), (later, "website"): (1, 0)}
    rig.clock.seconds += (USAGE_DAYS_KEPT + 1) * DAY_MS / 1000
    rig.append("m2")
    rig.turn()
    rig.come_to_rest()
    assert usage(rig) == {(later, "website"): (2, 0)}
