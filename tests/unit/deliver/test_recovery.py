"""Restarts after kill -9: what was answered is not sent again, what was not is."""

from __future__ import annotations

from shutil import rmtree

import pytest

from hookline.connections.model import DeliveryOptions, Filter, Pause
from hookline.database.sqlite import DatabaseNotMade
from hookline.journal.damaged import read_lost
from hookline.journal.local.appender import LocalAppender
from tests.unit.deliver.rig import Rig, destination, source


def begin(rig: Rig, events: int = 0) -> None:
    """Start with one destination and so many events."""
    rig.change(source(), source("app"), destination("crm"))
    rig.start()
    if events:
        rig.append(*(f"m{n}" for n in range(events)))
        rig.turn()


def test_what_was_in_flight_is_sent_again_without_waiting_for_news(rig: Rig) -> None:
    """After a restart open events go out at once, although nothing new is in the journal."""
    begin(rig, 5)
    rig.checkpoint()
    rig.restart()
    assert [request.offset for request in rig.network.waiting] == [0, 1, 2, 3, 4]


def test_what_was_answered_after_the_last_checkpoint_is_not_sent_again(rig: Rig) -> None:
    """The progress ring knows more than the database, and so does ``why``, before and after the next checkpoint."""
    begin(rig, 5)
    rig.checkpoint()
    for offset in (1, 3):
        rig.answer(next(request for request in rig.network.waiting if request.offset == offset))
    rig.restart()
    assert [request.offset for request in rig.network.waiting] == [0, 2, 4]
    assert rig.status_at("m3", "crm") == "delivered"
    rig.checkpoint()
    rig.restart()
    assert rig.status_at("m3", "crm") == "delivered"


