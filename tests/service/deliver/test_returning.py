"""A thousand receivers that were all down and come back in the same moment, beside one that was always there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Set

import pytest

from tests.service.deliver.harbour import Harbour
from tests.service.deliver.test_isolation import Load, p99_seconds
from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook

RECEIVERS = 1_000
EVENTS = 10
"""A backlog for each."""
RATE = 2.0
FOUND_OUT_SECONDS = 120.0
BACK_SECONDS = 120.0
"""Bounds that only a failure reaches, on a busy machine too."""
BURST = 3.0
"""A token bucket of this rate holds two attempts, and a probe goes beside it."""
SOURCES = [{"id": id, "name": id, "type": "server", "writeKeys": [f"wk_{id}"]} for id in ("site", "many")]


@pytest.mark.slow
def test_a_thousand_return_at_once(
    new_hookline: Callable[..., Hookline], receiver: Receiver, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Each gets all it missed, once and never above its rate, and the one beside them gets each of its events at the
    first try, unless this machine kept it from answering in time; how soon is put on the record."""
    with Harbour(RECEIVERS) as harbour:
        paced = {"sources": ["many"], "delivery": {"maxRate": RATE}}
        destinations = [webhook(f"d{berth}", harbour.url(berth), **paced) for berth in range(RECEIVERS)]
        destinations.append(webhook("good", receiver.url()))
        hookline = new_hookline(*destinations, sources=SOURCES, settings={"deliver.retry_max": "2s"}).start()
        load = Load(hookline)
        with load.running():
            missed = {(berth, id) for id in send(hookline) for berth in range(RECEIVERS)}
            wait_until(lambda: hookline.metric("hookline_deliver_breaker_open") == RECEIVERS, FOUND_OUT_SECONDS)
            harbour.up(range(RECEIVERS))
            wait_until(lambda: has_everything(harbour, missed), BACK_SECONDS)
        wait_until(lambda: set(load.acknowledged) <= {r.message_id for r in receiver.requests}, what="the healthy one")
        assert hookline.came_too_often(("good", each.message_id) for each in receiver.requests) == []
        check(harbour, hookline, missed)
        record_testsuite_property("healthy_p99_seconds_beside_a_thousand_returning", p99_seconds(load, receiver))


def send(hookline: Hookline) -> list[str]:
    """Send the backlog; return what each is to get."""
    ids = [new_id() for _ in range(EVENTS)]
    batch = [{"type": "track", "event": "Missed", "userId": id, "messageId": id} for id in ids]
    assert hookline.post("/v1/batch", {"batch": batch}, key="wk_many").status == 200
    return ids


def has_everything(harbour: Harbour, missed: Set[tuple[int, str]]) -> bool:
    """Whether each of them has all of it, however often."""
    arrivals = list(harbour.arrivals)
    return len(arrivals) >= len(missed) and {(each.berth, each.message_id) for each in arrivals} >= missed


def check(harbour: Harbour, hookline: Hookline, missed: Set[tuple[int, str]]) -> None:
    """Each has what it missed and nothing else, once unless an answer came too late, and no stretch of time holds more
    than the rate allows in it."""
    assert {(each.berth, each.message_id) for each in harbour.arrivals} == missed
    times: defaultdict[int, list[float]] = defaultdict(list)
    for arrival in harbour.arrivals:
        times[arrival.berth].append(arrival.at)
    assert hookline.came_too_often((f"d{each.berth}", each.message_id) for each in harbour.arrivals) == []
    assert [berth for berth, found in times.items() if exceeds(found, harbour.stall_seconds)] == []


def exceeds(times: list[float], stall_seconds: float) -> bool:
    """Whether some stretch holds too many; moments are as exact as the thread that noted them was quick."""
    return any(
        count > BURST + RATE * (last - first + stall_seconds)
        for at, first in enumerate(times)
        for count, last in enumerate(times[at:], 1)
    )
