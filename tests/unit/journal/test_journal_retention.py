"""Retention: by age, by bytes, never the last segment, and idle journals too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hookline.journal.conformance import a_record
from hookline.journal.local.segment import list_segments, segment_name
from tests.unit.journal.conftest import SEGMENT_BYTES
from tests.unit.journal.stored import stored_ids


def test_bytes_are_held_within_the_limit(open_appender: Any, journal: Path) -> None:
    """The oldest segments go until what is left fits, whatever their age."""

    async def run() -> None:
        appender = open_appender(retention_bytes=3 * SEGMENT_BYTES)
        for number in range(100):
            await appender.append([a_record(number, body=b"x" * 8_000)])
        freed = appender.retain(0)
        await appender.close()
        assert freed > 0

    asyncio.run(run())
    assert len(list_segments(journal / "0")) == 3
    assert stored_ids(journal)[-1] == "m99"


def test_the_last_segment_stays_however_small_the_limit(open_appender: Any, journal: Path) -> None:
    """Retention never takes the segment that is written to."""

    async def run() -> None:
        appender = open_appender(retention_bytes=0)
        await appender.append([a_record(0)])
        assert appender.retain(1 << 50) == 0
        await appender.append([a_record(1)])
        await appender.close()

    asyncio.run(run())
    assert stored_ids(journal)[-1] == "m1"


def test_the_oldest_of_all_partitions_goes_first(open_appender: Any, journal: Path) -> None:
    """With several partitions the limit of bytes is common: the partition with the oldest segment gives it up."""
    users = {0: "u0", 1: "u1"}  # crc32 puts them into different partitions of two

    async def run() -> None:
        appender = open_appender(partitions=2, retention_bytes=5 * SEGMENT_BYTES)
        for number in range(80):
            age = 1_000 if number % 2 else 9_000
            await appender.append(
                [a_record(number, user=users[number % 2], received_at=age + number, body=b"x" * 8_000)]
            )
        appender.retain(0)
        await appender.close()

    asyncio.run(run())
    counts = sorted(len(list_segments(journal / str(partition))) for partition in (0, 1))
    assert counts[0] == 1
    assert counts[1] > 1


def test_a_quiet_journal_expires_as_well(open_appender: Any, journal: Path) -> None:
    """A segment that has been open for long is closed, though nearly empty, so that its records go in time."""

    async def run() -> None:
        appender = open_appender(retention_seconds=800.0)
        await appender.append([a_record(0, received_at=1_000)])
        assert appender.retain(200_000) == 0
        await appender.append([a_record(1, received_at=201_000)])
        closed = journal / "0" / segment_name(0)
        assert closed.stat().st_size < 1_000
        assert appender.retain(1_000 + 800_001) > 0
        await appender.close()

    asyncio.run(run())
    assert stored_ids(journal) == ["m1"]


def test_a_kept_torn_tail_goes_with_its_segment(open_appender: Any, journal: Path) -> None:
    """What recovery set aside is not kept longer than the segment it came from."""

    async def run() -> None:
        appender = open_appender(retention_bytes=1)
        for number in range(30):
            await appender.append([a_record(number, body=b"x" * 8_000)])
        cut = journal / "0" / segment_name(0).replace(".seg", ".cut")
        cut.write_bytes(b"torn")
        appender.retain(0)
        assert not cut.exists()
        await appender.close()

    asyncio.run(run())