@pytest.mark.parametrize("set_back_ms", [0, 3_600_000])
def test_what_was_answered_after_the_last_checkpoint_counts_once(rig: Rig, set_back_ms: int) -> None:
    """However often the role is started while the lane stands still before it, and however its wall clock is set."""
    begin(rig, 3)
    rig.answer_all()
    rig.checkpoint()
    rig.append("m3", "m4")
    rig.turn()
    rig.answer_all()
    rig.kill()
    rig.store.pause("crm", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
    rig.clock.set_by_ms -= set_back_ms
    for _ in range(3):
        rig.start()
        rig.turn()
        rig.checkpoint()
        assert rig.role.store.reader.totals()["crm"].delivered == 5
        rig.kill()


def test_a_lane_that_stands_still_keeps_what_was_delivered_ahead_of_it(rig: Rig) -> None:
    """Another start finds it although the ring has no more of it: others had many results meanwhile."""
    rig.limit(ring_entries=64, ring_margin=20, in_flight_max=20)
    rig.change(source(), destination("crm"), destination("mail"))
    rig.start()
    rig.checkpoint()
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.answer(next(each for each in rig.network.waiting if each.destination == "crm" and each.offset == 1))
    rig.kill()
    rig.store.pause("crm", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
    rig.start()
    for burst in range(10):
        rig.append(*(f"later{burst}-{number}" for number in range(10)))
        rig.turn()
        rig.answer_all(200, "mail")
        rig.checkpoint()
    rig.restart()
    rig.store.resume("crm", None, "test", rig.appender.ends)
    rig.follow()
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == [0, 0, 1, *([2, 2]), *range(3, 103)]


def test_a_lane_that_gives_back_what_it_queued_repeats_nothing_behind_it(rig: Rig) -> None:
    """Pass over what the ring knows as delivered each time that the lane comes by it: filters that change have it read
    once more what it had queued, and so has a breaker that opens at the first answers after a restart."""
    one_at_once = DeliveryOptions(max_concurrency=1)
    begin(rig)
    rig.checkpoint()
    rig.append(*(f"m{n}" for n in range(5)))
    rig.turn()
    for offset in (2, 4):
        rig.answer(next(request for request in rig.network.waiting if request.offset == offset))
    rig.kill()
    rig.change(destination("crm", delivery=one_at_once))
    rig.start()
    rig.turn()
    for name in ("a", "b"):
        filters = (Filter(condition=f'event = "{name}"', do="drop"),)
        rig.change(destination("crm", delivery=one_at_once, filters=filters))
        rig.follow()
        rig.turn()
    rig.come_to_rest()
    assert rig.offsets("crm") == [*range(5), 0, 1, 3]
    assert rig.role.store.reader.totals()["crm"].delivered == 5


def test_what_sources_that_are_new_pass_over_counts_once(rig: Rig) -> None:
    """Each of them reads a stretch that the lane has been through: its results are saved, or found by the restart."""
    others = source("app"), source("shop")
    rig.change(source(), *others, destination("crm"))
    rig.start()
    rig.change(destination("crm", sources=("website", "app", "shop")))
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.answer_all()
    rig.checkpoint()
    rig.append("m3", "m4")
    rig.turn()
    rig.answer_all()
    rig.kill()
    rig.start()
    rig.come_to_rest()
    assert rig.role.store.reader.totals()["crm"].delivered == 5
    assert rig.offsets("crm") == [0, 1, 2, 3, 4]


def test_a_kill_while_nothing_can_be_saved(rig: Rig) -> None:
    """The ring was full of results: whatever was delivered is known to be."""
    rig.limit(ring_entries=64, ring_margin=20, in_flight_max=20)
    begin(rig)
    rig.checkpoint()
    rig.append(*(f"m{number}" for number in range(60)))
    rig.turn()
    rig.answer_all()
    assert rig.role.engine.full
    rig.restart()
    assert not rig.network.waiting
    rig.append(*(f"later{number}" for number in range(80)))
    rig.come_to_rest()
    assert {rig.status_at(f"m{number}", "crm") for number in range(60)} == {"delivered"}
    assert rig.role.store.reader.totals()["crm"].delivered == 140


def test_a_kill_before_the_first_checkpoint(rig: Rig) -> None:
    """A lane that no checkpoint has seen does not begin anew with what its receiver took."""
    begin(rig, 5)
    rig.answer(rig.network.waiting[2])
    rig.restart()
    rig.turn()
    assert [request.offset for request in rig.network.waiting] == [0, 1, 3, 4]
    rig.checkpoint()
    assert rig.status_at("m2", "crm") == "delivered"


def test_what_was_aimed_at_a_lane_that_no_checkpoint_has_seen(rig: Rig) -> None:
    """It may lie before the lane's sources begin; it is not sent again all the same."""
    begin(rig)
    rig.checkpoint()
    rig.kill()
    rig.append(rig.record("aimed", to=("late",), origin="audience"))
    rig.change(destination("late"))
    rig.start()
    rig.turn()
    rig.answer_all(200)
    rig.restart()
    rig.turn()
    assert rig.network.waiting == []


def test_a_lane_opened_after_the_last_checkpoint(rig: Rig) -> None:
    """The same for a destination that was enabled a moment before the kill."""
    begin(rig)
    rig.checkpoint()
    rig.change(destination("late"))
    rig.append("m0", "m1")
    rig.turn()
    rig.follow()
    rig.answer(next(request for request in rig.network.waiting if request.destination == "late"))
    rig.restart()
    rig.turn()
    assert [request.offset for request in rig.network.waiting if request.destination == "late"] == [1]


def test_a_source_connected_after_the_last_checkpoint(rig: Rig) -> None:
    """And for a source whose events were being caught up with."""
    begin(rig)
    rig.change(destination("crm", sources=("website", "app")))
    rig.append(rig.record("a0", "app"), rig.record("a1", "app"))
    rig.turn()
    rig.checkpoint()
    rig.follow()
    assert len(rig.network.waiting) == 2
    rig.answer(rig.network.waiting[0])
    rig.restart()
    rig.turn()
    assert [request.offset for request in rig.network.waiting] == [1]


def test_a_side_intake_survives(rig: Rig) -> None:
    """What a new source still had to catch up with is caught up with after a restart, and nothing twice."""
    begin(rig)
    rig.change(destination("crm", sources=("website", "app")))
    for n in range(6):
        rig.append(rig.record(f"a{n}", "app"))
        rig.turn()
    rig.role.follow_connections()
    rig.checkpoint_while(lambda: None)
    rig.turn()
    rig.answer(rig.network.waiting[0])
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    assert sorted(set(rig.offsets("crm"))) == [0, 1, 2, 3, 4, 5]
    assert rig.offsets("crm").count(0) == 1


def test_a_probe_does_not_repeat_what_was_delivered(rig: Rig) -> None:
    """A lane that was parked when it was killed skips what the ring knows, in its probes too."""
    begin(rig)
    lane = rig.lane("crm")
    rig.role.feeder.detach(lane)
    lane.breaker.open("test")
    rig.role.engine.probing.add(lane)
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.checkpoint()
    rig.pass_time(1.0)
    rig.answer(rig.network.waiting[0])
    rig.restart()
    rig.pass_time(1.0)
    rig.come_to_rest()
    assert rig.offsets("crm").count(0) == 1
    assert set(rig.offsets("crm")) == {0, 1, 2}


def test_an_open_breaker_is_open_after_a_restart(rig: Rig) -> None:
    """A dead receiver is not met with a burst each time the service starts."""
    begin(rig, 60)
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)
    rig.checkpoint()
    rig.restart()
    rig.turn()
    assert rig.lane("crm").breaker.state == "open"
    assert len(rig.network.waiting) == 0
    rig.pass_time(1.0)
    assert len(rig.network.waiting) == 1


def test_a_destination_disabled_meanwhile_gets_nothing(rig: Rig) -> None:
    """Changes made while the role was down come before what it had open."""
    begin(rig, 5)
    rig.checkpoint()
    rig.kill()
    rig.change(destination("crm", enabled=False))
    rig.start()
    rig.turn()
    assert rig.network.waiting == []
    rig.checkpoint()
    assert rig.status_at("m0", "crm") == "discarded"


def test_the_last_answers_of_a_destination_that_ended_are_saved_once(rig: Rig) -> None:
    """They came between the checkpoint of its end and a kill; the ring has no more of them when it is asked later."""
    rig.limit(ring_entries=64, ring_margin=20, in_flight_max=20)
    begin(rig, 5)
    rig.answer(rig.network.waiting[0])
    rig.checkpoint()
    rig.change(destination("crm", enabled=False), destination("mail"))
    rig.follow()
    rig.checkpoint()
    for request in rig.network.waiting[:2]:
        rig.answer(request)
    for _ in range(3):
        rig.restart()
        rig.turn()
        rig.checkpoint()
        assert rig.role.store.reader.totals()["crm"].delivered == 3
    rig.append(*(f"later{number}" for number in range(80)))
    rig.come_to_rest()
    assert [rig.status_at(f"m{n}", "crm") for n in range(5)] == ["delivered"] * 3 + ["discarded"] * 2


def test_what_a_destination_took_that_came_and_went_since_the_last_checkpoint(rig: Rig) -> None:
    """No checkpoint knows of its lane: what it delivered is counted once, and known when the ring is written over."""
    begin(rig)
    rig.checkpoint()
    rig.change(destination("late"))
    rig.append("m0", "m1")
    rig.follow()
    rig.answer(next(each for each in rig.network.waiting if each.destination == "late"))
    rig.change(destination("late", enabled=False))
    rig.follow()
    for _ in range(3):
        rig.restart()
        rig.come_to_rest()
        assert rig.role.store.reader.totals()["late"].delivered == 1
    (rig.settings.data_path / "progress.ring").unlink()
    assert [rig.status_at(each, "late") for each in ("m0", "m1")] == ["delivered", "discarded"]


def test_without_its_connections_it_does_not_start(rig: Rig) -> None:
    """Lanes must not be forgotten, or begin anew, because control.db cannot be read yet: the role waits for it."""
    begin(rig, 5)
    rig.checkpoint()
    rig.kill()
    path = rig.folder / "control.db"
    aside = path.rename(rig.folder / "aside.db")
    with pytest.raises(DatabaseNotMade):
        rig.start()
    aside.rename(path)
    rig.restart()
    assert [request.offset for request in rig.network.waiting] == [0, 1, 2, 3, 4]


def test_duplicates_are_recognised_after_a_restart(rig: Rig) -> None:
    """An event sent before the kill makes its repeat after it a duplicate; re-reading makes none of itself."""
    begin(rig, 3)
    rig.checkpoint()
    rig.restart()
    rig.append("m1", "m3")
    rig.turn()
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == [0, 0, 1, 1, 2, 2, 4]
    assert rig.event("m1").duplicates == 1


def lose_end(rig: Rig, kept: int) -> None:
    """As brokers do that all lost their power: only the first records are there."""
    rig.loop.run_until_complete(rig.appender.close())
    rmtree(rig.folder / "journal")
    rig.appender = LocalAppender(rig.folder / "journal", retention_seconds=1e6, retention_bytes=1 << 40)
    rig.append(*(f"m{number}" for number in range(kept)))


@pytest.mark.parametrize("is_late", [False, True])
def test_offsets_that_brokers_lost_before_the_start_are_told_once_they_are_given_again(
    rig: Rig, capsys: pytest.CaptureFixture[str], is_late: bool
) -> None:
    """What came at them is not sent, for the reader is behind them: that was said by many processes, and by one that
    lived through it alone. Of what was only late to be seen there is nothing to say."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m0", "m1", "m2")
    rig.come_to_rest()
    rig.checkpoint()
    before_ms = rig.clock.now_ms()
    rig.pass_time(1)
    rig.kill()
    lose_end(rig, 1)
    rig.start()
    assert "partition_behind" in capsys.readouterr().out
    given = {"received_at": before_ms} if is_late else {}
    rig.append(rig.record("n1", **given), rig.record("n2", **given), "n3")
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1, 2, 3]
    noted = [(each.first, each.next_offset) for each in read_lost(rig.folder / "journal")]
    assert noted == ([] if is_late else [(1, 3)])
