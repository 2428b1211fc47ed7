"""The Celery example with a real worker: what its forked processes track leaves when the worker ends."""

from __future__ import annotations

import pytest
from celery import signals
from celery.utils.dispatch import Signal

from hookline_client import Client
from hookline_client.frameworks.celery import flush_at_worker_end
from hookline_client.testing import RecordingTransport
from tests.clients.python.frameworks.conftest import Shop
from tests.service.harness import Receiver, wait_until

ORDERS = 6


def test_events_of_tasks_leave_at_the_end_of_the_worker(shop: Shop, arrivals: Receiver) -> None:
    """Neither count nor time would flush: the signals of the worker's end do, and each event arrives once."""
    shop.environment |= {
        "HOOKLINE_CLIENT_FLUSH_AFTER": "3600",
        "HOOKLINE_CLIENT_FLUSH_AT": "1000",
        "BROKER_FOLDER": str(shop.folder / "broker"),
    }
    shop.run("-m", "celery_app", str(ORDERS))
    shop.start(
        "-m", "celery", "-A", "celery_app", "worker", "-P", "prefork", "-c", "2", "-l", "INFO", "--without-mingle"
    )
    wait_until(lambda: shop.log.count("succeeded in") == ORDERS, what="all tasks done")
    assert _orders(arrivals) == []
    shop.stop()
    wait_until(lambda: _orders(arrivals) == list(range(ORDERS)), what="all events")


@pytest.mark.parametrize("signal", [signals.worker_process_shutdown, signals.worker_shutdown])
def test_both_ends_flush_a_client_of_ones_own(signal: Signal) -> None:
    """That of a forked process, and that of a worker whose tasks run in itself."""
    recorded = RecordingTransport()
    with Client("wk", transport=recorded, flush_after=3600.0) as client:
        flush_at_worker_end(client)
        client.track("u1", "Test")
        signal.send(sender=None)
        assert len(recorded.events) == 1


def _orders(arrivals: Receiver) -> list[int]:
    found = [request.json for request in arrivals.requests]
    return sorted(body["properties"]["order"] for body in found if body.get("event") == "Order Shipped")
