"""Receivers as they are in the field, over real sockets: flapping, slowing down, late, or with a rotated token.

They share one service, in which each has a source and a destination of its own, and one scene: what happens, happens to
all of them at once. The clock that an hour passes on is that of the service alone, by the library of ``faketime``.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from bench.crash.clock_jumps import faked, library

from tests.service.deliver.harbour import Answer, Arrival, Harbour
from tests.service.harness import Hookline, new_id, wait_until, webhook

FLAPPING, SLOWING, LATE, ROTATED = CASES = ("flapping", "slowing", "late", "rotated")
OLD, NEW = "Bearer old", "Bearer new"
LATE_SECONDS = 4.0
LATE_EVENTS = 24
FLAP_SECONDS = 0.2
FLAPS_MIN = 11
"""However slow this machine is at it."""
SLOWER_PER_SECOND = 0.8
"""The slowing receiver takes so much longer with each second: after six it is beyond the time limit."""
SLOW_SECONDS_MAX = 6.0
BATCH = 5
BATCH_EVERY_SECONDS = 0.1
PARKED_SECONDS = 60.0
HOUR_SECONDS = 3_600


class Scene:
    """A service, its receivers, and what they do from second to second."""

    def __init__(self, hookline: Hookline, harbour: Harbour) -> None:
        self.hookline = hookline
        self.harbour = harbour
        self.sent: dict[str, list[str]] = {case: [] for case in CASES}
        self.downs: list[float] = []
        """When the flapping receiver went away."""
        self._slow_since: float | None = None
        self._is_rotated = False
        self._stop = threading.Event()
        harbour.answer = self._answer

    def send(self, case: str, count: int) -> None:
        """Send a batch of events of a case."""
        batch = [{"type": "track", "event": "Test", "userId": f"u{n}", "messageId": new_id()} for n in range(count)]
        assert self.hookline.post("/v1/batch", {"batch": batch}, key=f"wk_{case}").status == 200
        self.sent[case] += [str(event["messageId"]) for event in batch]

    def load(self) -> None:
        """Send until told to stop."""
        while not self._stop.wait(BATCH_EVERY_SECONDS):
            for case in (FLAPPING, SLOWING, ROTATED):
                self.send(case, BATCH)

    def flap(self) -> None:
        """Go away and come back until told to stop; then stay."""
        while not self._stop.wait(FLAP_SECONDS):
            self.harbour.down([CASES.index(FLAPPING)])
            self.downs.append(time.monotonic())
            time.sleep(FLAP_SECONDS)
            self.harbour.up([CASES.index(FLAPPING)])

    def happen(self, clock: Path) -> None:
        """The whole scene."""
        self.harbour.up(range(len(CASES)))
        self.send(LATE, LATE_EVENTS)
        threads = [threading.Thread(target=act, daemon=True) for act in (self.load, self.flap)]
        self._slow_since = time.monotonic()
        for thread in threads:
            thread.start()
        wait_until(lambda: self.sent[ROTATED] and self.taken(ROTATED), what="some events with the old token")
        self._is_rotated = True
        wait_until(lambda: self._newest(ROTATED) == "breaker_open", PARKED_SECONDS, "the breaker opened")
        written = clock.with_suffix(".new")
        written.write_text(f"+{HOUR_SECONDS}")
        written.replace(clock)  # never empty: roles read it whenever they like
        wait_until(self._hour_has_passed, what="an hour has passed")
        asked = self._refusals()
        wait_until(lambda: self._refusals() > asked, what="a probe that meets 401 after the hour")
        patch = {"settings": {"webhooks": [{"url": self._url(ROTATED), "headers": {"Authorization": NEW}}]}}
        assert self.hookline.api("PATCH", f"destinations/{ROTATED}", patch).status == 200
        wait_until(lambda: len(self.downs) >= FLAPS_MIN, PARKED_SECONDS, "away and back often enough")
        wait_until(self._has_given_up, PARKED_SECONDS, "a request to the slow one that the sender gave up")
        self._stop.set()
        for thread in threads:
            thread.join(30)
        self._slow_since = None
        for case in CASES:
            self._wait_taken(case)

    def _wait_taken(self, case: str) -> None:
        """Wait until all that a case sent is with its receiver; AssertionError tells where the first missing one is."""
        try:
            wait_until(lambda: set(self.sent[case]) <= set(self.taken(case)), 60, case)
        except AssertionError as late:
            missing = [id for id in self.sent[case] if id not in set(self.taken(case))]
            first = self.hookline.status_at(missing[0], case)
            raise AssertionError(f"{late}: {len(missing)} of {len(self.sent[case])} missing, first {first}") from None

    def taken(self, case: str) -> list[str]:
        """What its receiver has accepted."""
        return self.harbour.taken(CASES.index(case))

    def arrivals(self, case: str) -> list[Arrival]:
        """What its receiver was asked."""
        return [arrival for arrival in self.harbour.arrivals if arrival.berth == CASES.index(case)]

    def _url(self, case: str) -> str:
        return self.harbour.url(CASES.index(case))

    def _refusals(self) -> int:
        return sum(arrival.status == 401 for arrival in self.arrivals(ROTATED))

    def _newest(self, case: str) -> str:
        return str(self.hookline.status_at(self.sent[case][-1], case).get("reason"))

    def _has_given_up(self) -> bool:
        before = time.monotonic() - SLOW_SECONDS_MAX - 1
        return any(arrival.status == 0 and arrival.at < before for arrival in self.arrivals(SLOWING))

    def _hour_has_passed(self) -> bool:
        newest = self.hookline.api("GET", "events?limit=1").json["items"][0]["receivedAt"]
        return bool(datetime.fromisoformat(newest).timestamp() > time.time() + HOUR_SECONDS / 2)

    def _answer(self, arrival: Arrival) -> Answer:
        case = CASES[arrival.berth]
        if case == LATE:
            return 200, LATE_SECONDS
        if case == SLOWING and self._slow_since is not None:
            return 200, min(SLOW_SECONDS_MAX, (time.monotonic() - self._slow_since) * SLOWER_PER_SECOND)
        if case == ROTATED and self._is_rotated:
            return (200 if arrival.token == NEW else 401), 0.0
        return 200, 0.0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The scene when it is over: everything has arrived."""
    preload = library()
    assert preload is not None, "scripts/test-needs.sh installs faketime"
    folder = tmp_path_factory.mktemp("outages")
    clock = folder / "clock"
    clock.write_text("+0")
    sources = [{"id": case, "name": case, "type": "server", "writeKeys": [f"wk_{case}"]} for case in (*CASES, "site")]
    with Harbour(len(CASES)) as harbour:
        destinations = [
            webhook(case, harbour.url(index), sources=[case], headers={"Authorization": OLD})
            for index, case in enumerate(CASES)
        ]
        settings = {"deliver.retry_max": "1s"}
        with Hookline(
            folder, destinations, sources=sources, settings=settings, environment=faked(clock, preload)
        ) as hookline:
            deliver = hookline.role("deliver")
            made = Scene(hookline, harbour)
            made.happen(clock)
            yield made
            assert hookline.role("deliver") == deliver
            assert "Traceback (most recent call last)" not in hookline.log


