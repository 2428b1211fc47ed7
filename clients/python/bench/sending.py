"""One library sends so many events to an endpoint; prints what it cost as JSON. One process per library.

Usage: sending.py LIBRARY ENDPOINT WRITE_KEY EVENTS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from event import EVENT, properties

CALLS_TIMED = 20_000
QUEUE_MAX = 1_000_000
"""For the libraries that refuse when their queue is full: none of their events shall be missing."""


def hookline(endpoint: str, key: str) -> tuple[Callable[[int], Any], Callable[[], int]]:
    """Ours, with its default queue; a caller that is faster than the service waits."""
    from hookline_client import Client

    client = Client(key, endpoint=endpoint, on_full="block", block_timeout=60.0)

    def finish() -> int:
        result = client.flush(600.0)
        assert result.ok, result[:6]
        return result.accepted

    return lambda number: client.track("u1", EVENT, properties(number)), finish


def segment(endpoint: str, key: str) -> tuple[Callable[[int], Any], Callable[[], int]]:
    """segment-analytics-python."""
    from segment.analytics.client import Client

    client = Client(key, host=endpoint, max_queue_size=QUEUE_MAX)

    def finish() -> int:
        client.flush()
        client.join()
        return -1

    return lambda number: client.track("u1", EVENT, properties(number)), finish


def posthog(endpoint: str, key: str) -> tuple[Callable[[int], Any], Callable[[], int]]:
    """posthog; it speaks to a server of its own kind."""
    from posthog import Posthog

    client = Posthog(key, host=endpoint, max_queue_size=QUEUE_MAX, disable_geoip=False)

    def finish() -> int:
        client.flush()
        client.shutdown()
        return -1

    return lambda number: client.capture(EVENT, distinct_id="u1", properties=properties(number)), finish


LIBRARIES = {"hookline": hookline, "segment": segment, "posthog": posthog}


def main() -> None:
    """Call, flush, print."""
    library, endpoint, key, events = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    call, finish = LIBRARIES[library](endpoint, key)
    costs: list[int] = []
    began, cpu_began = time.perf_counter(), time.process_time()
    for number in range(min(CALLS_TIMED, events)):
        before = time.perf_counter_ns()
        call(number)
        costs.append(time.perf_counter_ns() - before)
    for number in range(len(costs), events):
        call(number)
    accepted = finish()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    costs.sort()
    print(
        json.dumps(
            {
                "library": library,
                "events": events,
                "accepted": accepted,
                "median_us": round(costs[len(costs) // 2] / 1000, 1),
                "p99_us": round(costs[len(costs) * 99 // 100] / 1000, 1),
                "events_per_second": round(events / seconds),
                "cpu_us_per_event": round(cpu_seconds / events * 1e6, 1),
            }
        )
    )


main()
