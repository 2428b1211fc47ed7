"""Copy a local journal into a topic, record by record to the same offsets, beside the process that appends to it.

Where the local journal begins later than at 0, or where the disk lost records, other messages take up the offsets. Run
again it goes on where the topic ends.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.codec import encode
from hookline.journal.kafka.erased import ErasedLog
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.kafka.topic import MESSAGE_BYTES_MAX, Watermarks, open_topic, partition_count
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.port import JournalAway, JournalCorrupt, OffsetExpired
from hookline.journal.reading import read_on
from hookline.journal.record import Record, journal_ms
from hookline.settings import Settings
from hookline.transfer.state import MoveFailed, Progress, State, Tell

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
        """Begin: what is written next gets this offset."""
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
            raise MoveFailed(f"Kafka does not confirm what is copied ({reason}): repair the brokers and run this again")
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
                f"Kafka does not accept what is copied ({error}): repair the brokers and run this again"
            ) from None

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None:
            self._error = error
        elif offset is not None:
            self._confirmed = offset


SETTLED_SECONDS = 2.0
"""A segment that was written less long ago may be written once more within one tick of the file system's clock."""
DROP_SECONDS = 30.0
"""Every copy must have dropped what is dropped."""
GONE_SECONDS = 30.0
"""How long brokers may take to remove a topic."""


