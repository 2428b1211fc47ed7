"""Too few file descriptors: that is this machine's trouble, and no receiver is blamed for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.service.client import basic, send
from tests.service.harness import COMMAND, Hookline, Receiver, Reply, new_id, wait_until, webhook

DESCRIPTORS = 256
RECEIVERS = 6
EVENTS = 150
"""Each receiver would be asked by so many connections at once."""


def test_healthy_receivers_stay_healthy(new_hookline: Callable[..., Hookline]) -> None:
    """With 256 descriptors and far more requests to send at once, every event comes and no request has failed."""
    limited = ("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *COMMAND)
    with ExitStack() as running:
        receivers = [running.enter_context(Receiver()) for _ in range(RECEIVERS)]
        for receiver in receivers:
            receiver.respond = lambda _: Reply(delay_seconds=0.5)
        hookline = new_hookline(*(webhook(f"r{n}", each.url()) for n, each in enumerate(receivers)), command=limited)
        hookline.start()
        maps = Path(f"/proc/{hookline.role('deliver')}/maps")
        wait_until(
            lambda: "_ctypes" in maps.read_text(), what="what it needs later is loaded while there are descriptors"
        )
        ids = [new_id() for _ in range(EVENTS)]
        batch = [{"type": "track", "userId": each, "event": "E", "messageId": each} for each in ids]
        assert send(hookline.collect_port, "POST", "/v1/batch", {"batch": batch}, basic("wk_site")).status == 200
        for receiver in receivers:
            for each in ids:
                receiver.wait_for(each)
        delivered = RECEIVERS * EVENTS
        wait_until(lambda: hookline.metric("hookline_deliver_delivered_total") >= delivered, what="all is counted")
        assert hookline.metric("hookline_deliver_failures_total") == 0
        assert hookline.metric("hookline_deliver_breaker_opened_total") == 0
