"""The journal on Kafka keeps the journal port's contract, on three brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.journal.conformance import RETENTION_SECONDS, Backend, JournalConformance
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.appender import KafkaAppender
from hookline.journal.kafka.reader import KafkaReader
from tests.kafka.cluster import Cluster


class KafkaBackend:
    """A topic of its own for each test."""

    def __init__(self, folder: Path, address: KafkaAddress) -> None:
        self._folder = folder
        self._address = address

    def appender(self, partitions: int = 1) -> KafkaAppender:
        appender = KafkaAppender(
            self._folder, self._address, partitions, retention_seconds=RETENTION_SECONDS, retention_bytes=1 << 40
        )
        appender.open()
        return appender

    def reader(self) -> KafkaReader:
        return KafkaReader(self._folder, self._address)

    def fill_bytes(self) -> int:
        return 1024 * 1024


class TestKafkaJournal(JournalConformance):
    """Everything the port promises."""

    @pytest.fixture
    def backend(self, tmp_path: Path, cluster: Cluster, topic: str) -> Backend:
        return KafkaBackend(tmp_path / "journal", KafkaAddress(cluster.addresses, topic))