class JournalCopy:
    """The copy of the journal in ``old`` as the topic that ``settings`` name."""

    def __init__(self, old: Path, settings: Settings, address: KafkaAddress, state: State, tell: Tell) -> None:
        self._old = old
        self._settings = settings
        self._folder = settings.data_path / "journal"
        self._address = address
        self._state = state
        self._tell = tell
        self._reader = LocalReader(old)
        self._watermarks = Watermarks(address)

    def open(self) -> None:
        """Make the topic, or find the one that was begun; raise MoveFailed when there is another one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = partition_count(self._address)
        if there and not self._state.topic and any(self._end(number) for number in range(there)):
            raise MoveFailed(
                f"the topic {self._address.topic} is not empty: name another one in journal.url, or remove it first"
            )
        topic = self._open_topic()
        if there and self._state.topic not in ("", topic):
            raise MoveFailed(
                f"the topic {self._address.topic} was created again since the move began: remove"
                f" {self._settings.data_path}, the topic and the schemas of the database, and run it again"
            )
        self._note_topic(topic, is_new=not there)

    def fill(self) -> int:
        """Copy what is there now; return how many events."""
        while True:
            try:
                return self._fill()
            except TopicSpoiled as spoiled:
                self._tell(f"journal: the topic is filled again ({spoiled})")
                self._remove_topic()
                # It is not looked for as in the beginning: one broker may list it for a moment after another does not.
                self._note_topic(self._open_topic(), is_new=True)

    def behind(self) -> int:
        """Return how many records the local journal has that the topic has not."""
        return sum(self._reader.end(number) - self._end(number) for number in self._reader.partitions())

    def ends(self) -> dict[int, int]:
        """Return where the partitions of the topic end."""
        return {number: self._end(number) for number in range(self._settings.journal.partitions)}

    def drop_padding(self) -> None:
        """Drop what is in the topic before the start of the local journal."""
        starts = {number: self._reader.start(number) for number in self._reader.partitions()}
        late = {number: start for number, start in starts.items() if start > self._watermarks.of(number)[0]}
        places = [TopicPartition(self._address.topic, number, start) for number, start in late.items()]
        if not places:
            return
        admin = AdminClient(self._address.client())  # kept until all is answered: without it nothing is
        try:
            dropping = admin.delete_records(places, request_timeout=DROP_SECONDS)
            for done in dropping.values():
                done.result(DROP_SECONDS)
        except (KafkaException, TimeoutError) as error:
            raise JournalAway("Kafka did not drop the records that only fill offsets: run this again") from error

    def finish(self) -> None:
        """With the local journal at rest: hold its ends and the topic's together, drop what only took up offsets, and
        note what was erased after it was copied."""
        for number in self._reader.partitions():
            if self._end(number) != self._reader.end(number):
                raise MoveFailed(
                    f"partition {number} of topic {self._address.topic} does not end where the journal ends: somebody"
                    " else writes to it; end that and run it again"
                )
        self.drop_padding()
        log = ErasedLog(self._folder)
        for number in self._reader.partitions():
            log.add(number, self._erased_since(number))

    def close(self) -> None:
        """Let go of the files and the brokers."""
        self._reader.close()
        self._watermarks.close()

    def _open_topic(self) -> str:
        retention = self._settings.retention
        return open_topic(self._address, self._settings.journal.partitions, retention.events, retention.bytes)

    def _note_topic(self, topic: str, is_new: bool) -> None:
        if is_new:
            self._state.seen = {}
        self._state.topic = topic
        self._state.save(self._settings.data_path)

    def _fill(self) -> int:
        self._note_segments()
        numbers = self._reader.partitions()
        for number in numbers:
            self._check_tail(number)
        progress = Progress(self._tell, "journal", sum(self._reader.end(n) - self._end(n) for n in numbers))
        writer = TopicWriter(self._address)
        try:
            for number in numbers:
                self._copy(writer, number, progress)
        finally:
            writer.close()
        progress.end()
        return progress.done

    def _copy(self, writer: TopicWriter, number: int, progress: Progress) -> None:
        at, end = self._end(number), self._reader.end(number)
        writer.begin(number, at)
        while at < end:
            try:
                for group in self._reader.read(number, at):
                    for record in group.records[: end - at]:
                        writer.write(record)
                    progress.add(len(group.records))
                    at = group.next_offset
                    if at >= end:
                        break
            except OffsetExpired as expired:
                self._pad(writer, number, expired.start - at, progress)
                at = expired.start
            except JournalCorrupt as corrupt:
                self._tell(f"journal: {corrupt}")
                self._pad(writer, number, corrupt.next_offset - at, progress)
                at = corrupt.next_offset
        writer.confirm()

    def _pad(self, writer: TopicWriter, number: int, count: int, progress: Progress) -> None:
        self._tell(f"journal: {count:,} offsets of partition {number} hold no event any more and are skipped")
        now_ms, step = int(time.time() * 1000), 10_000
        for done in range(0, count, step):
            writer.pad(min(step, count - done), now_ms)
            progress.add(min(step, count - done))

    def _check_tail(self, number: int) -> None:
        """Hold the last record in the topic, if brokers have not dropped it, against the journal's own at that
        offset."""
        start, end = self._watermarks.of(number)
        if end > self._reader.end(number):
            raise TopicSpoiled(f"partition {number} has more than the journal")
        mine = self._reader.get(number, end - 1) if end > start else None
        if mine is None:
            return
        reader = KafkaReader(self._folder, self._address)
        try:
            copied = reader.get(number, end - 1)
        finally:
            reader.close()
        is_same = copied is not None and copied.received_at == mine.received_at
        if not is_same or (copied is not None and not mine.erased and copied.fingerprint != mine.fingerprint):
            raise TopicSpoiled(f"partition {number} ends with another event")

    def _end(self, number: int) -> int:
        return self._watermarks.of(number)[1]

    def _note_segments(self) -> None:
        """Note when the segments were written of which nothing is copied yet."""
        settled_ns = time.time_ns() - int(SETTLED_SECONDS * 1e9)
        for number in self._reader.partitions():
            end, seen = self._end(number), self._state.seen.setdefault(number, {})
            for first in list_segments(self._old / str(number)):
                written = self._written(number, first)
                if first >= end and written < settled_ns:
                    seen[first] = written
        self._state.save(self._settings.data_path)

    def _erased_since(self, number: int) -> list[int]:
        """Erased records in all segments that were written since they were noted."""
        seen = self._state.seen.get(number, {})
        segments = list_segments(self._old / str(number))
        found: list[int] = []
        for first, after in zip(segments, [*segments[1:], self._reader.end(number)], strict=True):
            if first < after and seen.get(first) != self._written(number, first):
                found += self._erased_between(number, first, after)
        return found

    def _erased_between(self, number: int, at: int, end: int) -> list[int]:
        found: list[int] = []
        for group in read_on(self._reader, number, at, end):
            found += [place for place, record in enumerate(group.records, group.first_offset) if record.erased]
        return found

    def _written(self, number: int, first: int) -> int:
        try:
            return os.stat(self._old / str(number) / segment_name(first)).st_mtime_ns
        except FileNotFoundError:
            return 0

    def _remove_topic(self) -> None:
        admin = AdminClient(self._address.client())
        try:
            admin.delete_topics([self._address.topic], request_timeout=DROP_SECONDS)[self._address.topic].result(
                DROP_SECONDS
            )
        except (KafkaException, TimeoutError) as error:
            raise JournalAway(f"Kafka did not remove the topic {self._address.topic}: run it again") from error
        deadline = time.monotonic() + GONE_SECONDS
        while partition_count(self._address):
            if time.monotonic() > deadline:
                raise JournalAway(f"Kafka did not remove the topic {self._address.topic}: run it again")
            time.sleep(0.1)
