"""Writes messages into the partitions of a topic and makes sure of the offset that each one got."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.codec import encode
from hookline.journal.kafka.topic import MESSAGE_BYTES_MAX
from hookline.journal.record import Record, journal_ms
from hookline.transfer.state import MoveFailed

CHUNK_MESSAGES = 50_000
"""Between two looks whether brokers have everything, and at the offset of the last."""
CHUNK_BYTES = 32 * 1024 * 1024
DELIVERY_SECONDS = 60.0
"""How long brokers may be away before the move gives up."""


class TopicSpoiled(Exception):
    """The topic does not hold what was written at the offsets it was written for: it must be filled anew."""


class TopicWriter:
    """The only writer of the topic. Offsets of a partition only rise, so when the last message of a chunk got its own,
    every one before it did."""

    def __init__(self, address: KafkaAddress) -> None:
        self._topic = address.topic
        self._last: tuple[int, bytes | None, bytes | None, int, list[tuple[str, str | bytes | None]] | None] | None = (
            None
        )
        self._partition = 0
        self._offset = 0
        self._count = self._bytes = 0
        self._error: KafkaError | None = None
        self._confirmed = -1
        self._producer = Producer(
            address.client(
                acks="all",
                enable_idempotence=True,
                compression_type="lz4",
                linger_ms=20,
                batch_size=MESSAGE_BYTES_MAX // 2,
                batch_num_messages=CHUNK_MESSAGES,
                message_max_bytes=MESSAGE_BYTES_MAX,
                delivery_timeout_ms=int(DELIVERY_SECONDS * 1000),
                queue_buffering_max_messages=2 * CHUNK_MESSAGES,
                queue_buffering_max_kbytes=4 * CHUNK_BYTES // 1024,
            )
        )

    def begin(self, partition: int, offset: int) -> None:
        """What is written next gets this offset."""
        self._partition, self._offset = partition, offset

    def write(self, record: Record) -> None:
        """Write a record as the journal on Kafka has it."""
        key = None if record.erased else record.user_key.encode() or None
        headers: list[tuple[str, str | bytes | None]] | None = None
        if record.traceparent is not None and not record.erased:
            headers = [("traceparent", record.traceparent)]
        self._write(encode(record), key, max(0, journal_ms(record)), headers)

    def pad(self, count: int, at_ms: int) -> None:
        """Take up offsets with messages that are no records."""
        for _ in range(count):
            self._write(None, None, at_ms, None)

    def confirm(self) -> None:
        """Return once brokers have all that was written, each at its offset; raise MoveFailed when they do not take
        it, TopicSpoiled when an offset is another."""
        if not self._count:
            return
        self._count = self._bytes = 0
        self._send(True)
        self._producer.flush(2 * DELIVERY_SECONDS)
        if self._error is not None or self._confirmed < 0:
            reason = self._error.str() if self._error is not None else "no answer"
            raise MoveFailed(f"Kafka does not confirm what is copied ({reason}): see to the brokers and run it again")
        if self._confirmed != self._offset - 1:
            raise TopicSpoiled(f"partition {self._partition}: offset {self._confirmed} instead of {self._offset - 1}")

    def close(self) -> None:
        """Let go of the brokers; what they were not given yet is dropped."""
        self._producer.purge()
        self._producer.close()

    def _write(
        self,
        value: bytes | None,
        key: bytes | None,
        at_ms: int,
        headers: list[tuple[str, str | bytes | None]] | None,
    ) -> None:
        self._send(False)
        self._last = (self._partition, value, key, at_ms, headers)
        self._offset += 1
        self._count += 1
        self._bytes += len(value or b"")
        if self._count >= CHUNK_MESSAGES or self._bytes >= CHUNK_BYTES:
            self.confirm()

    def _send(self, is_last: bool) -> None:
        """Produce the message that was held back: of a chunk's last one alone it is asked where it went."""
        if self._last is None:
            return
        partition, value, key, at_ms, headers = self._last
        self._last = None
        self._confirmed = -1
        asked = {"on_delivery": self._delivered} if is_last else {}
        try:
            self._producer.produce(self._topic, value, key, partition, timestamp=at_ms, headers=headers, **asked)
        except (BufferError, KafkaException) as error:
            raise MoveFailed(
                f"Kafka does not take what is copied ({error}): see to the brokers and run it again"
            ) from None

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None:
            self._error = error
        elif offset is not None:
            self._confirmed = offset
