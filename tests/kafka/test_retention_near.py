"""The notice a day before retention takes what a destination waits for, where the journal is a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from hookline.database.open import open_deliver
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.retention import LOOK_MS, Retention
from hookline.journal.conformance import a_record
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.appender import KafkaAppender
from hookline.outcomes import positions
from hookline.settings import Retention as Limits
from hookline.settings import Seconds
from tests.kafka.cluster import Cluster
from tests.unit.features.notices.conditions.moments import HOUR_MS, NOW_MS, moment

DAY_MS = 24 * HOUR_MS
STEADY_MS = [NOW_MS]
"""The service's own clock, as a test sets it."""
RECORDS = 20
"""One for every hour, the first ``RECORDS`` hours ago."""


@pytest.fixture
def address(tmp_path: Path, cluster: Cluster, topic: str) -> KafkaAddress:
    """A topic of a data folder, with records."""
    address = KafkaAddress(cluster.addresses, topic)

    async def fill() -> None:
        appender = KafkaAppender(tmp_path / "journal", address, 1, retention_seconds=1e9, retention_bytes=1 << 40)
        appender.open()
        hours = range(RECORDS, 0, -1)
        await appender.append([a_record(n, received_at=NOW_MS - hour * HOUR_MS) for n, hour in enumerate(hours)])
        await appender.close()

    asyncio.run(fill())
    (tmp_path / "journal" / "kafka").write_text(address.note)
    return address


@pytest.fixture
def condition_of(tmp_path: Path, address: KafkaAddress) -> Iterator[Callable[..., Retention]]:
    """Makes the condition: events are kept for so many days, the destination crm stands at an offset."""
    made: list[Retention] = []

    def make(days: float, offset: int) -> Retention:
        deliver = open_deliver(tmp_path / "deliver.db")
        blob = positions.encode(positions.SavedCursor(False, ()))
        deliver.execute("INSERT INTO lanes VALUES (1, 0, ?, 'open', ?)", (offset, blob))
        deliver.close()
        limits = Limits(events=Seconds(days * DAY_MS / 1000))
        made.append(Retention(tmp_path, tmp_path / "deliver.db", limits, DAY_MS / 1000, lambda: STEADY_MS[0]))
        return made[-1]

    yield make
    for each in made:
        each.close()


def look(condition: Retention, after_ms: int = 0) -> list[tuple[str, str, bool]]:
    """What is found so long from now."""
    STEADY_MS[0] = NOW_MS + after_ms
    found: Sequence[Finding] = condition.findings(moment(None, "crm", now_ms=NOW_MS + after_ms)) or ()
    return [(each.kind, each.subject, each.weak) for each in found]


def test_by_age(condition_of: Callable[..., Retention]) -> None:
    """The oldest event that waits is 20 hours old: with three days to keep it nothing is said before two are over."""
    condition = condition_of(days=3, offset=0)
    assert look(condition) == []
    assert look(condition, 2 * DAY_MS - 21 * HOUR_MS) == [("retention_near", "crm", True)]
    assert look(condition, 2 * DAY_MS - 19 * HOUR_MS) == [("retention_near", "crm", False)]


def test_a_place_further_on_has_more_time(condition_of: Callable[..., Retention]) -> None:
    """It is asked of the event that waits, not of the oldest one there is."""
    condition = condition_of(days=3, offset=15)
    assert look(condition, 2 * DAY_MS - 19 * HOUR_MS) == []
    assert look(condition, 2 * DAY_MS - 4 * HOUR_MS) == [("retention_near", "crm", False)]


def test_by_bytes(condition_of: Callable[..., Retention], address: KafkaAddress) -> None:
    """Brokers drop events that are hours old where they might stay for a month: what waits goes within hours."""
    condition = condition_of(days=30, offset=12)
    assert look(condition) == []
    admin = AdminClient({"bootstrap.servers": address.servers, "log_level": 0})
    for dropped in admin.delete_records([TopicPartition(address.topic, 0, 10)]).values():
        dropped.result(30)
    assert look(condition, LOOK_MS) == [("retention_near", "crm", False)]
