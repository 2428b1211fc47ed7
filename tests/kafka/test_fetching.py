"""What an event loop reads on Kafka: nobody waits, what was asked for comes, and that brokers are away is said."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Producer

from hookline.journal.conformance import a_record
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.appender import KafkaAppender
from hookline.journal.kafka.codec import encode
from hookline.journal.kafka.cursors import FETCH_RECORDS
from hookline.journal.kafka.erased import ErasedLog
from hookline.journal.kafka.fetching import FetchingReader
from hookline.journal.kafka.follower import KafkaFollower
from hookline.journal.port import Group, JournalAway, JournalError, JournalFetching, OffsetExpired, partition_of
from tests.kafka.cluster import Cluster, standing_still
from tests.service.waiting import wait_until

T = TypeVar("T")

RECORDS = 1_200
"""More than are read together."""
MANY_RECORDS = 20_000
SECONDS = 60.0


class Loop:
    """Asks again whenever something has come, as an event loop does."""

    def __init__(self, folder: Path, address: KafkaAddress) -> None:
        self._arrived = threading.Event()
        self.reader = FetchingReader(folder, address, self._arrived.set)

    def ask(self, question: Callable[[], T]) -> T:
        """The answer, once it is there."""
        while True:
            self._arrived.clear()
            try:
                return question()
            except JournalFetching:
                assert self._arrived.wait(SECONDS)


@pytest.fixture
def loop(tmp_path: Path, cluster: Cluster, topic: str) -> Iterator[Loop]:
    """A reader of a topic with records."""
    address = KafkaAddress(cluster.addresses, topic)

    async def fill() -> None:
        appender = KafkaAppender(tmp_path, address, 1, retention_seconds=86_400, retention_bytes=1 << 40)
        appender.open()
        await appender.append([a_record(number) for number in range(RECORDS)])
        await appender.close()

    asyncio.run(fill())
    made = Loop(tmp_path, address)
    yield made
    made.reader.close()


def test_what_is_asked_for_comes(loop: Loop, tmp_path: Path) -> None:
    """Single records, from anywhere, and what is not kept; one that is erased meanwhile is blank at once."""
    with pytest.raises(JournalFetching):
        loop.reader.get(0, 700)
    for offset in (700, 701, 3):
        record = loop.ask(lambda offset=offset: loop.reader.get(0, offset))  # type: ignore[misc]
        assert record is not None
        assert record.message_id == a_record(offset).message_id
    assert loop.ask(lambda: loop.reader.get(0, RECORDS)) is None
    ErasedLog(tmp_path).add(0, [701])
    record = loop.ask(lambda: loop.reader.get(0, 701))
    assert record is not None
    assert record.erased


def test_a_record_that_cannot_be_read_is_none(loop: Loop, cluster: Cluster, topic: str) -> None:
    """As other readers have it: who tries it again gives it up, on the record; as an error it ended deliver."""
    producer = Producer({"bootstrap.servers": cluster.addresses})
    producer.produce(topic, b"not a record", partition=0)
    assert producer.flush(30) == 0
    assert loop.ask(lambda: loop.reader.get(0, RECORDS)) is None


def test_what_is_kept_at_hand_is_there_at_once(loop: Loop, tmp_path: Path) -> None:
    """No broker is asked for it; once it is erased it is blank."""
    loop.reader.keep(0, 900, a_record(900))
    loop.reader.keep(0, 900, a_record(900))
    assert loop.reader.get(0, 900) == a_record(900)
    with pytest.raises(JournalFetching):
        loop.reader.get(0, 901)
    ErasedLog(tmp_path).add(0, [900])
    record = loop.reader.get(0, 900)
    assert record is not None
    assert record.erased


def test_a_stretch_is_read_group_by_group(loop: Loop) -> None:
    """From a place to the end, as a lane that catches up reads: each iterator goes on where the last one stood."""
    ids: list[str] = []

    def following() -> Group | None:
        return next(loop.reader.read(0, 5 + len(ids)), None)

    while (group := loop.ask(following)) is not None:
        assert group.first_offset == 5 + len(ids)
        ids += [record.message_id for record in group.records]
    assert ids == [a_record(number).message_id for number in range(5, RECORDS)]


def test_without_brokers_it_says_so_and_goes_on_by_itself(loop: Loop, cluster: Cluster) -> None:
    """What is here stays here; for the rest brokers are away, and are asked again later."""
    assert loop.ask(lambda: loop.reader.get(0, 0)) is not None
    with standing_still(cluster.brokers):
        wait_until(lambda: _is_away(loop), SECONDS, "the thread has waited in vain, and the loop has not")
        assert loop.reader.get(0, 1) is not None
    wait_until(lambda: not _is_away(loop), SECONDS, "brokers answer again")
    assert loop.ask(lambda: loop.reader.get(0, RECORDS - 1)) is not None


def test_a_partition_without_a_leader_holds_up_no_other(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    """Of one copy each, the broker that has the first one is gone: that one is away, the other is read to its end."""
    address = KafkaAddress(cluster.addresses, topic)
    cluster.create(topic, 2, 1)
    producer = Producer({"bootstrap.servers": cluster.addresses})
    producer.produce(topic, b"not a record", partition=0)  # an empty topic of one copy is refused
    assert producer.flush(30) == 0
    users = [next(user for user in map(str, range(99)) if partition_of(user, 2) == each) for each in range(2)]

    async def fill() -> None:
        appender = KafkaAppender(tmp_path, address, 2, retention_seconds=86_400, retention_bytes=1 << 40)
        appender.open()
        await appender.append([a_record(number, user=user) for number in range(RECORDS) for user in users])
        await appender.close()

    asyncio.run(fill())
    loop = Loop(tmp_path, address)
    offset, asked, was_away = 0, 0, False

    def following() -> Group | None:
        return next(loop.reader.read(1, offset), None)

    try:
        cluster.leader(topic, 0).kill()
        assert cluster.leader(topic, 1).is_running
        while offset < RECORDS or not was_away:
            try:
                loop.reader.get(0, asked := (asked + 100) % RECORDS)
            except JournalFetching:
                pass
            except JournalAway:
                was_away = True
            group = loop.ask(following)
            if group is None:
                offset = 0  # it came to the end before the other one was found to be away
            else:
                offset = group.next_offset
    finally:
        loop.reader.close()


def test_reading_on_does_not_wait_for_a_partition_without_a_leader(
    tmp_path: Path, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that has come to its end the end is asked for; where nobody answers, the others are read on meanwhile."""
    cluster.create(topic, 2, 1)
    follower = KafkaFollower(tmp_path, KafkaAddress(cluster.addresses, topic), lambda: None)
    asked: Counter[int] = Counter()
    of = follower._watermarks.of

    def counted(partition: int) -> tuple[int, int]:
        asked[partition] += 1
        return of(partition)

    monkeypatch.setattr(follower._watermarks, "of", counted)
    try:
        follower.follow(0, 0)
        cluster.leader(topic, 0).kill()
        assert cluster.leader(topic, 1).is_running
        fill(cluster, topic, 1, MANY_RECORDS)
        follower.follow(1, MANY_RECORDS)
        follower.begin()
        offset = 0
        while offset < MANY_RECORDS:
            offset = max((group.next_offset for group in follower.read(1, offset)), default=offset)
            assert asked[0] < MANY_RECORDS // FETCH_RECORDS / 2
            time.sleep(0.01)
        wait_until(lambda: asked[0] > 2, SECONDS, "it is asked again")
    finally:
        follower.close()


