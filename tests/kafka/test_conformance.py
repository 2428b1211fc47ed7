"""The journal on Kafka keeps the journal port's contract, on three brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.journal.conformance import RETENTION_SECONDS, JournalConformance
from hookline.settings import Bytes, Journal, Retention, Seconds, Settings
from tests.kafka.cluster import Cluster


class TestKafkaJournal(JournalConformance):
    """Everything the port promises, with a topic of its own for each test."""

    @pytest.fixture
    def settings(self, tmp_path: Path, cluster: Cluster, topic: str) -> Settings:
        return Settings(
            data_dir=str(tmp_path),
            journal=Journal(url=f"kafka://{cluster.addresses}/{topic}"),
            retention=Retention(events=Seconds(RETENTION_SECONDS), bytes=Bytes(1 << 40)),
        )
