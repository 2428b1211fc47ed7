"""kill -9 of deliver while events go out in batches: none is lost, and at most what was on its way comes twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

from tests.service.harness import Hookline
from tests.service.receiver import Receiver
from tests.service.waiting import wait_until

SECONDS = 12.0
BATCHES_PER_SECOND = 20
EVENTS_PER_BATCH = 25
SIZE = 40
IN_FLIGHT_MAX = 1_024
"""Events of one destination on their way at once (``GATHERED_IN_FLIGHT_MAX``)."""


def batched(url: str) -> dict[str, Any]:
    """A destination that gets the messageIds of forty events in each request."""
    request = {"name": "all", "url": url, "body": {"@path": "$.messageId"}, "batch": {"size": SIZE, "wait": 0.2}}
    return {"id": "api", "name": "api", "kind": "http", "sources": ["site"], "settings": {}, "mapping": [request]}


def test_batches_survive_kills(tmp_path: Path) -> None:
    """Four kills under load: every acknowledged event arrives, and few of them twice."""
    draw = random.Random(7)
    with Receiver() as receiver, Hookline(tmp_path / "h", [batched(receiver.url())]) as hookline:
        acknowledged: list[str] = []

        def load() -> None:
            until, number = time.monotonic() + SECONDS, 0
            while time.monotonic() < until:
                ids = [f"m{number}-{each}" for each in range(EVENTS_PER_BATCH)]
                items = [{"type": "track", "event": "x", "userId": "u", "messageId": id} for id in ids]
                if hookline.post("/v1/batch", {"batch": items}).status == 200:
                    acknowledged.extend(ids)
                number += 1
                time.sleep(1 / BATCHES_PER_SECOND)

        sending = Thread(target=load)
        sending.start()
        kills = 0
        while sending.is_alive():
            time.sleep(draw.uniform(1.5, 3.0))
            os.kill(hookline.role("deliver"), signal.SIGKILL)
            kills += 1
            hookline.wait_ready()
        sending.join()

        def arrived() -> Counter[str]:
            return Counter(id for request in receiver.requests for id in request.json)

        wait_until(lambda: len(arrived()) >= len(acknowledged), what="all events", seconds=60)
        found = arrived()
        assert kills >= 3
        assert set(acknowledged) <= found.keys()
        assert sum(found.values()) - len(found) <= kills * IN_FLIGHT_MAX
        assert max(len(request.json) for request in receiver.requests) <= SIZE
