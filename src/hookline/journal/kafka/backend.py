"""Be a journal on Kafka: a topic, in the data folder a note of where it is, and the partitions that are this process's
to read.

The member fetches nothing: it is assigned, asked to give back, and heard from. Its commits are what displays of lag
show, and how it learns that it still is a member: a broker takes them of nobody else. Everything named ``on_…`` is
called on the thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hookline.journal.folder import read_note, write_note
from hookline.journal.kafka.address import KafkaAddress, noted
from hookline.journal.kafka.erased import ErasedLog
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.port import (
    GroupEvents,
    JournalAway,
    JournalError,
    JournalFailed,
    JournalUnusable,
    LoopReaders,
    Reader,
    RetentionForecast,
)
from hookline.settings import Retention, Settings
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.journal.kafka.appender import KafkaAppender


COMMITS_PER_SESSION = 10
HEARTBEATS_PER_SESSION = 5
COMMIT_SECONDS_MAX = 1.0
RELEASE_SECONDS_MAX = 20.0
"""How long giving partitions back may take before they are let go as they are."""
LEAVE_SECONDS = 3.0
"""How long brokers may take to hear that this member leaves; with that the process ends within its ten seconds."""
NEW_PARTITIONS_MS = 5_000
"""How often the members look whether the topic has more partitions than they share: a new one waits no longer."""
_MEMBER_POLL_SECONDS = 0.05


def group_of_topic(topic: str) -> str:
    """Return the consumer group of the deliver processes of a topic."""
    return f"hookline-deliver-{topic}"


class Membership:
    """One member of the group; ``start`` joins, ``close`` leaves."""

    def __init__(self, address: KafkaAddress, session_seconds: float, events: GroupEvents) -> None:
        """``events.places`` are committed now and then: that a commit is taken confirms the membership."""
        self._topic = address.topic
        self._positions = events.positions
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
        logged = ""
        while not self._closing.is_set():
            message = self._consumer.poll(_MEMBER_POLL_SECONDS)
            error = message.error() if message is not None else None
            if error is not None and error.str() != logged:
                logged = error.str()
                self._log.warning("group_member_error", reason=logged)
            self._ask()
        self._consumer.close()

    def _ask(self) -> None:
        """Commit the places now and then; that it is taken says that this is still a member."""
        now = self._clock()
        if self._is_asking or now - self._asked < self._commit_seconds:
            return
        positions = self._positions()
        if not positions:
            return
        self._asked = now
        try:
            self._consumer.commit(offsets=self._offsets(positions), asynchronous=True)
            self._is_asking = True
        except KafkaException:
            return  # between two assignments: asked again in a moment

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._is_asking = False
        if error is None:
            self._heard = self._asked
            self._events.on_confirmed(self._asked)

    def _offsets(self, positions: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number, offset) for number, offset in positions.items()]

    def _assigned(self, consumer: Any, positions: list[TopicPartition]) -> None:
        # An offset is given, so that none is looked for; paused, so that nothing is fetched.
        assigned = [TopicPartition(self._topic, position.partition, 0) for position in positions]
        consumer.incremental_assign(assigned)
        consumer.pause(assigned)
        if assigned:
            self._events.on_assigned(_numbers(positions))

    def _revoked(self, consumer: Any, positions: list[TopicPartition]) -> None:
        """Give partitions up before anybody else gets them; meanwhile the others stay confirmed."""
        released = self._events.on_revoked(_numbers(positions))
        deadline = time.monotonic() + RELEASE_SECONDS_MAX
        last: Mapping[int, int] | None = None
        while last is None and time.monotonic() < deadline:
            try:
                last = released.result(self._commit_seconds)
            except StillWaiting:
                self._commit_now(consumer, self._positions())
            except Exception as error:  # noqa: BLE001 - whatever it was, the partitions go
                self._log.error("partitions_not_given_up", reason=repr(error))
                break
        if last is None:
            self._events.on_lost(_numbers(positions))
        self._commit_now(consumer, {**self._positions(), **(last or {})})
        consumer.incremental_unassign(positions)

    def _lost(self, consumer: Any, positions: list[TopicPartition]) -> None:
        self._events.on_lost(_numbers(positions))
        consumer.incremental_unassign(positions)

    def _commit_now(self, consumer: Any, positions: Mapping[int, int]) -> None:
        asked = self._clock()
        if not positions or asked - self._heard > self._session_seconds:
            return  # where brokers are away, it would be waited for
        try:
            consumer.commit(offsets=self._offsets(positions), asynchronous=False)
        except KafkaException:
            return  # what counts is in the database; and who is no member hears of it in the next poll
        self._heard = asked
        self._events.on_confirmed(asked)


def _numbers(positions: Iterable[TopicPartition]) -> frozenset[int]:
    return frozenset(position.partition for position in positions)


_POLL_SECONDS = 0.25


class KafkaBackend:
    """The topic at ``address`` as the journal of ``folder``."""

    def __init__(self, folder: Path, address: KafkaAddress) -> None:
        self._folder = folder
        self._address = address
        self._erased = ErasedLog(folder)

    def claim(self) -> None:
        """Note the brokers in a folder that has no other journal, and what they are met with: they may have moved."""
        note = read_note(self._folder)
        if note is None and (self._folder / "0").exists():
            raise JournalUnusable(f"{self._folder.parent} has a local journal: hookline migrate-to moves it to Kafka")
        if note is not None and noted(note).topic != self._address.topic:
            raise JournalUnusable(
                f"the journal of {self._folder.parent} is {noted(note).url}: a folder cannot go on with another topic"
            )
        if note != self._address.note:
            write_note(self._folder, self._address.note)

    def state(self, wait_seconds: float) -> str:
        """Return why the topic takes no records, as brokers say or their silence does; empty when it takes them."""
        from hookline.journal.kafka.topic import Admin, topic_state

        return topic_state(Admin(self._address), self._address, wait_seconds)[0]

    def reader(self) -> KafkaReader:
        """Return a reader, which waits for brokers."""
        return KafkaReader(self._folder, self._address)

    def loop_readers(self, reader: Reader, on_arrival: Callable[[], object]) -> LoopReaders:
        """Return two threads that wait for brokers in the event loop's place."""
        from hookline.journal.kafka.fetching import FetchingReader
        from hookline.journal.kafka.follower import KafkaFollower

        lookups = FetchingReader(self._folder, self._address, on_arrival)
        follower = KafkaFollower(self._folder, self._address, on_arrival)

        def close() -> None:
            follower.close()
            lookups.close()

        return LoopReaders(follower, lookups, lookups.keep, close)

    def appender(
        self,
        settings: Settings,
        on_failed: Callable[[JournalFailed], None] | None = None,
        steady_ms: Callable[[], int] | None = None,
        known: Mapping[int, Mapping[str, int]] | None = None,
    ) -> KafkaAppender:
        """Return the appender; ``known`` says nothing, for brokers number the records."""
        from hookline.journal.kafka.appender import KafkaAppender

        return KafkaAppender(
            self._folder,
            self._address,
            settings.journal.partitions,
            retention_seconds=settings.retention.events,
            retention_bytes=settings.retention.bytes,
            wake_path=settings.socket_path("deliver.wake"),
            on_failed=on_failed,
            steady_ms=steady_ms,
        )

    async def wait_for_partitions(self, count: int, stop: asyncio.Event) -> None:
        """Return once the topic is there with so many partitions, or at ``stop``."""
        logged = False
        while not stop.is_set():
            try:
                with closing(self.reader()) as reader:  # one that was asked before knows a number from then
                    if len(await asyncio.to_thread(reader.partitions)) >= count:
                        return
                reason = "the journal's topic, or a partition of it, is not there yet; collect makes it"
            except JournalAway as away:
                reason = str(away)
            if not logged:
                logger().warning("waiting_for_journal", reason=reason)
                logged = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _POLL_SECONDS)

    async def wait_for_recovery(self, positions: Mapping[int, int], appending: Path, stop: asyncio.Event) -> None:
        """Return at once: brokers know where the topic ends."""

    def note_erased(self, partition: int, offsets: Iterable[int]) -> None:
        """Note these offsets beside what was erased by way of this folder."""
        self._erased.add(partition, offsets)

    def forecast(self, limits: Retention) -> RetentionForecast:
        """Return what foresees when messages are dropped."""
        from hookline.journal.kafka.forecast import KafkaForecast

        return KafkaForecast(self.reader, limits)

    def join(self, session_seconds: float, events: GroupEvents) -> Membership:
        """Return this process as a member of the topic's consumer group."""

        return Membership(self._address, session_seconds, events)
