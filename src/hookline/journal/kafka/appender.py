"""Appending to a journal on Kafka: idempotent, and answered once every in-sync replica that must has the record.

The client's own threads talk to the brokers. Nothing is ever acknowledged from memory: what brokers do not confirm
within ``DELIVERY_SECONDS`` fails. While they are away, one call at a time and partition finds out whether they are
back, and the others are refused at once, so that memory and waiting stay bounded.

Everything is called on one event loop but ``open``, ``erase``, ``retain`` and ``state``, which wait for brokers and may
be called in a thread.

An idempotent client keeps no more than five messages of a partition unconfirmed beside the request that is under way,
and its threads spin while more are due. So it is given the next ones when the last are confirmed, all at once: a
request holds what has gathered meanwhile, as a local journal's group does.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.codec import encode
from hookline.journal.kafka.erased import ErasedLog
from hookline.journal.kafka.topic import (
    ADMIN_SECONDS,
    MESSAGE_BYTES_MAX,
    Admin,
    Watermarks,
    answered,
    made_anew,
    open_topic,
    topic_state,
)
from hookline.journal.port import (
    Done,
    JournalAway,
    JournalError,
    JournalFailed,
    JournalFull,
    JournalUnusable,
    partition_of,
)
from hookline.journal.reading import PENDING_BYTES_MAX, Wake, awaited, lock_folder, size_bytes
from hookline.journal.record import Record, journal_ms, note_clock
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

Settled = Callable[["Call", KafkaError | None, Message], None]


class Call:
    """``left`` records, or calls it follows, stand between it and its answer."""

    __slots__ = ("_done", "_settled", "error", "followers", "left", "size_bytes")

    def __init__(self, done: Callable[[BaseException | None], None], size_bytes: int, settled: Settled) -> None:
        self.left = 0
        self.error: JournalError | None = None
        self.size_bytes = size_bytes
        self.followers: list[Call] = []
        self._done = done
        self._settled = settled

    def follow(self, calls: Iterable[Call]) -> None:
        """Be answered after these."""
        for call in calls:
            call.followers.append(self)
            self.left += 1

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Return what became of one record."""
        self._settled(self, error, message)

    def answer(self) -> None:
        """Tell the caller."""
        try:
            self._done(self.error)
        except Exception as raised:  # noqa: BLE001 - one caller's callback must not drop the others' answers
            context = {"message": "a journal append's callback raised", "exception": raised}
            asyncio.get_running_loop().call_exception_handler(context)


TURN_BYTES = 1024 * 1024
"""What a partition's turn may hold; never more than one request does."""


class Waiting(NamedTuple):
    """One record, encoded, and the append that it is of."""

    call: Call
    record: Record
    value: bytes


class Turns:
    """Records in the order in which they came, by partition."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Waiting]] = {}

    def add(self, partition: int, waiting: Waiting) -> None:
        """Have a record wait behind those of its partition."""
        self._waiting.setdefault(partition, deque()).append(waiting)

    def partitions(self) -> list[int]:
        """Those that something waits for."""
        return list(self._waiting)

    def take(self, partition: int, bytes_max: int = TURN_BYTES) -> list[Waiting]:
        """Return the partition's next turn: at least one record where any waits."""
        waiting = self._waiting.get(partition)
        taken: list[Waiting] = []
        size = 0
        while waiting and (not taken or size + len(waiting[0].value) <= bytes_max):
            taken.append(waiting.popleft())
            size += len(taken[-1].value)
        if not waiting:
            self._waiting.pop(partition, None)
        return taken

    def take_all(self, partition: int) -> list[Waiting]:
        """Everything that waits for the partition."""
        return list(self._waiting.pop(partition, ()))


DELIVERY_SECONDS = 10.0
"""Until brokers have confirmed a record, or its append failed: long enough for another broker to take over."""
POLL_SECONDS = 0.001
"""How often confirmations are looked for while some are due."""
SLOW_POLL_SECONDS = 0.02
"""The same once they have been due for a while."""
LINGER_MS = 2
"""Longer than it takes to hand the client a turn, so that it goes out as one request."""
TOPIC_FILE = "topic"
"""In the journal's folder: the id of the topic that its offsets mean something in."""
CLOSE_SECONDS = 4.0
"""How long closing waits for brokers."""
STATE_SECONDS = 2.0
"""How long to wait for an answer about the topic's state."""