def test_a_thread_that_ended_is_noticed_where_all_is_read(
    tmp_path: Path, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of no more: whoever looks at the end, which rises no more, hears why."""
    cluster.create(topic, 1, 1)
    called = threading.Event()
    follower = KafkaFollower(tmp_path, KafkaAddress(cluster.addresses, topic), called.set)
    monkeypatch.setattr(follower, "_position", lambda: 1 / 0)
    try:
        follower.follow(0, 0)
        assert follower.end(0) == 0
        follower.begin()
        assert called.wait(SECONDS)
        with pytest.raises(JournalError, match="start again"):
            follower.end(0)
    finally:
        follower.close()


def fill(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    """Append records to one partition."""
    producer = Producer({"bootstrap.servers": cluster.addresses, "queue.buffering.max.messages": count})
    for number in range(count):
        producer.produce(topic, encode(a_record(number)), partition=partition)
    assert producer.flush(60) == 0


def test_what_retention_took_is_told(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    """A place below what is kept is an error of the port, and the start is told as soon as it is known."""
    address = KafkaAddress(cluster.addresses, topic)

    async def fill() -> None:
        appender = KafkaAppender(tmp_path, address, 1, retention_seconds=1, retention_bytes=1 << 40)
        appender.open()
        await appender.append([a_record(number) for number in range(10)])
        assert appender.retain(1 << 60) == 10
        await appender.close()

    asyncio.run(fill())
    loop = Loop(tmp_path, address)
    try:
        with pytest.raises(OffsetExpired):
            loop.ask(lambda: next(loop.reader.read(0, 3), None))
        assert loop.reader.start(0) == 0
        wait_until(lambda: loop.reader.start(0) == 10, SECONDS, "where the partition begins is known")
    finally:
        loop.reader.close()


def _is_away(loop: Loop) -> bool:
    """Ask for records far from each other: what was on its way when brokers stopped still comes."""
    for offset in range(RECORDS - 1, 1, -100):
        try:
            loop.reader.get(0, offset)
        except JournalFetching:
            return False
        except JournalAway:
            return True
    raise AssertionError("all records are at hand: there is nothing to ask brokers for")
