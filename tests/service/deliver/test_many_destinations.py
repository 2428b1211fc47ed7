"""Ten thousand destinations on one machine: they start, cost little memory, and an event finds its own."""

from __future__ import annotations

from collections.abc import Callable

from hookline.bench.machine import memory_of
from tests.service.harness import Hookline, Receiver, wait_until, webhook

DESTINATIONS = 10_000
SOURCES = 1_000
DELIVER_BYTES_MAX = 120 * 1024 * 1024


def test_ten_thousand_mostly_idle(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Of all those only the ones that its source feeds get an event, each of them once."""
    sources = [{"id": "site", "name": "Site", "writeKeys": ["wk_site"]}]
    sources += [{"id": f"s{n}", "name": f"S{n}", "writeKeys": [f"wk_{n}"]} for n in range(1, SOURCES)]
    destinations = [
        webhook(f"d{n}", receiver.url(f"/{n}"), sources=["site" if n % SOURCES == 0 else f"s{n % SOURCES}"])
        for n in range(DESTINATIONS)
    ]
    hookline = new_hookline(*destinations, sources=sources).start()
    message_id = hookline.track()
    mine = DESTINATIONS // SOURCES
    wait_until(lambda: len(receiver.of(message_id)) >= mine, 30, "one request per destination of the source")
    hookline.wait_status(message_id, "d0", "delivered", seconds=30)
    paths = sorted(int(request.path.removeprefix("/")) for request in receiver.of(message_id))
    assert paths == list(range(0, DESTINATIONS, SOURCES))
    assert memory_of(hookline.role("deliver")).rss < DELIVER_BYTES_MAX
