"""The consumers a reader reads with: a few, each at some place, the one that stands right going on without a search.

None is a member of a group, commits or starts anywhere by itself: it is assigned one place and reads on from there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.port import GROUP_BYTES_MAX, JournalAway, JournalCorrupt

CURSORS_MAX = 4
FETCH_RECORDS = 500
"""Messages taken together, as many as a local group has."""
FETCH_WAIT_MILLISECONDS = 10
"""How long a broker waits for more at the end: a consumer that is placed elsewhere meanwhile must wait as long."""
BUFFER_KILOBYTES = 4_096
"""What one consumer reads ahead."""


class Run(NamedTuple):
    """Messages that follow one another: ``values[i]`` has offset ``first_offset + i``."""

    first_offset: int
    values: list[bytes]
    size_bytes: int


class Cursor:
    """One consumer and the place it goes on from; ``partition`` is -1 while it has none."""

    def __init__(self, address: KafkaAddress) -> None:
        self.partition = -1
        self.offset = 0
        self._topic = address.topic
        self._left: deque[Message] = deque()
        self._consumer = Consumer(
            address.client(
                group_id="hookline",
                enable_auto_commit=False,
                auto_offset_reset="error",
                isolation_level="read_uncommitted",
                enable_partition_eof=True,
                fetch_wait_max_ms=FETCH_WAIT_MILLISECONDS,
                fetch_error_backoff_ms=50,
                fetch_queue_backoff_ms=10,
                queued_max_messages_kbytes=BUFFER_KILOBYTES,
            )
        )

    def position(self, partition: int, offset: int) -> None:
        """Go on from here."""
        self.rest()
        self.partition, self.offset = partition, offset
        self._consumer.assign([TopicPartition(self._topic, partition, offset)])

    def rest(self) -> None:
        """Fetch nothing more until it is placed again, and let go of what was read ahead."""
        if self.partition >= 0:
            self._left.clear()
            self.partition = -1
            self._consumer.unassign()
            self._consumer.poll(0)  # until it is asked the client keeps what it had fetched: tens of megabytes

    def take(self, end: int, wait_seconds: float) -> Run | None:
        """Return the next messages below ``end``, None when none came in time; raise JournalCorrupt where some are
        missing."""
        deadline = time.monotonic() + wait_seconds
        while not self._left:
            message = self._consumer.poll(max(deadline - time.monotonic(), 0))
            if message is None:
                return None
            self._receive([message], end)
            if self._left:
                self._receive(self._consumer.consume(FETCH_RECORDS - 1, 0), end)
        values: list[bytes] = []
        size, expected = 0, self.offset
        while self._left:
            message = self._left[0]
            offset, value = message.offset(), message.value() or b""
            if offset != expected:
                if values:
                    break
                self.offset = offset or 0
                raise JournalCorrupt(f"{self._topic}[{self.partition}]", expected, self.offset, is_missing=True)
            if expected >= end or (values and size + len(value) > GROUP_BYTES_MAX):
                break
            values.append(value)
            size += len(value)
            expected += 1
            self._left.popleft()
        run, self.offset = Run(self.offset, values, size), expected
        return run if values else None

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def _receive(self, messages: list[Message], end: int) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self._left.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                if not self._left and self.offset < end <= (message.offset() or 0):
                    raise JournalCorrupt(f"{self._topic}[{self.partition}]", self.offset, end, is_missing=True)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.rest()
                raise KafkaException(error)
            # Others are told again for as long as they last, and end as a wait that was too long.


class Cursors:
    """At most ``CURSORS_MAX`` consumers, made as they are needed."""

    def __init__(self, address: KafkaAddress, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._clock = clock
        self._cursors: list[Cursor] = []
        """The one that was used last is last."""

    def take(self, partition: int, offset: int, end: int, wait_seconds: float) -> Run:
        """Messages from exactly ``offset`` on, at least one, below ``end``; raise JournalAway when none come in time,
        JournalCorrupt where some are missing, KafkaException when the place is not kept."""
        cursor = self._at(partition, offset)
        try:
            run = cursor.take(end, wait_seconds)
        except JournalCorrupt:
            cursor.rest()
            raise
        if cursor.offset >= end:
            cursor.rest()  # at the end a consumer asks for more, again and again
        if run is None:
            cursor.rest()
            raise JournalAway(f"Kafka gave nothing of partition {partition} from offset {offset} on")
        return run

    def rest(self, partition: int, offset: int) -> None:
        """Nobody goes on from here."""
        for cursor in self._cursors:
            if cursor.partition == partition and cursor.offset == offset:
                cursor.rest()

    def close(self) -> None:
        """Let go of the connections."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()

    def _at(self, partition: int, offset: int) -> Cursor:
        found = next((c for c in self._cursors if c.partition == partition and c.offset == offset), None)
        if found is None:
            resting = next((cursor for cursor in self._cursors if cursor.partition < 0), None)
            if resting is None and len(self._cursors) < CURSORS_MAX:
                self._cursors.append(resting := Cursor(self._address))
            found = resting or self._cursors[0]
            found.position(partition, offset)
        self._cursors.remove(found)
        self._cursors.append(found)
        return found