_QUICK_POLLS = 200


class KafkaAppender:
    """Appends to a topic for the data folder ``folder``; the second one on a folder is refused with JournalLocked."""

    erases_in_thread = True

    def __init__(
        self,
        folder: Path,
        address: KafkaAddress,
        partitions: int = 1,
        *,
        retention_seconds: float,
        retention_bytes: int,
        wake_path: Path | None = None,
        on_failed: Callable[[JournalFailed], None] | None = None,
        pending_bytes_max: int = PENDING_BYTES_MAX,
        delivery_seconds: float = DELIVERY_SECONDS,
        steady_ms: Callable[[], int] | None = None,
    ) -> None:
        """Take the folder; records are taken once ``open`` was called. ``wake_path``, ``on_failed`` and ``steady_ms``
        are what they are for a local journal."""
        self.failed: JournalFailed | None = None
        self.away = "the journal's topic was not found yet"
        """Why records cannot be stored just now, as far as is known; empty when they can."""
        self._retention_bytes = retention_bytes
        self._folder = folder
        self._steady_ms = steady_ms
        self._address = address
        self._partitions = partitions
        self._retention_ms = int(retention_seconds * 1000)
        self._on_failed = on_failed
        self._pending_bytes_max = pending_bytes_max
        self._closed = False
        self._topic_id = ""
        self._calls: set[Call] = set()
        self._turns = Turns()
        self._in_flight: dict[int, int] = {}
        """How many records of a partition the client has."""
        self._away: set[int] = set()
        self._ends: dict[int, int] = {}
        self._polling: asyncio.TimerHandle | None = None
        self._polls = 0
        self._pending_bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_fd = lock_folder(folder)
        self._watermarks = Watermarks(address)
        self._erased = ErasedLog(folder)
        self._wake = Wake(wake_path)
        self._admin = Admin(address)
        self._producer = Producer(_producing(address, pending_bytes_max, delivery_seconds))

    def open(self, was_there: Callable[[], object] = lambda: False) -> None:
        """Make or check the topic; raise JournalAway while brokers do not answer, JournalUnusable when it is not the
        one that this folder began with, or is gone and ``was_there``."""
        noted = self._folder / TOPIC_FILE
        known = noted.read_text() if noted.exists() else ""
        retention_seconds = self._retention_ms / 1000
        topic = open_topic(
            self._address,
            self._partitions,
            retention_seconds,
            self._retention_bytes,
            was_there=lambda: bool(known) or was_there(),
        )
        if not known:
            write_whole(noted, topic.encode())
        elif known != topic:
            raise JournalUnusable(made_anew(self._address))
        self._topic_id = topic
        self._ends = {number: self._watermarks.of(number)[1] for number in range(self._partitions)}
        self.away = ""

    @property
    def pending_bytes(self) -> int:
        """About how much waits for the brokers."""
        return self._pending_bytes

    def ends(self) -> dict[int, int]:
        """Return the durable end of every partition, as far as this process has moved it or found it."""
        return dict(self._ends)

    def append_soon(self, records: Sequence[Record], done: Done) -> None:
        """Append without a future: ``done`` is called later on the loop, with None once durable or with the error.

        Without records it is called once everything that was appended before is answered.
        """
        try:
            if records and self._steady_ms is not None:
                note_clock(records, self._steady_ms)
            call = self._begin(records, done)
        except (JournalError, ValueError, TypeError) as refused:
            # Its traceback would keep the records until it is forgotten.
            asyncio.get_running_loop().call_soon(done, refused.with_traceback(None))
            return
        self._calls.add(call)
        self._pending_bytes += call.size_bytes
        self._idle.clear()
        if not call.left:
            asyncio.get_running_loop().call_soon(self._answer, call)
            return
        self._send()
        if self._polling is None:
            self._polls = 0
            self._polling = asyncio.get_running_loop().call_later(POLL_SECONDS, self._poll)

    async def append(self, records: Sequence[Record]) -> None:
        """Store the records durably; see the port for order, errors and what a failure means."""
        await awaited(self.append_soon, records)

    def erase(self, partition: int, offsets: Sequence[int]) -> int:
        """Have readers see these records as erased; return how many are there. Their bytes go with retention."""
        self._check_usable()
        start, end = self._watermarks.of(partition)
        kept = {offset for offset in offsets if start <= offset < end}
        try:
            self._erased.add(partition, kept)
        except OSError as error:
            raise JournalFull(
                f"no note of what is erased in {self._folder} ({error.strerror}): free disk space"
            ) from None
        return len(kept)

    def retain(self, now_ms: int) -> int:
        """Drop records received before what retention keeps; return how many. Bytes are the brokers' to watch."""
        self._check_usable()
        oldest = {number: self._watermarks.at(number, now_ms - self._retention_ms) for number in self._ends}
        starts = {number: self._watermarks.of(number)[0] for number in oldest}
        expired = {number: offset for number, offset in oldest.items() if offset > starts[number]}
        if expired:
            positions = [TopicPartition(self._address.topic, number, offset) for number, offset in expired.items()]
            try:
                for dropping in self._admin.client.delete_records(positions, request_timeout=ADMIN_SECONDS).values():
                    answered(dropping)
            except KafkaException as error:
                raise JournalAway(f"Kafka did not drop old records: {error.args[0].str()}") from error
        for number, start in starts.items():
            self._erased.forget_below(number, expired.get(number, start))
        return sum(offset - starts[number] for number, offset in expired.items())

    @property
    def bounded(self) -> None:
        """Return None: brokers keep the topic within its bytes."""

    def state(self) -> str:
        """Ask brokers whether the topic takes records, and keep the answer in ``away``: until they say that it does,
        every append is refused at once. One that was made anew meanwhile takes none. Where others have added
        partitions, a user's records go where those others put them."""
        self.away, partitions = topic_state(self._admin, self._address, STATE_SECONDS, self._topic_id)
        if partitions > self._partitions and not self.away:
            self._follow(partitions)
        return self.away

    async def close(self) -> None:
        """Wait for what brokers have yet to confirm, then let go of the journal; idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self._idle.wait(), CLOSE_SECONDS)
        except TimeoutError:
            self._producer.purge()  # brokers are away: who waits is told so, which is all there is to wait for
            await self._idle.wait()
        self._producer.close()
        self._watermarks.close()
        self._wake.close()
        os.close(self._lock_fd)

    def _follow(self, partitions: int) -> None:
        try:
            self._producer.list_topics(self._address.topic, STATE_SECONDS)  # it refuses a partition that it never saw
            more = {number: self._watermarks.of(number)[1] for number in range(self._partitions, partitions)}
        except (KafkaException, JournalAway):
            return  # the next time
        logger().info("journal_partitions_added", topic=self._address.topic, partitions=partitions)
        self._ends = {**more, **self._ends}
        self._partitions = partitions

    def _begin(self, records: Sequence[Record], done: Done) -> Call:
        self._check_usable()
        if self.away:
            raise JournalAway(self.away)
        size = size_bytes(records)
        if self._pending_bytes + size > self._pending_bytes_max:
            raise JournalFull("Kafka is slower than what arrives: try again in a moment")
        positions = [partition_of(record.user_key, self._partitions) for record in records]
        if self._away:
            for partition in self._away.intersection(positions):
                if self._in_flight.get(partition):
                    raise JournalAway("Kafka does not confirm what it is given: try again in a moment")
        values = [encode(record) for record in records]
        call = Call(done, size, self._settled)
        if not records:
            call.follow(self._calls)
        for record, partition, value in zip(records, positions, values, strict=True):
            self._turns.add(partition, Waiting(call, record, value))
        call.left += len(records)
        return call

    def _send(self) -> None:
        """Give the client the next turn of each partition that has nothing under way."""
        for partition in self._turns.partitions():
            if partition not in self._in_flight:
                self._produce(partition, self._turns.take(partition))

    def _produce(self, partition: int, turn: list[Waiting]) -> None:
        for at, (call, record, value) in enumerate(turn):
            try:
                self._producer.produce(
                    self._address.topic,
                    value,
                    record.user_key.encode() or None,
                    partition,
                    on_delivery=call.delivered,
                    timestamp=max(0, journal_ms(record)),
                    headers=_headers(record),
                )
            except (BufferError, KafkaException) as error:
                self._fail([*turn[at:], *self._turns.take_all(partition)], self._error_of(error))
                turn = turn[:at]
                break
        if turn:
            self._in_flight[partition] = len(turn)

    def _fail(self, waiting: list[Waiting], error: JournalError) -> None:
        for call, _, _ in waiting:
            call.left -= 1
            call.error = error
            if not call.left:
                asyncio.get_running_loop().call_soon(self._answer, call)

    def _poll(self) -> None:
        try:
            self._producer.poll(0)
        except KafkaException as error:  # so the client says, once, that it takes nothing more
            self._error_of(error)
        self._send()
        loop = asyncio.get_running_loop()
        self._polls += 1
        if self._in_flight:
            seconds = POLL_SECONDS if self._polls < _QUICK_POLLS else SLOW_POLL_SECONDS
            self._polling = loop.call_later(seconds, self._poll)
        else:
            self._polling = None

    def _settled(self, call: Call, error: KafkaError | None, message: Message) -> None:
        """One record is confirmed, or failed; called for each, in a poll."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None, "a record is produced to a partition"
        left = self._in_flight[partition] - 1
        if left:
            self._in_flight[partition] = left
        else:
            del self._in_flight[partition]
        if error is None and offset is not None:
            self._polls = 0
            self._ends[partition] = offset + 1
            self._away.discard(partition)
        elif error is not None:
            self._away.add(partition)
            call.error = self._error_of(KafkaException(error))
            self._fail(self._turns.take_all(partition), call.error)
        call.left -= 1  # not before: its records that waited may have failed just now, and must not be its last
        if not call.left:
            self._answer(call)

    def _answer(self, call: Call) -> None:
        self._calls.discard(call)
        self._pending_bytes -= call.size_bytes
        for follower in call.followers:
            follower.left -= 1
            if not follower.left:
                self._answer(follower)
        if call.error is None and call.size_bytes:
            self._wake.poke()
        if not self._calls:
            self._idle.set()
        call.answer()

    def _error_of(self, error: BufferError | KafkaException) -> JournalError:
        if isinstance(error, BufferError):
            return JournalFull("Kafka is slower than what arrives: try again in a moment")
        if self.failed is not None:  # of each record that it had taken, the client says only that it was given up
            return self.failed
        reason: KafkaError = error.args[0]
        if not reason.fatal() and reason.code() != KafkaError._FATAL:
            return JournalAway(f"Kafka does not confirm what it is given ({reason.str()}): try again in a moment")
        self.failed = JournalFailed(f"Kafka refuses this producer for good ({reason.str()}): start again")
        if self._on_failed is not None:
            self._on_failed(self.failed)
        return self.failed

    def _check_usable(self) -> None:
        if self.failed is not None:
            raise self.failed
        if self._closed:
            raise JournalError("the journal is closed")


def _headers(record: Record) -> list[tuple[str, str | bytes | None]] | None:
    return None if record.traceparent is None else [("traceparent", record.traceparent)]


def _producing(address: KafkaAddress, pending_bytes_max: int, delivery_seconds: float) -> dict[str, object]:
    milliseconds = int(delivery_seconds * 1000)
    return address.client(
        acks="all",
        enable_idempotence=True,
        compression_type="lz4",
        linger_ms=LINGER_MS,
        batch_size=TURN_BYTES,
        message_max_bytes=MESSAGE_BYTES_MAX,
        delivery_timeout_ms=milliseconds,
        request_timeout_ms=max(milliseconds // 2, 1),
        queue_buffering_max_messages=1_000_000,
        # Keys stand beside the records; what may wait is counted before a record comes here.
        queue_buffering_max_kbytes=2 * pending_bytes_max // 1024,
    )
