"""Retry rows and probes: what is tried again, when, and what keeps a lane shut."""

from __future__ import annotations

import msgspec
import pytest

from hookline.deliver.lanes.breaker import SUSPECT_SPACING_SECONDS
from hookline.deliver.lanes.delivery import ALL_URLS
from hookline.deliver.retry.scheduler import BEYOND_SHARE
from hookline.deliver.store.batch import RetryRow
from hookline.deliver.store.retry_rows import OVERDUE_MAX
from hookline.journal.record import Record
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver, Seconds
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source


def begin(rig: Rig, events: int) -> None:
    """Start with one destination and so many events on their way."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(events)))
    rig.turn()


def test_nothing_is_tried_before_it_is_due(rig: Rig) -> None:
    """A retry row is sent at its time, not earlier, and once."""
    begin(rig, 1)
    rig.answer_all(500)
    rig.checkpoint()
    (row,) = rig.role.store.rows.oldest(rig.lane("crm").number, 9)
    rig.pass_time((row.due_ms - rig.clock.now_ms()) / 1000 - 0.002)
    assert rig.network.waiting == []
    rig.pass_time(0.1)
    rig.pass_time(0.1)
    assert len(rig.network.waiting) == 1


def test_a_row_that_is_due_before_it_is_saved_is_sent_when_it_is(rig: Rig) -> None:
    """It does not wait for the next one, which may be far away."""
    begin(rig, 2)
    first, second = rig.network.waiting
    rig.answer(first, 503, retry_after=b"3600")
    rig.checkpoint()
    rig.answer(second, 503)
    rig.pass_time(1.1)  # due by now, and looked for, but not saved
    rig.checkpoint()
    rig.pass_time(0.1)
    assert [request.offset for request in rig.network.waiting] == [1]


def test_a_row_in_flight_is_not_sent_again(rig: Rig) -> None:
    """Neither while its request runs nor between the answer and the checkpoint that saves it."""
    begin(rig, 2)
    rig.answer_all(500)
    rig.checkpoint()
    rig.pass_time(2.0)
    for _ in range(3):
        rig.pass_time(700.0)
        assert len(rig.network.waiting) == 2
    rig.answer(rig.network.waiting[0], 200)
    for _ in range(3):
        rig.pass_time(700.0)
        assert len(rig.network.waiting) == 1
    rig.answer_all(200)
    rig.checkpoint()
    assert rig.role.store.rows.oldest(rig.lane("crm").number, 9) == []
    assert rig.lane("crm").pending_rows == set()


def test_an_erased_event_is_not_sent_again(rig: Rig) -> None:
    """A retry row whose event was erased meanwhile is closed."""
    begin(rig, 1)
    rig.answer_all(500)
    rig.checkpoint()
    rig.appender.erase(0, [0])
    rig.come_to_rest()
    assert rig.offsets("crm") == [0]
    assert rig.lane("crm").retry_count == 0


def test_a_suspect_lane_sends_one_event_at_a_time(rig: Rig) -> None:
    """After twenty quick failures single events are tried, half a second apart, until it opens or one succeeds."""
    begin(rig, 60)
    while rig.network.waiting:
        rig.answer(rig.network.waiting[0], 500)
    assert rig.lane("crm").breaker.state == "suspect"
    tried = len(rig.network.sent)
    for _ in range(4):
        rig.pass_time(SUSPECT_SPACING_SECONDS)
        assert len(rig.network.waiting) == 1
        rig.answer_all(500)
    assert len(rig.network.sent) == tried + 4
    rig.pass_time(SUSPECT_SPACING_SECONDS)
    rig.answer(rig.network.waiting[0], 200)
    assert len(rig.network.waiting) == 1
    rig.answer(rig.network.waiting[0], 200)
    assert len(rig.network.waiting) == 2


def test_an_open_lane_is_probed_less_and_less_often(make_rig: MakeRig) -> None:
    """While open single events are tried at growing distances, never two at once; success brings everything back."""
    rig = make_rig(deliver=Deliver(retry_max=Seconds(16.0)))
    begin(rig, 60)
    for _ in range(60):
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)
    assert rig.lane("crm").breaker.state == "open"
    before = len(rig.network.sent)
    for _ in range(600):
        assert len(rig.network.waiting) <= 1
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)
    probes = len(rig.network.sent) - before
    assert 300 / 16 <= probes <= 300 / 16 + 5
    rig.come_to_rest()
    assert rig.lane("crm").breaker.state == "closed"
    assert {rig.status_at(f"m{n}", "crm") for n in range(60)} == {"delivered"}


def test_a_repaired_receiver_gets_events_within_a_minute(rig: Rig) -> None:
    """However long it was away: the oldest is tried every minute, although its own next try may be far away."""
    begin(rig, 60)
    for _ in range(1_800):
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(2.0)
    rig.answer_all(500)
    rig.checkpoint()
    for _ in range(61):
        rig.pass_time(1.0)
    assert len(rig.network.waiting) == 1
    rig.answer_all(200)
    assert rig.lane("crm").breaker.state != "open"


def test_one_bad_event_does_not_keep_a_lane_shut(rig: Rig) -> None:
    """Probes take the oldest events in turn, so one that the receiver always refuses does not stand for all."""
    begin(rig, 60)
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)
    for _ in range(2_000):
        for request in list(rig.network.waiting):
            rig.answer(request, 500 if request.offset == 0 else 200)
        if rig.lane("crm").breaker.state != "open":
            break
        rig.checkpoint()
        rig.pass_time(5.0)
    assert rig.lane("crm").breaker.state != "open"


@pytest.mark.parametrize("how", [500, 404])
def test_many_bad_events_do_not_keep_a_lane_shut(rig: Rig, how: int) -> None:
    """Every second probe is an event that was never attempted, so those that the receiver always fails on do not stand
    for the ones behind them."""
    begin(rig, 60)
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(how)
        rig.checkpoint()
        rig.pass_time(0.5)
    rig.append("good")
    rig.turn()
    opened = rig.clock.seconds
    while rig.status_at("good", "crm") != "delivered":
        for request in list(rig.network.waiting):
            rig.answer(request, how if request.offset < 60 else 200)
        rig.checkpoint()
        rig.pass_time(5.0)
        assert rig.clock.seconds < opened + 3_600


def test_a_receiver_that_is_not_reached_costs_no_untried_event_its_window(rig: Rig) -> None:
    """No event has a part in it that a receiver cannot be reached: probes are made with those tried before."""
    begin(rig, 60)
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(Outcome.NAME_NOT_RESOLVED)
        rig.checkpoint()
        rig.pass_time(0.5)
    rig.append("never")
    rig.turn()
    tried, asked = set(rig.offsets("crm")), len(rig.network.sent)
    for _ in range(600):
        rig.answer_all(Outcome.NAME_NOT_RESOLVED)
        rig.checkpoint()
        rig.pass_time(1.0)
    assert len(rig.network.sent) > asked + 6
    assert set(rig.offsets("crm")) == tried


def test_parked_events_that_were_tried_expire(rig: Rig) -> None:
    """The window of an event that was tried ends while its lane is shut; one that was never tried stays parked."""
    begin(rig, 60)
    while rig.lane("crm").breaker.state != "open":
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(0.5)
    rig.append("never")
    rig.turn()
    tried = set(rig.offsets("crm"))
    for _ in range(5):
        rig.clock.seconds += 3_600
        for _ in range(3):
            rig.pass_time(1.0)
            rig.answer_all(500)
            rig.checkpoint()
    statuses = {n: rig.status_at(f"m{n}", "crm") for n in tried}
    assert set(statuses.values()) == {"expired"}
    assert rig.status_at("never", "crm") in ("queued", "retrying")


def test_rows_that_were_never_tried_do_not_hide_those_whose_window_ends(rig: Rig) -> None:
    """However many rows only wait for their user's turn."""
    begin(rig, 1)
    number, long_ago = rig.lane("crm").number, rig.clock.steady_ms() - 20_000_000
    for offset in range(1_000, 1_000 + 2 * OVERDUE_MAX):
        rig.role.engine.batch.retry(RetryRow(number, 0, offset, 0, long_ago, long_ago, ALL_URLS))
    rig.role.engine.batch.retry(RetryRow(number, 0, 5_000, 1, long_ago, long_ago, ALL_URLS))
    rig.checkpoint()
    found = rig.role.store.rows.for_probe(number, 1, rig.clock.steady_ms(), long_ago + 1)
    assert [row.offset for row in found.overdue] == [5_000]


