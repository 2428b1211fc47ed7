"""Pause parks, resume goes on: nothing is sent in between, nothing lost, nothing repeated."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions, Pause
from tests.unit.deliver.rig import Rig, destination, source


@pytest.fixture
def crm(rig: Rig) -> Rig:
    """A rig with one destination that has had one event."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("first")
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()
    return rig


def pause(rig: Rig) -> None:
    """Pause the destination, and let the role learn of it."""
    rig.store.pause("crm", Pause(since=rig.clock.now_ms(), reason="a test"), "test", rig.appender.ends)
    rig.follow()


def resume(rig: Rig, rate: float | None = None) -> None:
    """Resume it likewise."""
    rig.store.resume("crm", rate, "test", rig.appender.ends)
    rig.follow()


def fail(rig: Rig, events: int) -> None:
    """Send so many, ``x0`` first, and answer 500 for twenty seconds."""
    rig.append(*(f"x{n}" for n in range(events)))
    rig.turn()
    for _ in range(40):
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)


def test_a_paused_destination_gets_nothing_until_resumed(crm: Rig) -> None:
    """Events park meanwhile and say so; afterwards each comes once, in their order."""
    pause(crm)
    crm.append("a", "b")
    crm.pass_time(60)
    crm.checkpoint()
    assert crm.network.waiting == []
    assert crm.status_at("a", "crm") == "queued"
    assert "paused" in (crm.event("a").destinations[0].reason or "")
    resume(crm)
    crm.come_to_rest()
    assert crm.offsets("crm") == [0, 1, 2]


def test_what_is_in_flight_ends(crm: Rig) -> None:
    """A request on its way is answered and counts."""
    crm.append("a", "b")
    crm.turn()
    pause(crm)
    crm.answer_all(200)
    resume(crm)
    crm.come_to_rest()
    assert crm.offsets("crm") == [0, 1, 2]


def test_it_stays_paused_across_a_restart(crm: Rig) -> None:
    """Nothing is sent by a role that starts again, with or without a checkpoint since the pause."""
    pause(crm)
    crm.append("a")
    crm.restart()
    crm.pass_time(5)
    assert crm.network.waiting == []
    resume(crm)
    crm.come_to_rest()
    assert crm.offsets("crm") == [0, 1]


def test_the_window_stands_still(crm: Rig) -> None:
    """What had failed before a pause longer than the window is tried again after it, not given up, also where its time
    comes before a checkpoint has left the pause out."""
    crm.append("late")
    crm.turn()
    crm.answer_all(503)
    pause(crm)
    crm.checkpoint()
    crm.pass_time(crm.settings.deliver.retry_window * 3)
    crm.checkpoint()
    assert crm.status_at("late", "crm") == "queued"
    resume(crm)
    crm.pass_time(0.05)
    crm.come_to_rest()
    assert crm.status_at("late", "crm") == "delivered"


def test_resume_while_the_role_was_down(crm: Rig) -> None:
    """The window stands still for a pause that ended unseen, too."""
    crm.append("late")
    crm.turn()
    crm.answer_all(503)
    pause(crm)
    crm.checkpoint()
    crm.kill()
    crm.clock.seconds += crm.settings.deliver.retry_window * 3
    crm.store.resume("crm", None, "test", crm.appender.ends)
    crm.start()
    crm.come_to_rest()
    assert crm.status_at("late", "crm") == "delivered"


def test_catching_up_keeps_the_chosen_rate(crm: Rig) -> None:
    """Ten per second until it is level again; then as fast as it goes."""
    pause(crm)
    crm.append(*(f"p{n}" for n in range(50)))
    resume(crm, rate=10.0)
    crm.answer_all(200)
    for _ in range(10):
        crm.pass_time(0.1)
        crm.answer_all(200)
    assert 8 <= len(crm.network.sent) - 1 <= 13
    for _ in range(100):
        crm.pass_time(0.1)
        crm.answer_all(200)
    assert crm.lane("crm").rate is None
    assert crm.offsets("crm") == list(range(51))


