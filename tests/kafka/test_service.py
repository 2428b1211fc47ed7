"""The whole service on a Kafka journal: one process of each role on one machine, four partitions, three brokers."""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.cluster import Cluster, standing_still
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, Reply, is_ready, new_id, wait_until, webhook
from tests.service.otlp import Collector

SECRET = "s3cret"
PARTITIONS = 4


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A healthy receiver."""
    with Receiver() as running:
        yield running


@pytest.fixture
def on_kafka(tmp_path: Path, cluster: Cluster, topic: str) -> Iterator[Callable[..., Hookline]]:
    """Make a service on a topic of its own (not started); it is ended with the test."""
    made: list[Hookline] = []

    def make(*destinations: dict[str, Any], **settings: Any) -> Hookline:
        on = {"journal.url": cluster.url(topic), "journal.partitions": PARTITIONS, **settings}
        made.append(Hookline(tmp_path / f"h{len(made)}", destinations, settings=on))
        return made[-1]

    yield make
    for hookline in made:
        if hookline.process is not None and hookline.process.poll() is None:
            hookline.kill9()
        assert "Traceback (most recent call last)" not in hookline.log, hookline.log[-4000:]


class Sender:
    """Sends events of several users, one after another, and keeps what was acknowledged; what was not is sent again."""

    def __init__(self, hookline: Hookline, users: int = 12) -> None:
        self.acknowledged: list[tuple[str, str]] = []
        self._hookline = hookline
        self._users = users

    def send(self, count: int) -> None:
        """Send so many events."""
        for _ in range(count):
            user, message = f"user-{len(self.acknowledged) % self._users}", new_id()
            body = {"userId": user, "event": "Test", "messageId": message}
            wait_until(lambda body=body: self._posted(body), 60, "an event is acknowledged")  # type: ignore[misc]
            self.acknowledged.append((user, message))

    def _posted(self, body: dict[str, Any]) -> bool:
        try:
            return self._hookline.post("/v1/track", body).status == 200
        except OSError:
            return False


def test_events_go_through_kafka_signed_and_are_found_again(
    on_kafka: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Every event arrives once, signed; ``why`` and the list of events know of it."""
    with on_kafka(webhook("crm", receiver.url(), secret=SECRET)) as hookline:
        sender = Sender(hookline)
        sender.send(120)
        _wait_for_all(receiver, sender)
        for request in receiver.requests:
            assert request.headers["x-signature"] == hmac.new(SECRET.encode(), request.body, hashlib.sha1).hexdigest()
        assert len(receiver.requests) == 120
        _, last = sender.acknowledged[-1]
        hookline.wait_status(last, "crm", "delivered")
        listed = hookline.api("GET", "events?limit=50")
        assert listed.json["items"][0]["messageId"] == last
        wait_until(lambda: hookline.metric("hookline_journal_end_offset") == 120, what="the journal's end is told")
        wait_until(lambda: hookline.metric("hookline_deliver_lag_events") == 0, what="deliver has read everything")


def test_repeats_are_recognised_in_every_partition(on_kafka: Callable[..., Hookline], receiver: Receiver) -> None:
    """An event that is sent twice is delivered once, before and after a restart."""
    hookline = on_kafka(webhook("crm", receiver.url()))
    with hookline:
        sender = Sender(hookline)
        sender.send(24)
        again = [
            {"type": "track", "userId": user, "event": "Test", "messageId": message}
            for user, message in sender.acknowledged
        ]
        assert hookline.post("/v1/batch", {"batch": again}).status == 200
        wait_until(lambda: hookline.metric("hookline_deliver_duplicates_total") == 24, what="repeats are recognised")
    with hookline:
        assert hookline.post("/v1/batch", {"batch": again}).status == 200
        wait_until(lambda: hookline.metric("hookline_deliver_duplicates_total") == 24, what="repeats are recognised")
        _wait_for_all(receiver, sender)
        assert len(receiver.requests) == 24


