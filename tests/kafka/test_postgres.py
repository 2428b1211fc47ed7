"""The whole service with its journal on Kafka and its databases in PostgreSQL."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, wait_until, webhook


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own."""
    running = PostgresServer()
    try:
        yield running
    finally:
        running.remove()


@pytest.mark.slow
def test_events_go_through_both_over_kills_and_a_crash_of_the_server(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """Everything acknowledged is delivered and told, and the data folder keeps nothing of it but its notes."""
    settings = {"journal.url": cluster.url(topic), "journal.partitions": 3, "database.url": server.url("postgres")}
    with Receiver() as receiver:
        hookline = Hookline(tmp_path / "h", [webhook("crm", receiver.url())], settings=settings).start()
        sent = [hookline.track(userId=f"u{number}") for number in range(30)]
        hookline.kill9()
        hookline.start()
        server.stop(signal.SIGQUIT)
        sent += [hookline.track(userId=f"u{number}") for number in range(30)]
        for message in sent:
            receiver.wait_for(message)
        server.start()
        hookline.wait_ready()
        for message in sent:
            hookline.wait_fate(message, "crm", "delivered")
        repeated = {"userId": "u1", "event": "Test", "messageId": sent[1]}
        assert hookline.post("/v1/track", repeated).status == 200
        wait_until(lambda: hookline.metric("hookline_deliver_duplicates_total") == 1, what="the repeat is recognised")
        assert list(hookline.data.glob("*.db*")) == []
        hookline.stop()
    assert "Traceback (most recent call last)" not in hookline.log