def test_the_chosen_rate_holds_for_what_nobody_has_read(rig: Rig, small_queues: tuple[int, int]) -> None:
    """All that follow the journal had enough meanwhile: its reader stands where the pause began, and so is the lane at
    once where all are, with everything behind it."""
    rig.change(source(), destination("crm"), destination("slow", delivery=DeliveryOptions(max_concurrency=1)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(10)))
    rig.turn()
    rig.answer_all(200, "crm")
    pause(rig)
    rig.append(*(f"p{number}" for number in range(50)))
    rig.pass_time(1.0)
    assert rig.role.feeder.shared[0].next_offset == 10
    resume(rig, rate=10.0)
    for _ in range(20):
        rig.answer_all(200, "crm")
        rig.pass_time(0.1)
    assert 18 <= len(rig.offsets("crm")) - 10 <= 23
    for _ in range(100):
        rig.answer_all(200, "crm")
        rig.pass_time(0.1)
    assert rig.lane("crm").rate is None
    assert rig.offsets("crm") == list(range(60))


def test_retries_that_waited_keep_the_chosen_rate_too(crm: Rig) -> None:
    """Retries from before the pause do not follow at once when the journal is read."""
    fail(crm, events=40)
    pause(crm)
    crm.answer_all(500)
    crm.checkpoint()
    before = len(crm.network.sent)
    resume(crm, rate=10.0)
    for _ in range(20):
        crm.pass_time(0.1)
        crm.answer_all(200)
        crm.checkpoint()
    assert 10 <= len(crm.network.sent) - before <= 23
    crm.come_to_rest(seconds=0.1)
    crm.role.engine._paced.clear()  # as where the receiver takes one at a time: no turn of its own comes for the rate
    crm.pass_time(0.1)
    assert crm.lane("crm").rate is None


@pytest.mark.parametrize("saved", ["saved", "unsaved", "as before"])
def test_a_chosen_rate_outlives_a_kill(crm: Rig, saved: str) -> None:
    """The rest comes no faster, also where it was all in memory by then, and where no checkpoint knew of the pause,
    perhaps with the rate of the last one."""
    if saved == "as before":
        pause(crm)
        resume(crm, rate=10.0)
        crm.checkpoint()
        crm.kill()
        crm.store.pause("crm", Pause(since=crm.clock.now_ms(), reason="a test"), "test", crm.appender.ends)
    else:
        pause(crm)
    crm.append(*(f"p{n}" for n in range(50)))
    if saved == "saved":
        resume(crm, rate=10.0)
        crm.answer_all(200)
        crm.checkpoint()
        assert not crm.lane("crm").detached
    else:
        crm.store.resume("crm", 10.0, "test", crm.appender.ends)
    if saved != "as before":
        crm.kill()
    crm.start()
    before = len(crm.network.sent)
    for _ in range(20):
        crm.pass_time(0.1)
        crm.answer_all(200)
    assert 18 <= len(crm.network.sent) - before <= 23
    crm.come_to_rest(seconds=0.1)
    assert crm.lane("crm").rate is None
    assert set(crm.offsets("crm")) == set(range(51))


def test_a_pause_that_nobody_saw_leaves_nothing_to_catch_up_with(crm: Rig) -> None:
    """It began and ended between two looks: the rate would have stayed until something came."""
    crm.store.pause("crm", Pause(since=crm.clock.now_ms(), reason="a test"), "test", crm.appender.ends)
    resume(crm, rate=10.0)
    assert crm.lane("crm").rate is None


@pytest.mark.parametrize("how", ["changed", "restarted"])
def test_catching_up_does_not_begin_again(crm: Rig, how: str) -> None:
    """The chosen rate was for what had waited then: a destination that gets more than that would never be level."""
    pause(crm)
    crm.append("waited")
    resume(crm, rate=10.0)
    crm.come_to_rest(seconds=0.1)
    crm.append(*(f"x{n}" for n in range(5)))
    crm.turn()
    crm.checkpoint()
    if how == "changed":
        crm.change(destination("crm", name="another name"))
        crm.follow()
    else:
        crm.restart()
    for burst in range(10):
        crm.append(*(f"y{burst}-{n}" for n in range(5)))
        crm.turn()
        crm.answer_all(200)
        crm.pass_time(0.05)
    assert set(crm.offsets("crm")) == set(range(57))


