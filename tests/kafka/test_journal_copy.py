"""A local journal on its way to a topic: every record at its offset, whatever happened to it before and meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from hookline.journal.conformance import a_record, records_of
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.local.appender import SEGMENT_BYTES_MIN, LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.settings import Journal, Settings
from hookline.transfer import journal_copy
from hookline.transfer.journal_copy import JournalCopy, partition_count
from hookline.transfer.state import MoveFailed, load
from tests.kafka.cluster import Cluster

PARTITIONS = 2
RETENTION_SECONDS = 1_000.0
YOUNG_MS = 10_000_000


class Moving:
    """A local journal of two partitions and its copy."""

    def __init__(self, folder: Path, cluster: Cluster, topic: str) -> None:
        self.old = folder / "old" / "journal"
        self.address = KafkaAddress(cluster.addresses, topic)
        journal = Journal(url=self.address.url, partitions=PARTITIONS)
        self._settings = Settings(data_dir=str(folder / "new"), journal=journal)
        self.said: list[str] = []
        self._number = 0

    def append(self, count: int, received_at: int = YOUNG_MS) -> None:
        """Append so many records of several users."""

        async def use(appender: LocalAppender) -> None:
            for _ in range(count):
                self._number += 1
                record = a_record(
                    self._number, user=f"u{self._number % 7}", received_at=received_at, body=b'{"a":1}' * 40
                )
                await appender.append([record])

        self.with_appender(use)

    def with_appender(self, use: Callable[[LocalAppender], Awaitable[None]]) -> None:
        """Do something with the journal's appender."""

        async def run() -> None:
            appender = LocalAppender(
                self.old,
                PARTITIONS,
                retention_seconds=RETENTION_SECONDS,
                retention_bytes=1 << 40,
                segment_bytes=SEGMENT_BYTES_MIN,
            )
            try:
                await use(appender)
            finally:
                await appender.close()

        asyncio.run(run())

    def copy(self) -> JournalCopy:
        """The copy, begun or taken up."""
        data = self._settings.data_path
        made = JournalCopy(
            self.old, self._settings, self.address, load(data, self.old.parent, self.address.url), self.said.append
        )
        made.open()
        return made

    def check_same(self) -> None:
        """Hold both journals together: starts, ends, and every record but the bytes of erased ones."""
        local, copied = LocalReader(self.old), KafkaReader(self._settings.data_path / "journal", self.address)
        for number in range(PARTITIONS):
            start, end = local.start(number), local.end(number)
            assert (copied.start(number), copied.end(number)) == (start, end)
            mine = records_of(list(local.read(number, start)))
            theirs = records_of(list(copied.read(number, start)))
            assert [record.erased for record in theirs] == [record.erased for record in mine]
            assert [record for record in theirs if not record.erased] == [r for r in mine if not r.erased]
        local.close()
        copied.close()


@pytest.fixture
def moving(tmp_path: Path, cluster: Cluster, topic: str) -> Moving:
    """A journal to move."""
    return Moving(tmp_path, cluster, topic)


def settle(old: Path) -> None:
    """Have segments look as if they were written long ago."""
    for path in old.glob("*/*.seg"):
        os.utime(path, (time.time() - 60, time.time() - 60))


def test_every_record_has_the_same_offset_although_the_journal_begins_late(moving: Moving) -> None:
    """Retention took the first segments of both partitions; more records come while it is copied."""
    moving.append(1_500, received_at=1_000)
    moving.append(1_500)
    moving.with_appender(_retain)
    local = LocalReader(moving.old)
    assert min(local.start(number) for number in range(PARTITIONS)) > 0
    local.close()
    copy = moving.copy()
    assert copy.fill() == 3_000
    moving.append(200)
    assert copy.behind() == 200
    assert copy.fill() == 200
    copy.finish()
    copy.close()
    moving.check_same()


def test_what_is_erased_before_and_after_it_was_copied_is_erased(moving: Moving) -> None:
    """A segment that was written since it was copied is looked through again."""
    moving.append(1_000)
    moving.with_appender(_erase(0, [3, 5]))
    settle(moving.old)
    copy = moving.copy()
    copy.fill()
    moving.with_appender(_erase(0, [7, 300]))
    moving.with_appender(_erase(1, [0]))
    copy.fill()
    copy.finish()
    copy.close()
    moving.check_same()


def test_an_interrupted_copy_goes_on_where_the_topic_ends(moving: Moving) -> None:
    """Another process copies only what is not there."""
    moving.append(300)
    first = moving.copy()
    first.fill()
    first.close()
    moving.append(50)
    second = moving.copy()
    assert second.fill() == 50
    second.finish()
    second.close()
    moving.check_same()


def test_what_brokers_dropped_of_the_topic_is_not_copied_again(moving: Moving) -> None:
    """They keep nothing longer than retention says; a local journal keeps its last segment, as of a partition in which
    nothing comes. All of it was copied once more, while the service was stopped."""
    moving.append(300)
    copy = moving.copy()
    copy.fill()
    admin = AdminClient(moving.address.client())
    ends = [TopicPartition(moving.address.topic, number, end) for number, end in copy.ends().items()]
    for dropped in admin.delete_records(ends).values():
        dropped.result(10.0)
    moving.append(20)
    assert copy.fill() == 20
    copy.close()
    assert not any("filled again" in line for line in moving.said)


@pytest.mark.parametrize("is_listed_still", [False, True])
def test_a_message_at_a_wrong_place_has_the_topic_filled_anew(
    moving: Moving, is_listed_still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of a killed copy that a broker took late; also where one broker lists the removed topic a moment
    longer than another."""
    moving.append(300)
    first = moving.copy()
    first.fill()
    first.close()
    moving.append(50)
    _produce(moving.address)
    second = moving.copy()
    answers: list[int] = []

    def asked(address: KafkaAddress) -> int:
        answers.append(2 if is_listed_still and answers[-1:] == [0] else partition_count(address))
        return answers[-1]

    monkeypatch.setattr(journal_copy, "partition_count", asked)
    assert second.fill() == 350
    second.finish()
    second.close()
    assert any("filled again" in line for line in moving.said)
    moving.check_same()


def test_a_topic_that_holds_something_is_left_alone(moving: Moving) -> None:
    """Places would be other ones in it."""
    moving.append(10)
    copy = moving.copy()
    copy.fill()
    copy.close()
    (moving.old.parent.parent / "new" / "moving").unlink()
    with pytest.raises(MoveFailed, match="is not empty"):
        moving.copy()


async def _retain(appender: LocalAppender) -> None:
    assert appender.retain(YOUNG_MS) > 0


def _erase(partition: int, offsets: list[int]) -> Callable[[LocalAppender], Awaitable[None]]:
    async def use(appender: LocalAppender) -> None:
        assert appender.erase(partition, offsets) == len(offsets)

    return use


def _produce(address: KafkaAddress) -> None:
    producer = Producer(address.client())
    producer.produce(address.topic, b"late", partition=0)
    producer.flush()
    producer.close()
