"""Where partitions begin and end, asked of the brokers each time."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.port import JournalAway

ASK_SECONDS = 5.0
"""How long to wait for an answer, while a partition's leader changes too."""

_UNKNOWN = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


class Watermarks:
    """Asks about the partitions of a topic; may be used from any thread."""

    def __init__(self, address: KafkaAddress, ask_seconds: float = ASK_SECONDS) -> None:
        self._topic = address.topic
        self._ask_seconds = ask_seconds
        # A consumer in name only: it is assigned nothing and fetches nothing.
        self._consumer = Consumer(address.client(group_id="hookline", isolation_level="read_uncommitted"))

    def of(self, partition: int) -> tuple[int, int]:
        """The oldest offset kept, and one past the last that is on every replica in sync; (0, 0) without a topic."""
        try:
            found = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), self._ask_seconds)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                return 0, 0
            raise _away(error) from error
        if found is None:
            raise JournalAway(f"Kafka does not answer within {self._ask_seconds} s")
        return found[0], found[1]

    def at(self, partition: int, time_ms: int) -> int:
        """The offset of the first record received at this time or later, the end when there is none."""
        try:
            wanted = [TopicPartition(self._topic, partition, max(time_ms, 0))]
            (found,) = self._consumer.offsets_for_times(wanted, self._ask_seconds)
        except KafkaException as error:
            raise _away(error) from error
        return found.offset if found.offset >= 0 else self.of(partition)[1]

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()


def _away(error: KafkaException) -> JournalAway:
    return JournalAway(f"Kafka does not answer: {error.args[0].str()}")
