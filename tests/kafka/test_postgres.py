"""The whole service with its journal on Kafka and its databases in PostgreSQL."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.kafka.address import parse_address
from hookline.journal.kafka.erased import ErasedPlaces
from hookline.journal.kafka.topic import partition_count
from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, is_ready, wait_until, webhook
from tests.service.profiles.test_audience import audience, traits_sent


def erased_of(hookline: Hookline) -> dict[int, frozenset[int]]:
    """What the readers of a machine take for erased, by partition."""
    positions = ErasedPlaces(hookline.data / "journal")
    return {partition: positions.of(partition) for partition in range(4)}


@pytest.mark.slow
def test_events_go_through_both_over_kills_and_a_crash_of_the_server(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """Everything acknowledged is delivered and synced, and the data folder keeps nothing of it but its notes."""
    settings = {
        "journal.url": cluster.url(topic),
        "journal.partitions": 3,
        "database.url": server.url("postgres"),
        "deliver.session_timeout": "3s",
    }
    with Receiver() as receiver:
        hookline = Hookline(tmp_path / "h", [webhook("crm", receiver.url())], settings=settings).start()
        sent = [hookline.track(userId=f"u{number}") for number in range(30)]
        hookline.kill9()
        hookline.start()
        sent += [hookline.track(userId=f"u{number}") for number in range(30)]
        for message in sent:  # it has its partitions again, which it could not take without a server
            receiver.wait_for(message)
        server.stop(signal.SIGQUIT)
        sent += [hookline.track(userId=f"u{number}") for number in range(30)]
        for message in sent:
            receiver.wait_for(message)
        server.start()
        hookline.wait_ready()
        for message in sent:
            hookline.wait_status(message, "crm", "delivered")
        repeated = {"userId": "u1", "event": "Test", "messageId": sent[1]}
        assert hookline.post("/v1/track", repeated).status == 200
        wait_until(lambda: hookline.metric("hookline_deliver_duplicates_total") == 1, what="the repeat is recognised")
        assert list(hookline.data.glob("*.db*")) == []
        hookline.stop()
    assert "Traceback (most recent call last)" not in hookline.log


def test_a_new_machine_makes_no_topic_in_place_of_one_that_is_lost(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """Its folder knows nothing of a topic, but the database does: events in a new one were acknowledged and never
    sent, for who delivers is far behind their offsets."""
    settings = {"journal.url": cluster.url(topic), "journal.partitions": 1, "database.url": server.url("postgres")}
    with Receiver() as receiver:
        crm = webhook("crm", receiver.url())
        first = Hookline(tmp_path / "first", [crm], settings=settings).start()
        receiver.wait_for(first.track(userId="u"))
        first.stop()
        cluster.delete(topic)
        new = Hookline(tmp_path / "new", [crm], settings=settings)
        assert new.launch().wait(60) == 2
    assert f"the topic {topic} is gone" in new.log
    assert partition_count(parse_address(cluster.url(topic))) == 0


def all_events(hookline: Hookline) -> list[dict[str, Any]]:
    """Every stored event; a page is short when looking took long."""
    page = hookline.api("GET", "events?limit=200").json
    found = list(page["items"])
    while page["after"] is not None:
        page = hookline.api("GET", f"events?limit=200&after={page['after']}").json
        found += page["items"]
    return found


@pytest.mark.slow
def test_a_second_machine_takes_part_and_takes_over(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """Both collect and deliver from the start; control and people are the first one's until it is gone."""
    settings = {
        "journal.url": cluster.url(topic),
        "journal.partitions": 4,
        "database.url": server.url("postgres"),
        "deliver.session_timeout": "3s",
    }
    with Receiver() as receiver:
        crm = webhook("crm", receiver.url())
        buyers = {"audiences": [audience("buyers", {"event": "Order"})]}
        first = Hookline(tmp_path / "first", [crm], settings=settings, definitions=buyers).start()
        second = Hookline(tmp_path / "second", [crm], settings=settings, definitions=buyers)
        second.launch()
        wait_until(lambda: '"role": "control", "reason"' in second.log, 60, what="the second control stands by")
        wait_until(lambda: is_ready(second.collect_port), 60, what="the second collect is ready")
        assert send(second.control_port, "GET", "/readyz").json == {"status": "standing_by"}
        assert "Ask that one" in send(second.control_port, "GET", "/api/v1/events/m").json["detail"]
        assert b'hookline_role_up{role="deliver"} 1.0' in send(second.control_port, "GET", "/metrics").body
        assert send(second.control_port, "GET", "/metrics", headers={"Host": "evil.example"}).status == 421
        for number in range(20):
            sent = [each.track("Order", userId=f"u{number}") for each in (first, second)]
            for message in sent:
                receiver.wait_for(message)
        wait_until(lambda: len(traits_sent(receiver)) == 20, 60, what="everybody is synced")
        gone = [f"u{number}" for number in range(8)]  # of every partition some
        request = first.api("POST", "deletion-requests", {"userIds": gone, "action": "delete"}).json["id"]
        wait_until(
            lambda: first.api("GET", f"deletion-requests/{request}").json["state"] == "done", 60, what="they are erased"
        )
        wait_until(lambda: erased_of(second) == erased_of(first), what="the other machine's readers know all of it")
        assert all(erased_of(second).values())
        first.kill9()
        second.wait_ready(60)
        shown = all_events(second)
        assert not {each["userId"] for each in shown} & set(gone)
        assert "u9" in {each["userId"] for each in shown}
        late = second.track("Order", userId="late")
        receiver.wait_for(late)
        second.wait_status(late, "crm", "delivered")
        wait_until(lambda: "late" in traits_sent(receiver), 60, what="who came later is synced")
        second.stop()
    # What the first had on the wire when it was killed may come again, as the same message.
    identifies = {each.headers["x-message-id"]: each.json for each in receiver.requests if "traits" in each.json}
    assert sorted(each["userId"] for each in identifies.values()) == sorted([*(f"u{n}" for n in range(20)), "late"])
    assert all(each["traits"] == {"buyers": True} for each in identifies.values())
    for each in (first, second):
        assert "Traceback (most recent call last)" not in each.log
