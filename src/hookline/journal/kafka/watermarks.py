"""Where partitions begin and end, asked of the brokers each time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.port import JournalAway

T = TypeVar("T")

ASK_SECONDS = 5.0
"""How long to ask, while a partition's leader changes too."""
TRY_SECONDS = 2.0
"""How long one broker may take: the client waits for a leader that is gone as for one that is slow."""

_PAUSE_SECONDS = 0.05


class Watermarks:
    """Asks about the partitions of a topic; may be used from any thread."""

    def __init__(self, address: KafkaAddress, ask_seconds: float = ASK_SECONDS) -> None:
        self._topic = address.topic
        self.ask_seconds = ask_seconds
        # A consumer in name only: it is assigned nothing and fetches nothing.
        self._consumer = Consumer(address.client(group_id="hookline", isolation_level="read_uncommitted"))

    def of(self, partition: int) -> tuple[int, int]:
        """Return the oldest offset kept, and one past the last that is on every replica in sync."""
        place = TopicPartition(self._topic, partition)
        return self._ask(lambda seconds: self._consumer.get_watermark_offsets(place, seconds))

    def at(self, partition: int, time_ms: int) -> int:
        """Return the offset of the first record received at this time or later, the end when there is none."""
        place = TopicPartition(self._topic, partition, max(time_ms, 0))
        (found,) = self._ask(lambda seconds: self._consumer.offsets_for_times([place], seconds))
        return int(found.offset) if found.offset >= 0 else self.of(partition)[1]

    def partition_count(self) -> int:
        """Return how many partitions the topic has now; 0 when it is gone."""
        return self._ask(self._count)

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def _ask(self, question: Callable[[float], T | None]) -> T:
        """Ask again for as long as it may take: a leader that has just changed answers the next time. That a broker
        does not know the topic is no answer either: one that has just started may not know it yet."""
        deadline = time.monotonic() + self.ask_seconds
        while True:
            reason = "no answer"
            try:
                answer = question(max(min(deadline - time.monotonic(), TRY_SECONDS), _PAUSE_SECONDS))
                if answer is not None:
                    return answer
            except KafkaException as error:
                reason = error.args[0].str()
            if time.monotonic() > deadline:
                raise JournalAway(f"Kafka does not say where the journal ends: {reason}")
            self._look_for_leaders()
            time.sleep(_PAUSE_SECONDS)

    def _count(self, seconds: float) -> int:
        topic = self._consumer.list_topics(self._topic, seconds).topics[self._topic]
        if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(topic.error)
        return len(topic.partitions)

    def _look_for_leaders(self) -> None:
        """Learn who leads the topic now: of a consumer that is assigned nothing the client does not look by itself for
        minutes, and asks a broker that was killed again and again."""
        with contextlib.suppress(KafkaException):  # the next answer tells
            self._consumer.list_topics(self._topic, TRY_SECONDS)