def test_a_flapping_receiver_gets_everything(scene: Scene) -> None:
    """Away and back every fifth of a second: only what was answered as it went away may come twice."""
    exact = 0.1 + scene.harbour.stall_seconds
    accepted = [arrival for arrival in scene.arrivals(FLAPPING) if arrival.status == 200]
    repeated = {id for id, count in Counter(each.message_id for each in accepted).items() if count > 1}
    first = {arrival.message_id: arrival for arrival in reversed(accepted)}
    for id in repeated:
        assert any(0 <= down - first[id].answered_at < exact for down in scene.downs)
    assert scene.hookline.status_at(scene.sent[FLAPPING][-1], FLAPPING)["status"] == "delivered"


def _assert_asked_again_only_in_vain(scene: Scene, case: str) -> None:
    """Assert that an event came twice only where the sender itself had waited as long as it waits for an answer."""
    for id, count in Counter(arrival.message_id for arrival in scene.arrivals(case)).items():
        attempts = scene.hookline.wait_status(id, case, "delivered")["attempts"] if count > 1 else []
        in_vain = [attempt["milliseconds"] for attempt in attempts if attempt["outcome"] == "timed_out"]
        assert len(in_vain) >= count - 1
        assert all(milliseconds >= 5_000 - 10 for milliseconds in in_vain)


def test_one_that_slows_down_gets_everything(scene: Scene) -> None:
    """Beyond the time limit too."""
    _assert_asked_again_only_in_vain(scene, SLOWING)


def test_an_answer_just_in_time_counts(scene: Scene) -> None:
    """After 4 s of 5: only what this machine held up beyond the limit may be asked again."""
    _assert_asked_again_only_in_vain(scene, LATE)
    part = scene.hookline.wait_status(scene.sent[LATE][0], LATE, "delivered")
    assert part["attempts"][-1]["milliseconds"] >= 1_000 * LATE_SECONDS - 10


def test_a_rotated_token_burns_nothing(scene: Scene) -> None:
    """401 under load for more than an hour of the service's clock, then mended: each event arrives, once."""
    assert sorted(scene.taken(ROTATED)) == sorted(scene.sent[ROTATED])
    assert any(arrival.status == 401 for arrival in scene.arrivals(ROTATED))
    scene.hookline.wait_status(scene.sent[ROTATED][-1], ROTATED, "delivered")
    assert scene.hookline.api("GET", f"dead-letters?destination={ROTATED}").json["items"] == []