def test_nor_where_a_restart_finds_no_secret(crm: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane stands still then, and was level before."""
    monkeypatch.setenv("HOOKLINE_SECRET_CRM", "secret")
    crm.change(destination("crm", secret="env:HOOKLINE_SECRET_CRM"))
    crm.follow()
    pause(crm)
    crm.append("waited")
    resume(crm, rate=10.0)
    crm.come_to_rest(seconds=0.1)
    crm.kill()
    monkeypatch.delenv("HOOKLINE_SECRET_CRM")
    crm.start()
    assert crm.lane("crm").catch_up_rate is None


def test_nor_where_a_restart_finds_an_open_breaker(crm: Rig) -> None:
    """Restart long after the pause: what waits then has nothing to do with it."""
    pause(crm)
    crm.append("waited")
    resume(crm, rate=10.0)
    crm.come_to_rest(seconds=0.1)
    fail(crm, events=30)
    assert crm.lane("crm").breaker.state == "open"
    crm.restart()
    assert crm.lane("crm").rate is None


def test_a_drain_that_ends_a_pause_keeps_no_rate_of_an_earlier_one(crm: Rig) -> None:
    """That was chosen for what had waited then."""
    pause(crm)
    crm.append("waited")
    resume(crm, rate=10.0)
    crm.come_to_rest(seconds=0.1)
    pause(crm)
    crm.append(*(f"x{n}" for n in range(40)))
    crm.store.drain("crm", "test", crm.appender.ends)
    crm.follow()
    assert crm.lane("crm").rate is None
    crm.come_to_rest()
    assert len(crm.offsets("crm")) == 42


def test_catching_up_ends_although_one_fails_again(crm: Rig) -> None:
    """What is due later does not keep new events to the chosen rate."""
    crm.append("x0")
    crm.turn()
    pause(crm)
    crm.answer_all(500)
    crm.checkpoint()
    resume(crm, rate=10.0)
    for _ in range(100):
        crm.pass_time(0.1)
        crm.answer_all(500)
        crm.checkpoint()
    assert crm.lane("crm").retry_count == 1
    assert crm.lane("crm").rate is None


def test_a_pause_ends_a_streak_of_failures(crm: Rig) -> None:
    """Whoever resumes says that the receiver is well: it begins with one request at once and ramps up."""
    fail(crm, events=30)
    assert crm.lane("crm").breaker.state == "open"
    pause(crm)
    crm.pass_time(1)
    assert crm.network.waiting == []
    resume(crm)
    crm.checkpoint()  # with it the time of the pause is taken out of what its rows say
    crm.pass_time(0.1)
    assert len(crm.network.waiting) == 1
    crm.come_to_rest()
    assert {crm.status_at(f"x{n}", "crm") for n in range(30)} == {"delivered"}


def test_gone_is_on_record_until_resumed(crm: Rig) -> None:
    """After 410 from every URL the lane's row says so: that is what control pauses by."""
    crm.append("a")
    crm.turn()
    crm.answer_all(410)
    crm.checkpoint()
    assert [row.state for row in crm.role.store.reader.lanes()] == ["gone"]
    crm.restart()
    crm.checkpoint()
    assert [row.state for row in crm.role.store.reader.lanes()] == ["gone"]
    pause(crm)
    resume(crm)
    crm.come_to_rest()
    assert crm.role.store.reader.lanes() == []


def test_the_users_rate_holds(rig: Rig) -> None:
    """Never more than asked for, whatever waits, and nothing is left behind."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_rate=20.0)))
    rig.start()
    rig.append(*(f"m{n}" for n in range(100)))
    rig.turn()
    rig.answer_all(200)
    for _ in range(20):
        rig.pass_time(0.1)
        rig.answer_all(200)
    assert 38 <= len(rig.network.sent) <= 43
    for _ in range(60):
        rig.pass_time(0.1)
        rig.answer_all(200)
    assert rig.offsets("crm") == list(range(100))


def test_the_users_concurrency_holds(rig: Rig) -> None:
    """At most so many requests at once."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_concurrency=3)))
    rig.start()
    rig.append(*(f"m{n}" for n in range(20)))
    rig.turn()
    while rig.network.waiting:
        assert len(rig.network.waiting) <= 3
        rig.answer(rig.network.waiting[0], 200)
        rig.turn()
    assert rig.offsets("crm") == list(range(20))


def test_a_paused_destination_with_an_open_breaker_is_told_of(crm: Rig) -> None:
    """Also once nothing of it waits any more and nobody probes it."""
    pause(crm)
    crm.lane("crm").breaker.open("a test")
    crm.pass_time(1.0)
    crm.checkpoint()
    crm.role.reports.gather()()
    published = (crm.folder / "run" / "metrics-deliver.json").read_text()
    assert '"hookline_deliver_breaker_open":{"destination":{"crm":1}}' in published