def test_an_erased_person_is_replayed_to_nobody(on_kafka: Callable[..., Hookline], receiver: Receiver) -> None:
    """After a deletion request nothing of the person is found or sent again; what others did is replayed."""
    with on_kafka(webhook("crm", receiver.url())) as hookline:
        gone, kept = hookline.track(userId="gone"), hookline.track(userId="kept")
        receiver.wait_for(gone)
        receiver.wait_for(kept)
        made = hookline.api("POST", "deletion-requests", {"userId": "gone", "action": "delete"})
        request = f"deletion-requests/{made.json['id']}"
        wait_until(lambda: hookline.api("GET", request).json["state"] == "done", what="the person is erased")
        assert hookline.event(gone) is None
        assert hookline.api("POST", "replays", {"destination": "crm", "source": "site"}).status == 201
        receiver.wait_for(kept, 2)
        wait_until(
            lambda: [r["state"] for r in hookline.api("GET", "replays").json["items"]] == ["done"], what="replay done"
        )
        assert len(receiver.of(gone)) == 1


def test_nothing_is_lost_over_killed_roles(on_kafka: Callable[..., Hookline], receiver: Receiver) -> None:
    """kill -9 of deliver and of collect while events come in: all that was acknowledged is delivered."""
    with on_kafka(webhook("crm", receiver.url())) as hookline:
        sender = Sender(hookline)
        sending = threading.Thread(target=sender.send, args=(300,))
        sending.start()
        try:
            for number, role in enumerate(("deliver", "collect"), 1):
                wait_until(
                    lambda number=number: len(sender.acknowledged) >= 100 * number,  # type: ignore[misc]
                    60,
                    "events are acknowledged",
                )
                os.kill(hookline.role(role), signal.SIGKILL)
        finally:
            sending.join()
        _wait_for_all(receiver, sender)
        assert len(sender.acknowledged) == 300


def test_a_service_that_is_started_before_its_brokers_waits_for_them(
    on_kafka: Callable[..., Hookline], receiver: Receiver, cluster: Cluster
) -> None:
    """Alive, not ready, 503; ready by itself once they are there."""
    cluster.kill()
    hookline = on_kafka(webhook("crm", receiver.url()))
    hookline.launch()
    wait_until(lambda: _status(hookline, "/healthz") == 200, what="collect is alive")
    assert _refusal(hookline) == (503, "not_ready")
    wait_until(lambda: "no Kafka broker answers" in hookline.log, what="it says what it waits for")
    assert _status(hookline, "/readyz") == 503
    cluster.start()
    hookline.wait_ready()
    sender = Sender(hookline)
    sender.send(10)
    _wait_for_all(receiver, sender)


def test_without_brokers_retries_go_on_and_events_are_refused_until_they_are_back(
    on_kafka: Callable[..., Hookline], receiver: Receiver, cluster: Cluster
) -> None:
    """Events of several partitions fail, then all brokers stand still: what was looked up before is tried again, an
    answer that comes late is taken, and control says that it is well; collect is not ready, and is so by itself once
    they go on."""
    retries = {"deliver.retry_first": "100ms", "deliver.retry_max": "500ms"}
    with on_kafka(webhook("crm", receiver.url()), **retries) as hookline:
        receiver.respond = lambda request: Reply(503)
        sender = Sender(hookline)
        sender.send(PARTITIONS)
        failing = {message for _, message in sender.acknowledged}
        wait_until(lambda: all(len(receiver.of(each)) >= 3 for each in failing), 60, "every event was tried again")
        with standing_still(cluster.brokers):
            receiver.respond = lambda request: Reply(delay_seconds=0.3)
            seen = len(receiver.requests)
            wait_until(
                lambda: {request.message_id for request in receiver.requests[seen:]} == failing,
                60,
                "every event is tried once more",
            )
            assert send(hookline.control_port, "GET", "/healthz").status == 200
            wait_until(lambda: hookline.metric("hookline_deliver_delivered_total") == len(failing), 60, "and delivered")
            wait_until(lambda: _status(hookline, "/readyz") == 503, what="collect says that it cannot store")
            assert _refusal(hookline) == (503, "journal_away")
        hookline.wait_ready()
        sender.send(10)
        _wait_for_all(receiver, sender)
        assert "journal_back" in hookline.log


