"""Following the end of a journal on Kafka from an event loop: a thread waits for brokers, the loop takes what is there.

One consumer reads all partitions ahead, each up to ``AHEAD_BYTES`` and together up to ``AHEAD_BYTES_OF_ALL``. Nothing
here waits: ``read`` ends where what has arrived ends, and ``on_arrival`` is called on the thread when more has come.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from hookline.journal.damaged import note_given_again, report_behind
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.codec import group_of, noting_damage
from hookline.journal.kafka.cursors import FETCH_RECORDS, Run
from hookline.journal.kafka.erased import ErasedPlaces
from hookline.journal.kafka.topic import Watermarks
from hookline.journal.port import Group, JournalAway, JournalCorrupt, JournalError, OffsetExpired

AHEAD_BYTES = 8 * 1024 * 1024
"""What is read ahead of a partition; its consumer rests until half of it is taken."""
AHEAD_BYTES_OF_ALL = 64 * 1024 * 1024
"""The same of all partitions together: with many each has less."""
ENDS_SECONDS = 0.25
"""How often the ends of partitions that rest are asked for: their fetches do not tell."""
LOOK_SECONDS = 0.25
"""How long brokers may take to say where one partition ends; nothing is read of the others meanwhile."""
AWAY_SECONDS = 1.5
"""From one partition that did not answer to the next that is asked again."""
CLOSE_SECONDS = 0.5
"""The thread looks so often whether it is to end, but where it asks brokers that do not answer."""
_POLL_SECONDS = 0.1
_TRUNCATED = re.compile(r"truncation detected .*: broker end offset is (\d+)")
"""What the client says where another leader lacks what it has read: where that begins, also when others came since."""


class _Ahead:
    """Hold what has arrived of one partition and was not taken yet."""

    def __init__(self, offset: int) -> None:
        self.begin(offset)
        self.next_offset = offset
        """Where the first of the runs begins, or will."""

    def begin(self, offset: int) -> None:
        self.runs: deque[Run] = deque()
        self.next_offset = self.expected = offset
        self.size_bytes = 0
        self.rests = False
        self.error: JournalError | None = None
        self.is_placed = False
        self.lost: int | None = None
        """The first offset that brokers lost of what has arrived, while the topic ends before the next one."""


class KafkaFollower:
    """Reads on in every partition from where ``read`` was asked to begin; used from one thread beside its own."""

    def __init__(self, folder: Path, address: KafkaAddress, on_arrival: Callable[[], object]) -> None:
        self._folder = folder
        self._topic = address.topic
        self._erased = ErasedPlaces(folder)
        self._on_arrival = on_arrival
        self._watermarks = Watermarks(address, LOOK_SECONDS)
        self._consumer = Consumer(
            address.client(
                group_id="hookline",
                enable_auto_commit=False,
                auto_offset_reset="error",
                isolation_level="read_uncommitted",
                fetch_error_backoff_ms=50,
                fetch_queue_backoff_ms=10,
                queued_max_messages_kbytes=AHEAD_BYTES // 1024,
            )
        )
        self._lock = threading.Lock()
        self._ahead: dict[int, _Ahead] = {}
        self._ends: dict[int, int] = {}
        self._left: set[int] = set()
        """Partitions that the consumer is to let go of."""
        self._closing = threading.Event()
        self._asked = 0.0
        self._away_until: dict[int, float] = {}
        """When to ask partitions again that did not say where they end."""
        self._failure: JournalError | None = None
        self._thread = threading.Thread(target=self._run, name="kafka-follower", daemon=True)

    def end(self, partition: int) -> int:
        """Return one past the last durable record, as far as brokers have told; raise JournalError once the thread has
        ended, for it tells no more."""
        if self._failure is not None:
            raise self._failure
        return self._ends.get(partition, 0)

    def follow(self, partition: int, end: int) -> None:
        """Have a partition that ends here now followed, once it is read."""
        with self._lock:
            self._ends[partition] = end

    def leave(self, partition: int) -> None:
        """Follow a partition no longer."""
        with self._lock:
            self._ends.pop(partition, None)
            if self._ahead.pop(partition, None) is not None:
                self._left.add(partition)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups that have arrived from ``offset`` on; raise OffsetExpired and JournalCorrupt as the port
        says, once the thread has met such a place."""
        return noting_damage(self._folder, partition, self._arrived(partition, offset))

    def _arrived(self, partition: int, offset: int) -> Iterator[Group]:
        with self._lock:
            ahead = self._ahead.get(partition)
            if ahead is None:
                ahead = self._ahead[partition] = _Ahead(offset)
            elif ahead.next_offset != offset:
                ahead.begin(offset)
        if self._failure is not None:
            raise self._failure
        while (run := self._taken(ahead, offset)) is not None:
            group = group_of(f"{self._topic}[{partition}]", run, self._erased.of(partition))
            offset = group.next_offset
            yield group

    def close(self) -> None:
        """End the thread and let go of the connections; idempotent. A thread that waits for brokers is left behind."""
        if not self._closing.is_set():
            self._closing.set()
            if self._thread.is_alive():
                self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                return
            self._consumer.close()
            self._watermarks.close()

    def _taken(self, ahead: _Ahead, offset: int) -> Run | None:
        with self._lock:
            if ahead.next_offset != offset:
                return None  # another reading has begun meanwhile
            if not ahead.runs:
                if ahead.error is not None:
                    raise ahead.error
                return None
            run = ahead.runs.popleft()
            ahead.size_bytes -= run.size_bytes
            ahead.next_offset = run.first_offset + len(run.values)
            return run

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 - the thread's border: whoever reads must hear of it
            self._failure = JournalError(f"following the journal on Kafka ended unexpectedly ({error!r}): start again")
            self._on_arrival()

    def _follow(self) -> None:
        while not self._closing.is_set():
            self._position()
            message = self._consumer.poll(_POLL_SECONDS) if self._ahead else None
            if message is None:
                if not self._ahead:
                    self._closing.wait(_POLL_SECONDS)
                self._look_at_ends()
                continue
            arrived = [message, *self._consumer.consume(FETCH_RECORDS - 1, 0)]
            if self._arrive(arrived):
                self._on_arrival()
            self._look_at_ends()

    def _position(self) -> None:
        """Have the consumer begin where a reading begins, and rest or go on by what waits."""
        with self._lock:
            ahead = dict(self._ahead)
            left, self._left = self._left, set()
        if left:
            known = {position.partition for position in self._consumer.assignment()}
            self._consumer.incremental_unassign([TopicPartition(self._topic, each) for each in left & known])
        begin: list[TopicPartition] = []
        rest: list[TopicPartition] = []
        go_on: list[TopicPartition] = []
        enough = min(AHEAD_BYTES, AHEAD_BYTES_OF_ALL // max(1, len(ahead)))
        for partition, each in ahead.items():
            if not each.is_placed:
                each.is_placed = True
                begin.append(TopicPartition(self._topic, partition, each.expected))
            elif each.rests != (each.size_bytes > (enough // 2 if each.rests else enough)):
                each.rests = not each.rests
                (rest if each.rests else go_on).append(TopicPartition(self._topic, partition))
        if begin:
            known = {position.partition for position in self._consumer.assignment()}
            again = [position for position in begin if position.partition in known]
            if again:
                self._consumer.incremental_unassign(again)
            self._consumer.incremental_assign(begin)
            go_on += begin  # the client lets a partition rest on that rested when it was unassigned
        if rest:
            self._consumer.pause(rest)
        if go_on:
            self._consumer.resume(go_on)

    def _arrive(self, messages: list[Message]) -> bool:
        values: dict[int, list[Message]] = {}
        for message in messages:
            error = message.error()
            partition = message.partition()
            if partition is None:
                continue
            if error is None:
                values.setdefault(partition, []).append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._lost(partition, error.str())
            # Others are told again for as long as they last.
        for partition, those in values.items():
            self._add(partition, those)
        return bool(values)

    def _add(self, partition: int, messages: list[Message]) -> None:
        first = messages[0].offset() or 0
        # What arrives together goes on without a gap, but for records that the topic lacks: those before them are good.
        whole = messages[-1].offset() == first + len(messages) - 1
        good = messages if whole else [m for at, m in enumerate(messages) if m.offset() == first + at]
        values = [message.value() or b"" for message in good]
        run = Run(first, values, sum(map(len, values)))
        with self._lock:
            ahead = self._ahead.get(partition)
            if ahead is None or not ahead.is_placed or ahead.error is not None:
                return  # it was told to begin elsewhere
            position = f"{self._topic}[{partition}]"
            if first != ahead.expected:
                ahead.error = JournalCorrupt(position, ahead.expected, first, is_missing=True)
                return
            ahead.runs.append(run)
            ahead.size_bytes += run.size_bytes
            ahead.expected = first + len(values)
            self._raise_end(partition, ahead.expected)
            if not whole:
                behind = messages[len(good)].offset() or 0
                ahead.error = JournalCorrupt(position, ahead.expected, behind, is_missing=True)

    def _raise_end(self, partition: int, end: int) -> None:
        if partition in self._ends:
            self._ends[partition] = max(self._ends[partition], end)

    def _lost(self, partition: int, reason: str) -> None:
        """The position is not in the topic: below what is kept, and where to go on is for the reader to decide, or
        beyond its end."""
        try:
            start, end = self._watermarks.of(partition)
        except JournalAway:
            start, end = -1, -1
        told = _TRUNCATED.search(reason)
        with self._lock:
            ahead = self._ahead.get(partition)
            if ahead is None:
                return
            ends = [each for each in (end, int(told[1]) if told else -1) if 0 <= each < ahead.expected]
            if 0 <= ahead.expected < start:
                ahead.error = OffsetExpired(start)
            elif ends:
                ahead.lost = min(ends)
                report_behind(partition, ahead.lost, ahead.expected)
            else:
                ahead.is_placed = False  # it was a moment's confusion: try the same place again
        self._on_arrival()

    def _go_on(self, partition: int, ahead: _Ahead, first: int) -> None:
        """The topic has come to the position again, by events that have the offsets of those that were lost."""
        note_given_again(self._folder, partition, first, ahead.expected)
        with self._lock:
            ahead.lost, ahead.is_placed = None, False

    def _look_at_ends(self) -> None:
        """Learn the ends: from the fetches where there are some, by asking where a partition rests.

        One that does not answer ends the asking, so that others are fetched first, and is left alone for a while.
        """
        now = time.monotonic()
        asks = now - self._asked >= ENDS_SECONDS
        for partition in list(self._ends):
            ahead = self._ahead.get(partition)
            position = TopicPartition(self._topic, partition)
            lost = ahead.lost if ahead is not None else None
            try:
                if ahead is not None and not ahead.rests and lost is None:
                    known = self._consumer.get_watermark_offsets(position, cached=True)
                    end = known[1] if known else -1
                elif asks and now >= self._away_until.get(partition, 0.0):
                    self._asked = now
                    end = self._end_of(partition)
                else:
                    continue
            except JournalAway:
                asks = False
                continue
            except KafkaException:
                continue
            if ahead is not None and lost is not None and end >= ahead.expected:
                self._go_on(partition, ahead, lost)
            with self._lock:
                self._raise_end(partition, end)

    def _end_of(self, partition: int) -> int:
        """Ask where a partition ends; raise JournalAway, and leave it alone then, the longer the more there are."""
        away = self._away_until
        try:
            _, end = self._watermarks.of(partition)
        except JournalAway:
            for gone in away.keys() - self._ends.keys():
                del away[gone]
            away[partition] = 0.0
            away[partition] = time.monotonic() + AWAY_SECONDS * len(away)
            raise
        finally:
            self._asked = time.monotonic()
        if away.pop(partition, None) is not None:
            self._away_until = dict.fromkeys(away, 0.0)  # the others' leaders may be back as well
        return end
