"""The watch: each rule of sending is broken once, and it says so."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import cast

import pytest

from hookline.connections.model import Lane as LaneStart
from hookline.connections.model import Pause, Snapshot
from hookline.deliver.lane import Lane
from hookline.deliver.target import Target
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver
from hookline.simulation.arrivals import Arrivals
from hookline.simulation.clock import SimulatedClock
from hookline.simulation.ledger import Ledger
from hookline.simulation.network import Request
from hookline.simulation.receiver import Receiver
from hookline.simulation.watch import Watch
from tests.unit.deliver.rig import destination

PLACE = (0, 0)


class Scene:
    """One event in lane 1, and the watch that sees what is sent."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.ledger = Ledger()
        self.lane = SimpleNamespace(breaker=SimpleNamespace(state="closed", allowance=8))
        self.watch = Watch(
            self.clock,
            self.ledger,
            Deliver(),
            lambda lane, url: Receiver(random.Random(1)),
            lambda number: self.found(),
        )
        self.record = Arrivals(random.Random(1), self.clock, 1).burst(1)[0]
        self.connect()
        self.ledger.stored(PLACE, self.record, True, self.clock.seconds)

    def found(self) -> Lane:
        return cast(Lane, self.lane)

    def connect(self, *, lane: bool = True, pause: Pause | None = None) -> None:
        made = destination("one", sources=(self.record.source,))
        start = LaneStart(number=1, sources={self.record.source: {0: 0}}, paused=pause)
        snapshot = Snapshot(version=1, destinations=(made,), lanes={"one": start} if lane else {})
        self.ledger.changed({0: 0}, snapshot, self.clock.seconds)

    def send(self, url: int = 0) -> Request:
        target = cast(Target, SimpleNamespace(tag=1 << 3 | url, index=url))
        data = b"POST / HTTP/1.1\r\nX-Message-Id: %b\r\n\r\n" % self.record.message_id.encode()
        request = Request(None, target, data, self.clock.seconds)
        self.watch.sent(request)
        return request

    def fail(self, result: int | Outcome = 503, retry_after: bytes | None = None) -> None:
        self.watch.told(self.send(), result, retry_after)
        self.clock.seconds += 1.0

    def says(self, words: str) -> bool:
        return any(words in violation for violation in self.watch.violations)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_ordinary_course_is_not_wrong(scene: Scene) -> None:
    """A failure, a retry, a success: nothing to say."""
    scene.fail()
    scene.watch.told(scene.send(), 200, None)
    assert scene.watch.violations == []


def test_a_known_success_must_not_be_sent_again(scene: Scene) -> None:
    """After a success the event is done in that lane, also after a kill."""
    scene.watch.told(scene.send(), 200, None)
    scene.watch.crashed(scene.clock.seconds - 1, ring_kept=True)
    scene.send()
    assert scene.says("although its success was known")


def test_a_power_cut_may_take_a_success_back(scene: Scene) -> None:
    """What was told after the last checkpoint that survived may be sent again, and is counted."""
    scene.watch.told(scene.send(), 200, None)
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


def test_retry_after_is_honoured(scene: Scene) -> None:
    """A retry before the time that the receiver asked for is wrong; a probe has its own times."""
    scene.fail(429, b"30")
    scene.lane.breaker.allowance = 0
    scene.fail(429, b"30")
    assert scene.watch.violations == []
    scene.lane.breaker.allowance = 8
    scene.send()
    assert scene.says("before its Retry-After")


def test_an_open_breaker_sends_single_probes(scene: Scene) -> None:
    """Two attempts within a quarter of a second are no probes."""
    scene.clock.seconds += 10
    scene.lane.breaker.state, scene.lane.breaker.allowance = "open", 0
    scene.watch.told(scene.send(), 503, None)
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