def test_a_trace_leads_through_the_topic(
    on_kafka: Callable[..., Hookline], receiver: Receiver, cluster: Cluster, topic: str
) -> None:
    """From the caller's span through the message's header to the receiver's request, all of one trace."""
    trace, caller, message = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", new_id()
    with (
        Collector() as collector,
        on_kafka(webhook("crm", receiver.url()), **{"tracing.endpoint": collector.endpoint}) as hookline,
    ):
        body = {"userId": "u", "event": "Test", "messageId": message}
        assert hookline.post("/v1/track", body, headers={"traceparent": f"00-{trace}-{caller}-01"}).status == 200
        (request,) = receiver.wait_for(message)
        spans = {span.service: span for span in collector.wait_for_spans(2)}
        accepted, delivered = spans["hookline-collect"], spans["hookline-deliver"]
        assert (accepted.trace_id, accepted.parent_id) == (trace, caller)
        assert _trace_of_the_message(cluster, topic) == f"00-{trace}-{accepted.span_id}-01"
        assert (delivered.trace_id, delivered.parent_id) == (trace, accepted.span_id)
        assert request.headers["traceparent"] == f"00-{trace}-{delivered.span_id}-01"


def _trace_of_the_message(cluster: Cluster, topic: str) -> str:
    """The header of the only message in the topic."""
    consumer = Consumer({"bootstrap.servers": cluster.addresses, "group.id": "tests", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        (message,) = consumer.consume(1, 60)
    finally:
        consumer.close()
    return dict(message.headers() or [])["traceparent"].decode()


def test_a_topic_that_was_deleted_is_told_and_the_connections_can_be_had(
    on_kafka: Callable[..., Hookline], receiver: Receiver, cluster: Cluster, topic: str
) -> None:
    """Probe and log say that it is gone; no role goes on in another of its name; control by itself still exports."""
    hookline = on_kafka(webhook("crm", receiver.url())).start()
    receiver.wait_for(hookline.track(userId="u"))
    admin = AdminClient({"bootstrap.servers": cluster.addresses, "allow.auto.create.topics": False})
    cluster.delete(topic)
    wait_until(
        lambda: send(hookline.collect_port, "GET", "/readyz").json.get("code") == "journal_away",
        30,
        "the probe says so",
    )
    assert f"the topic {topic} is gone" in hookline.log
    hookline.stop()
    assert hookline.launch().wait(60) == 2
    assert topic not in admin.list_topics(timeout=30).topics
    settings = str(hookline.write_files()[0])
    command = [sys.executable, "-m", "hookline.cli.main"]
    with subprocess.Popen([*command, "control", "--config", settings], stderr=subprocess.DEVNULL) as control:
        try:
            wait_until(lambda: is_ready(hookline.control_port), 60, "control by itself is ready")
            exported = subprocess.run([*command, "export", "--config", settings], capture_output=True, check=True)
        finally:
            control.terminate()
    assert b"crm" in exported.stdout


def test_a_folder_stays_with_its_journal(on_kafka: Callable[..., Hookline], receiver: Receiver) -> None:
    """A data folder whose journal is on Kafka is not opened with a local one, and the sentence says what to set."""
    hookline = on_kafka(webhook("crm", receiver.url()))
    with hookline:
        Sender(hookline).send(1)
    url = hookline.settings.pop("journal.url")
    hookline.launch()
    assert hookline.process is not None
    assert hookline.process.wait(60) == 2
    assert f"set journal.url to {url}" in hookline.log


def _wait_for_all(receiver: Receiver, sender: Sender) -> None:
    def missing() -> set[str]:
        return {message for _, message in sender.acknowledged} - {request.message_id for request in receiver.requests}

    wait_until(lambda: not missing(), 60, "everything acknowledged is delivered")


def _status(hookline: Hookline, path: str) -> int:
    try:
        return send(hookline.collect_port, "GET", path).status
    except OSError:
        return 0


def _refusal(hookline: Hookline) -> tuple[int, str]:
    answer = hookline.post("/v1/track", {"userId": "u", "event": "Lost"})
    return answer.status, answer.json["code"]
