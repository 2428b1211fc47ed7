"""The watch: each rule of sending is broken once, and it says so."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import cast

import pytest

from hookline.connections.model import DeliveryOptions, Filter, LaneConfig, Offsets, Pause, Snapshot
from hookline.deliver.lanes.lane import Lane, Target
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver
from hookline.simulation.scheduler import Request, SimulatedClock
from tests.unit.deliver.rig import destination
from tests.worlds.arrivals import CARD, Arrivals
from tests.worlds.ledger import Ledger
from tests.worlds.receiver import Receiver
from tests.worlds.watch import Watch

PLACE = (0, 0)


class Scene:
    """One event in lane 1, and the watch that sees what is sent."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.ledger = Ledger()
        self.lane = SimpleNamespace(breaker=SimpleNamespace(state="closed", allowance=8), order=None)
        self.watch = Watch(
            self.clock,
            self.ledger,
            Deliver(),
            lambda lane, url: Receiver(random.Random(1)),
            lambda number: self.found(),
        )
        self.card = CARD
        self.record = Arrivals(random.Random(1), self.clock, 1).burst(1)[0]
        self.connect()
        self.ledger.stored(PLACE, self.record, True, self.clock.seconds)

    def found(self) -> Lane:
        return cast(Lane, self.lane)

    def connect(
        self, *, lane: bool = True, pause: Pause | None = None, until: Offsets | None = None, **given: object
    ) -> None:
        made = destination("one", sources=(self.record.source,), **given)  # type: ignore[arg-type]
        start = LaneConfig(number=1, sources={self.record.source: {0: 0}}, paused=pause, until=until)
        snapshot = Snapshot(version=1, destinations=(made,), lanes={"one": start} if lane else {})
        self.ledger.changed({0: 0}, snapshot, self.clock.seconds)

    def send(self, url: int = 0) -> Request:
        target = cast(Target, SimpleNamespace(tag=1 << 3 | url, index=url))
        data = b"POST / HTTP/1.1\r\nX-Message-Id: %b\r\n\r\n{%b}" % (self.record.message_id.encode(), self.card)
        request = Request(None, target, data, self.clock.seconds)
        self.watch.sent(request)
        return request

    def fail(self, result: int | Outcome = 503, retry_after: bytes | None = None) -> None:
        self.watch.answered(self.send(), result, retry_after)
        self.clock.seconds += 1.0

    def says(self, words: str) -> bool:
        return any(words in violation for violation in self.watch.violations)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_ordinary_course_is_not_wrong(scene: Scene) -> None:
    """A failure, a retry, a success: nothing to say."""
    scene.fail()
    scene.watch.answered(scene.send(), 200, None)
    assert scene.watch.violations == []


def test_a_known_success_must_not_be_sent_again(scene: Scene) -> None:
    """After a success the event is done in that lane, also after a kill."""
    scene.watch.answered(scene.send(), 200, None)
    scene.watch.crashed(scene.clock.seconds - 1, ring_kept=True)
    scene.send()
    assert scene.says("although its success was known")


def test_a_power_cut_may_take_a_success_back(scene: Scene) -> None:
    """What was answered after the last checkpoint that survived may be sent again, and is counted."""
    scene.watch.answered(scene.send(), 200, None)
    scene.watch.crashed(scene.clock.seconds - 1, ring_kept=False)
    scene.send()
    assert (scene.watch.violations, scene.watch.resent) == ([], 1)


def test_an_event_is_under_way_once(scene: Scene) -> None:
    """The same URL is not asked twice at once; another URL of the same delivery may be."""
    scene.send()
    scene.send(url=1)
    assert scene.watch.violations == []
    scene.send()
    assert scene.says("sent twice at once")


def test_nothing_is_tried_after_its_window(scene: Scene) -> None:
    """Four hours and the time allowed for being late, counted from the first attempt."""
    scene.fail()
    scene.clock.seconds += 4 * 3600 + 61
    scene.send()
    assert scene.says("after its window")


def test_a_pause_lasts_until_the_role_is_back(scene: Scene) -> None:
    """It ended while nobody was there to learn of it; one that had ended before is over all the same."""
    scene.fail()
    scene.watch.resumed(1, 0)
    scene.watch.look(role_lives=False, saved_at=scene.clock.seconds)
    scene.clock.seconds += 5 * 3600
    scene.watch.look(role_lives=False, saved_at=scene.clock.seconds)
    scene.watch.look(role_lives=True, saved_at=scene.clock.seconds)
    scene.fail()
    assert scene.watch.violations == []
    scene.clock.seconds += 1
    scene.watch.look(role_lives=False, saved_at=scene.clock.seconds)
    scene.clock.seconds += 4 * 3600 + 61
    scene.watch.look(role_lives=False, saved_at=scene.clock.seconds)
    scene.send()
    assert scene.says("after its window")


def test_a_pause_whose_end_was_not_saved_lasts_until_the_role_is_back(scene: Scene) -> None:
    """As on a full disk: it learned of the end, and forgets it."""
    scene.fail()
    saved_at = scene.clock.seconds
    scene.watch.resumed(1, 0)
    scene.clock.seconds += 60
    scene.watch.look(role_lives=False, saved_at=saved_at)
    scene.clock.seconds += 5 * 3600
    scene.watch.look(role_lives=False, saved_at=saved_at)
    scene.send()
    assert scene.watch.violations == []


