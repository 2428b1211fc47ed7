"""A dead receiver beside a healthy one: it parks, costs nothing, harms nobody, and misses nothing when it returns."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.service.deliver.hostile import HostileReceiver, answering, never_answer
from tests.service.deliver.per_case import rss_bytes
from tests.service.harness import Hookline, Receiver, free_port, new_id, wait_until, webhook

BATCH = 20
BATCH_EVERY_SECONDS = 0.1
PARKED_SECONDS = 90.0
"""Well beyond the ten seconds of failures that a breaker wants to see, some of which take five seconds each."""
HEALTHY_P99_SECONDS = 3.0
"""Below the five-second deadline that a hanging neighbour could impose, far above what a busy machine needs."""
HANGING_CONNECTIONS_MAX = 200
GROWTH_BYTES_MAX = 20 * 1024**2
BODILESS_EVENTS = 1_000
"""Sent within five seconds, after which a socket is closed: one for each of them would be found."""
BODILESS_DESCRIPTORS_MAX = 400
"""A lane that has just begun sends 64 at once, and as many connections may wait for a body."""


class Load:
    """Sends batches at a steady rate and notes when each event was acknowledged (monotonic seconds)."""

    def __init__(self, hookline: Hookline) -> None:
        self.hookline = hookline
        self.acknowledged: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send until the block ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(60)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += BATCH_EVERY_SECONDS
            batch = [
                {"type": "track", "event": "Load", "userId": f"u{number}", "messageId": new_id()}
                for number in range(BATCH)
            ]
            if self.hookline.post("/v1/batch", {"batch": batch}).status == 200:
                at = time.monotonic()
                self.acknowledged.update({event["messageId"]: at for event in batch})


def p99_seconds(load: Load, receiver: Receiver) -> float:
    """From acknowledgement to arrival, over everything that arrived."""
    waits = sorted(r.at - load.acknowledged.get(r.message_id, r.at) for r in receiver.requests)
    return waits[int(len(waits) * 0.99)]


@pytest.mark.slow
def test_dead_and_hanging_receivers_park_while_their_neighbour_notices_nothing(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Under load the healthy one's p99 stays low and memory flat; the dead one parks, returns, and gets all once."""
    port = free_port()
    with HostileReceiver(never_answer) as hanging:
        destinations = [
            webhook("good", receiver.url()),
            webhook("dead", f"http://127.0.0.1:{port}/hook"),
            webhook("hang", hanging.url()),
        ]
        hookline = new_hookline(*destinations, settings={"deliver.retry_max": "1s"}).start()
        load = Load(hookline)
        deliver = hookline.role("deliver")
        with load.running():
            wait_until(lambda: len(load.acknowledged) >= 40 * BATCH, what="warmed up")
            before = rss_bytes(deliver)
            for name in ("dead", "hang"):
                _wait_newest_parked(load, name)
            assert rss_bytes(deliver) - before < GROWTH_BYTES_MAX
        everything = set(load.acknowledged)
        _wait_all(receiver, everything)
        assert hookline.came_too_often(("good", each.message_id) for each in receiver.requests) == []
        assert p99_seconds(load, receiver) < HEALTHY_P99_SECONDS
        assert hanging.connections < HANGING_CONNECTIONS_MAX
        with Receiver(port=port) as returned:
            _wait_all(returned, everything)
            assert hookline.came_too_often(("dead", each.message_id) for each in returned.requests) == []
            returned.wait_for(hookline.track())
            hookline.wait_status(_newest(load), "dead", "delivered")
        assert hookline.role("deliver") == deliver


def test_a_receiver_that_never_sends_a_body_holds_few_sockets(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Its events count as delivered by the head of the answer; its neighbour gets everything, and descriptors stay."""
    with HostileReceiver(answering("HTTP/1.1 200 OK\nContent-Length: 2")) as bodiless:
        hookline = new_hookline(webhook("good", receiver.url()), webhook("bodiless", bodiless.url())).start()
        descriptors = f"/proc/{hookline.role('deliver')}/fd"
        most, before = 0, len(os.listdir(descriptors))
        load = Load(hookline)
        with load.running():
            while len(load.acknowledged) < BODILESS_EVENTS:
                most = max(most, len(os.listdir(descriptors)))
                time.sleep(0.02)
        _wait_all(receiver, set(load.acknowledged))
        wait_until(lambda: len(bodiless.requests) >= len(load.acknowledged), 60, "all at the sick one")
        hookline.wait_status(_newest(load), "bodiless", "delivered")
        assert most - before < BODILESS_DESCRIPTORS_MAX


def _wait_all(receiver: Receiver, ids: set[str]) -> None:
    """Wait until every event arrived."""
    wait_until(lambda: len(receiver.requests) >= len(ids), 60, "as many events as were acknowledged")
    wait_until(lambda: ids <= {request.message_id for request in receiver.requests}, 60, "each of them")


def _wait_newest_parked(load: Load, destination: str) -> None:
    """Wait until what arrives now is queued behind an open breaker of the destination."""
    wait_until(
        lambda: load.hookline.status_at(_newest(load), destination).get("reason") == "breaker_open",
        PARKED_SECONDS,
        f"{destination} parked",
    )


def _newest(load: Load) -> str:
    """The last event that was acknowledged."""
    return list(load.acknowledged)[-1]