def test_an_event_that_cannot_be_rendered_fails_alone(rig: Rig) -> None:
    """A record whose body is not what it should be becomes a dead letter; the ones beside it are delivered."""
    rig.change(source(), destination("crm"))
    rig.start()
    broken: Record = msgspec.structs.replace(rig.record("broken"), body=b"[not json")
    rig.append("before", broken, "after")
    rig.turn()
    rig.come_to_rest()
    statuses = [rig.status_at(id, "crm") for id in ("before", "broken", "after")]
    assert statuses == ["delivered", "failed", "delivered"]
    assert rig.role.engine.in_flight == 0


def test_a_busy_lane_still_tries_what_is_due(rig: Rig) -> None:
    """A stream that fills every place the moment it falls free does not keep a row waiting for its end."""
    begin(rig, 1)
    rig.answer_all(500)
    rig.checkpoint()
    rig.append(*(f"later{n}" for n in range(300)))
    rig.turn()
    lane = rig.lane("crm")
    assert lane.queue
    assert len(lane.in_flight) >= lane.breaker.allowance
    rig.pass_time(2.0)
    assert rig.offsets("crm").count(0) == 2
    assert len(lane.in_flight) <= lane.breaker.allowance + max(1, lane.breaker.allowance // BEYOND_SHARE)


def test_an_open_lane_waits_as_long_as_the_receiver_asks(rig: Rig) -> None:
    """Retry-After holds for probes too, as far as it asks for less than the longest wait."""
    begin(rig, 60)
    while rig.lane("crm").breaker.state != "open":
        for request in list(rig.network.waiting):
            rig.answer(request, 429, retry_after=b"30")
        rig.pass_time(31)
        rig.checkpoint()
    for request in list(rig.network.waiting):
        rig.answer(request, 429, retry_after=b"30")
    rig.pass_time(29)
    assert rig.network.waiting == []
    rig.pass_time(2)
    assert len(rig.network.waiting) == 1


def test_a_burst_of_retry_after_does_not_stop_a_destination(rig: Rig) -> None:
    """After ``retry_max`` the receiver is asked with an event that was not tried; those that it sent away for an hour
    come after that hour, and not before, although a probe was wanted and found nothing else."""
    begin(rig, 8)
    for request in list(rig.network.waiting):
        rig.answer(request, 429, retry_after=b"3600")
    rig.append(*(f"never{n}" for n in range(100)))
    rig.turn()
    while rig.network.waiting:
        rig.answer(rig.network.waiting[0], 429, retry_after=b"3600")
        rig.turn()
    asked = sorted(rig.offsets("crm"))
    assert asked == list(range(len(asked)))
    rig.checkpoint()
    for _ in range(599):
        rig.pass_time(1.0)
    assert sorted(rig.offsets("crm")) == asked
    for _ in range(300):
        rig.answer_all(200)
        rig.checkpoint()
        rig.pass_time(0.05)
    assert sorted(rig.offsets("crm")) == list(range(108))
    rig.pass_time(3_600)
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == sorted([*asked, *range(108)])