def test_retry_after_is_honoured(scene: Scene) -> None:
    """A retry before the time that the receiver asked for is wrong. A probe has its own times, unless its event was to
    wait longer than any does by itself."""
    scene.fail(429, b"30")
    scene.lane.breaker.allowance = 0
    scene.fail(429, b"30")
    assert scene.watch.violations == []
    scene.lane.breaker.allowance = 8
    scene.send()
    assert scene.says("before its Retry-After")
    other = Scene()
    other.fail(429, b"3600")
    other.lane.breaker.allowance = 0
    other.send()
    assert other.says("before its Retry-After")


def test_an_open_breaker_sends_single_probes(scene: Scene) -> None:
    """Two attempts within a second are no probes, unless the first one's event was refused for itself."""
    scene.clock.seconds += 10
    scene.lane.breaker.state, scene.lane.breaker.allowance = "open", 0
    scene.watch.answered(scene.send(), 422, None)
    scene.clock.seconds += 0.1
    scene.watch.answered(scene.send(), 503, None)
    assert scene.watch.violations == []
    scene.clock.seconds += 0.1
    scene.send()
    assert scene.says("second probe")


def test_a_lane_that_ended_or_is_paused_sends_nothing(scene: Scene) -> None:
    """A moment after the change the role knows."""
    scene.connect(pause=Pause(since=1))
    scene.clock.seconds += 2
    scene.fail()
    assert scene.says("paused since")
    scene.connect(lane=False)
    scene.clock.seconds += 2
    scene.fail()
    assert scene.says("which ended")


def test_what_a_filter_stops_is_not_sent(scene: Scene) -> None:
    """Nor with what a filter takes out; what was taken before the change may still leave."""
    scene.connect(filters=(Filter(condition="true", do="drop"),))
    scene.send()
    assert scene.watch.violations == []
    scene.clock.seconds += 2
    scene.connect(filters=(Filter(condition="true", do="dropProperties", properties=("properties.card",)),))
    scene.clock.seconds += 2
    scene.watch.answered(scene.send(), 503, None)
    assert scene.says("not as its filters leave it")


def test_an_event_that_only_met_a_dropping_filter_is_not_sent() -> None:
    """It was stored when the filter was known."""
    scene = Scene()
    scene.ledger.versions.clear()
    scene.connect(filters=(Filter(condition="true", do="drop"),))
    scene.send()
    assert scene.says("to which it does not belong")


def test_a_draining_lane_gets_nothing_that_came_after(scene: Scene) -> None:
    """Its end was the journal's when it was disabled."""
    scene.ledger.versions.clear()
    scene.connect(until={0: 0})
    scene.send()
    assert scene.says("to which it does not belong")


def test_with_all_each_url_takes_it_once(scene: Scene) -> None:
    """One URL's success does not end it, and is not repeated."""
    scene.ledger.versions.clear()
    scene.connect(urls=2, delivery=DeliveryOptions(fan_out="all"))
    first, second = scene.send(0), scene.send(1)
    scene.watch.answered(first, 200, None)
    scene.watch.answered(second, 503, None)
    assert scene.watch.tries[1, PLACE].answered_at is None
    scene.watch.answered(scene.send(1), 200, None)
    assert scene.watch.tries[1, PLACE].answered_at is not None
    assert scene.watch.violations == []
    scene.watch.tries[1, PLACE].answered_at = None
    scene.send(0)
    assert scene.says("to URL 0, which took it")


def test_a_crash_may_forget_what_one_url_took(scene: Scene) -> None:
    """Until the attempt is saved as a row nobody else knows of it."""
    scene.ledger.versions.clear()
    scene.connect(urls=2, delivery=DeliveryOptions(fan_out="all"))
    scene.watch.answered(scene.send(0), 200, None)
    scene.watch.crashed(scene.clock.seconds, ring_kept=True)
    scene.send(0)
    assert scene.watch.violations == []


def test_a_try_that_ended_with_its_process_was_none(scene: Scene) -> None:
    """While it is under way, and once something is known of it, the event was tried."""
    untried = [scene.watch.is_untried((1, PLACE))]
    scene.send()
    untried.append(scene.watch.is_untried((1, PLACE)))
    scene.watch.crashed(scene.clock.seconds, ring_kept=True)
    untried.append(scene.watch.is_untried((1, PLACE)))
    scene.fail()
    untried.append(scene.watch.is_untried((1, PLACE)))
    assert untried == [True, False, True, False]


def test_what_was_erased_is_not_sent(scene: Scene) -> None:
    """Until deliver answers it may be; then nothing of it is under way, and nothing leaves."""
    scene.ledger.erasing.add(PLACE)
    scene.send()
    assert scene.watch.violations == []
    scene.watch.erased({PLACE})
    assert scene.says("although its erasure is answered")
    other = Scene()
    other.ledger.erased[PLACE] = other.clock.seconds
    other.send()
    assert other.says("erased since")
