"""The consumers of a reader: what they read ahead is memory, and goes when nobody goes on from there."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.cursors import Cursor
from tests.kafka.cluster import Cluster
from tests.service.waiting import wait_until

MESSAGES, MESSAGE_BYTES = 30_000, 1_000
SECONDS = 60.0


class MemoryInUse(ctypes.Structure):
    """Hold what ``mallinfo2`` returns."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def memory_mb() -> float:
    """Return what is allocated in C."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = MemoryInUse
    found = mallinfo2()
    return float(found.uordblks + found.hblkhd) / 1e6


@pytest.fixture
def cursor(cluster: Cluster, topic: str) -> Iterator[Cursor]:
    """A consumer of a topic of two partitions, each with more than is read ahead."""
    admin = AdminClient({"bootstrap.servers": cluster.addresses})
    for made in admin.create_topics([NewTopic(topic, 2, 3)]).values():
        made.result(SECONDS)
    producer = Producer({"bootstrap.servers": cluster.addresses, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(MESSAGES):
        producer.produce(topic, b"x" * MESSAGE_BYTES, partition=number % 2)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    made = Cursor(KafkaAddress(cluster.addresses, topic))
    yield made
    made.close()


def test_what_was_read_ahead_goes_at_rest(cursor: Cursor) -> None:
    """The client keeps it until it is asked: with some consumers at rest these were a hundred megabytes."""
    first = memory_mb()
    for partition in (0, 1):
        cursor.position(partition, 0)
        run = cursor.take(MESSAGES, SECONDS)
        assert run is not None
        wait_until(lambda: memory_mb() > first + 8, SECONDS, "it is read ahead")
        assert memory_mb() < first + 40
    cursor.rest()
    assert memory_mb() < first + 4
