"""Being one of many readers of a topic: which partitions are this process's to read, as the consumer group says.

The member fetches nothing: it is assigned, asked to give back, and heard from. Its commits are what displays of lag
show, and how it learns that it still is a member: a broker takes them of nobody else. Everything named ``on_…`` is
called on the thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as StillWaiting
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.port import GroupEvents, JournalError
from hookline.telemetry.log import logger

COMMITS_PER_SESSION = 10
HEARTBEATS_PER_SESSION = 5
COMMIT_SECONDS_MAX = 1.0
RELEASE_SECONDS_MAX = 20.0
"""How long giving partitions back may take before they are let go as they are."""
LEAVE_SECONDS = 3.0
"""How long brokers may take to hear that this member leaves; with that the process ends within its ten seconds."""
NEW_PARTITIONS_MS = 5_000
"""How often the members look whether the topic has more partitions than they share: a new one waits no longer."""
_POLL_SECONDS = 0.05


def group_of_topic(topic: str) -> str:
    """Return the consumer group of the deliver processes of a topic."""
    return f"hookline-deliver-{topic}"


class Membership:
    """One member of the group; ``start`` joins, ``close`` leaves."""

    def __init__(self, address: KafkaAddress, session_seconds: float, events: GroupEvents) -> None:
        """``events.places`` are committed now and then: that a commit is taken confirms the membership."""
        self._topic = address.topic
        self._places = events.places
        self._clock = events.clock
        self._events = events
        self._commit_seconds = min(session_seconds / COMMITS_PER_SESSION, COMMIT_SECONDS_MAX)
        self._session_seconds = session_seconds
        self._asked = self._heard = 0.0
        self._is_asking = False
        self._closing = threading.Event()
        options = address.client(
            group_id=group_of_topic(address.topic),
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=int(session_seconds * 1000),
            heartbeat_interval_ms=int(session_seconds * 1000 / HEARTBEATS_PER_SESSION),
            enable_auto_commit=False,
            auto_offset_reset="error",
            topic_metadata_refresh_interval_ms=NEW_PARTITIONS_MS,
        )
        self._consumer = Consumer({**options, "on_commit": self._committed})
        self._log = logger()
        self._thread = threading.Thread(target=self._run, name="kafka-membership", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def close(self) -> None:
        """Leave the group; what is still assigned is revoked first, idempotent. Brokers that do not answer are not
        waited for: the group leaves out who is silent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(LEAVE_SECONDS)

    def _run(self) -> None:
        try:
            self._belong()
        except Exception as error:  # noqa: BLE001 - the thread's border: nobody must go on as if this were a member
            reason = f"the membership of the group ended unexpectedly ({error!r}): start again"
            self._events.on_failed(JournalError(reason))

    def _belong(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        told = ""
        while not self._closing.is_set():
            message = self._consumer.poll(_POLL_SECONDS)
            error = message.error() if message is not None else None
            if error is not None and error.str() != told:
                told = error.str()
                self._log.warning("group_member_error", reason=told)
            self._ask()
        self._consumer.close()

    def _ask(self) -> None:
        """Commit the places now and then; that it is taken says that this is still a member."""
        now = self._clock()
        if self._is_asking or now - self._asked < self._commit_seconds:
            return
        places = self._places()
        if not places:
            return
        self._asked = now
        try:
            self._consumer.commit(offsets=self._offsets(places), asynchronous=True)
            self._is_asking = True
        except KafkaException:
            return  # between two assignments: asked again in a moment

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._is_asking = False
        if error is None:
            self._heard = self._asked
            self._events.on_confirmed(self._asked)

    def _offsets(self, places: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number, offset) for number, offset in places.items()]

    def _assigned(self, consumer: Any, places: list[TopicPartition]) -> None:
        # An offset is given, so that none is looked for; paused, so that nothing is fetched.
        assigned = [TopicPartition(self._topic, place.partition, 0) for place in places]
        consumer.incremental_assign(assigned)
        consumer.pause(assigned)
        if assigned:
            self._events.on_assigned(_numbers(places))

    def _revoked(self, consumer: Any, places: list[TopicPartition]) -> None:
        """Give partitions up before anybody else gets them; meanwhile the others stay confirmed."""
        released = self._events.on_revoked(_numbers(places))
        deadline = time.monotonic() + RELEASE_SECONDS_MAX
        last: Mapping[int, int] | None = None
        while last is None and time.monotonic() < deadline:
            try:
                last = released.result(self._commit_seconds)
            except StillWaiting:
                self._commit_now(consumer, self._places())
            except Exception as error:  # noqa: BLE001 - whatever it was, the partitions go
                self._log.error("partitions_not_given_up", reason=repr(error))
                break
        if last is None:
            self._events.on_lost(_numbers(places))
        self._commit_now(consumer, {**self._places(), **(last or {})})
        consumer.incremental_unassign(places)

    def _lost(self, consumer: Any, places: list[TopicPartition]) -> None:
        self._events.on_lost(_numbers(places))
        consumer.incremental_unassign(places)

    def _commit_now(self, consumer: Any, places: Mapping[int, int]) -> None:
        asked = self._clock()
        if not places or asked - self._heard > self._session_seconds:
            return  # where brokers are away, it would be waited for
        try:
            consumer.commit(offsets=self._offsets(places), asynchronous=False)
        except KafkaException:
            return  # what counts is in the database; and who is no member hears of it in the next poll
        self._heard = asked
        self._events.on_confirmed(asked)


def _numbers(places: Iterable[TopicPartition]) -> frozenset[int]:
    return frozenset(place.partition for place in places)
