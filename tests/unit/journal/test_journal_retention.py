"""Retention: by age, by bytes, never the last segment, and idle journals too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.disk import Disk
from hookline.journal.local.retention import LocalForecast
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.port import JournalFull, Needed, partition_of
from hookline.settings import Retention
from tests.unit.journal.conftest import SEGMENT_BYTES, FaultyDisk
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


def test_a_segment_of_which_nothing_can_be_read_is_foreseen_to_go_with_the_next(
    open_appender: Any, journal: Path
) -> None:
    """It was foreseen for 1970: a notice said that what waits in it is removed, and could not be helped."""

    async def run() -> None:
        appender = open_appender()
        for number in range(30):
            await appender.append([a_record(number, body=b"x" * 8_000)])
        await appender.close()

    asyncio.run(run())
    first, second, *_ = list_segments(journal / "0")
    path = journal / "0" / segment_name(first)
    path.write_bytes(bytes(path.stat().st_size))
    now_ms = a_record(0).received_at
    removed_ms = LocalForecast(journal, Retention(events=3600.0)).look(now_ms, now_ms)
    assert removed_ms(0, first) == removed_ms(0, second) == a_record(0).received_at + 3_600_000


def test_a_segment_of_which_nothing_can_be_read_is_as_old_as_the_next(open_appender: Any, journal: Path) -> None:
    """It went at once, as if it were from 1970, with whatever might have been saved of it."""
    received_at = a_record(0).received_at

    async def run() -> None:
        appender = open_appender(retention_seconds=1.0)
        for number in range(30):
            await appender.append([a_record(number, body=b"x" * 8_000)])
        segments = list_segments(journal / "0")
        for first in segments[:2]:
            path = journal / "0" / segment_name(first)
            path.write_bytes(bytes(path.stat().st_size))
        assert appender.retain(received_at + 500) == 0
        assert list_segments(journal / "0") == segments
        assert appender.retain(received_at + 1_500) > 0
        assert list_segments(journal / "0") == segments[-1:]
        await appender.close()

    asyncio.run(run())


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


def test_an_old_segment_goes_on_while_there_is_no_room_for_another(
    open_appender: Any, journal: Path, disk: FaultyDisk
) -> None:
    """It was to be closed for its age, and everything was refused, though it had room for all. It is closed once there
    is room for the next one."""
    now = [100.0]

    async def run() -> None:
        appender = open_appender(disk=disk, retention_seconds=800, clock=lambda: now[0])
        await appender.append([a_record(0, received_at=1_000)])
        disk.free = 0
        appender.retain(1_000 + 101_000)
        await appender.append([a_record(1, received_at=102_000)])
        with pytest.raises(JournalFull):
            await appender.append([a_record(n, received_at=102_000, body=b"x" * 9_000) for n in range(9)])
        assert list_segments(journal / "0") == [0]
        disk.free, now[0] = 1 << 40, now[0] + 2
        appender.retain(1_000 + 102_000)
        await appender.append([a_record(2, received_at=103_000)])
        assert list_segments(journal / "0") == [0, 2]
        await appender.close()

    asyncio.run(run())


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


OLD_MS, YOUNG_MS, WINDOW_MS = 1_000, 50_000, 10_000
"""When records of a test were received, and how long working lanes may insist on them."""


def retained(open_appender: Any, journal: Path, needed: dict[str, int], received_at: int, segments_max: int) -> int:
    """The first offset that is kept of a hundred records, by what is needed from which offset on."""

    async def run() -> None:
        appender = open_appender(retention_seconds=1e6, retention_bytes=segments_max * SEGMENT_BYTES)
        for number in range(100):
            await appender.append([a_record(number, received_at=received_at, body=b"x" * 8_000)])
        waits = Needed({0: needed["working"]}, {0: needed.get("held", 1 << 60)}, YOUNG_MS - WINDOW_MS)
        appender.retain(YOUNG_MS, waits)
        assert appender.insisted_bytes(waits) <= appender.stored_bytes()
        await appender.close()

    asyncio.run(run())
    return list_segments(journal / "0")[0]


def test_what_nobody_waits_for_goes_by_bytes(open_appender: Any, journal: Path) -> None:
    """As before: the oldest segments, until the rest fits."""
    assert retained(open_appender, journal, {"working": 100}, YOUNG_MS, 3) > 50


def test_what_only_held_lanes_wait_for_goes_too(open_appender: Any, journal: Path) -> None:
    """A dead receiver never stops intake: its events go, however young."""
    assert retained(open_appender, journal, {"working": 100, "held": 0}, YOUNG_MS, 3) > 50


def test_what_working_lanes_wait_for_stays(open_appender: Any, journal: Path) -> None:
    """Within the retry window nothing of it goes, whatever it comes to; what is before it does."""
    kept = retained(open_appender, journal, {"working": 40}, YOUNG_MS, 3)
    assert 30 < kept <= 40


def test_between_two_segments_nothing_is_counted_twice(
    open_appender: Any, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a new segment is made durable, the full one before it is asked for: counted twice it refused everybody."""
    found: list[tuple[int, int]] = []

    async def run() -> None:
        appender = open_appender()
        waits = Needed({0: 0}, {0: 1 << 60}, 0)
        written = 0
        sync_folder = Disk.sync_folder

        def asked(disk: Disk, folder: Path) -> None:
            found.append((appender.insisted_bytes(waits), written))
            sync_folder(disk, folder)

        monkeypatch.setattr(Disk, "sync_folder", asked)
        for number in range(100):
            await appender.append([a_record(number, received_at=YOUNG_MS, body=b"x" * 8_000)])
            written = appender.stored_bytes()
        await appender.close()

    asyncio.run(run())
    assert len(found) > 5
    assert [insisted for insisted, _ in found] == [written for _, written in found]


def test_beyond_the_window_it_goes(open_appender: Any, journal: Path) -> None:
    """What has been waited for that long no longer keeps new events out."""
    assert retained(open_appender, journal, {"working": 0}, OLD_MS, 3) > 50


def test_partitions_give_first_what_nobody_waits_for(open_appender: Any, journal: Path) -> None:
    """Although what a held lane waits for is older in another partition."""
    users = [next(f"u{n}" for n in range(100) if partition_of(f"u{n}", 2) == number) for number in range(2)]

    async def run() -> None:
        appender = open_appender(partitions=2, retention_seconds=1e6, retention_bytes=8 * SEGMENT_BYTES)
        for number in range(100):
            received_at = YOUNG_MS if number % 2 else OLD_MS
            given = a_record(number, user=users[number % 2], received_at=received_at, body=b"x" * 8_000)
            await appender.append([given])
        appender.retain(YOUNG_MS, Needed({0: 100, 1: 100}, {0: 0}, YOUNG_MS))
        await appender.close()

    asyncio.run(run())
    assert list_segments(journal / "0")[0] == 0
    assert list_segments(journal / "1")[0] > 0


def test_a_clock_that_was_set_ages_nothing(open_appender: Any, journal: Path) -> None:
    """Records received under a clock of 1970, or one 40 days ahead, are as old as the service's own clock says."""
    day_ms = 86_400_000
    steady_ms = 20_000 * day_ms

    async def run() -> None:
        appender = open_appender(retention_seconds=30 * 86_400.0, steady_ms=lambda: steady_ms)
        for received_at in (1_000, steady_ms + 40 * day_ms, steady_ms):
            for number in range(10):
                await appender.append([a_record(number, received_at=received_at, body=b"x" * 8_000)])
        assert len(list_segments(journal / "0")) > 2
        assert appender.retain(steady_ms + 29 * day_ms) == 0
        assert appender.retain(steady_ms + 31 * day_ms) > 0
        await appender.close()

    asyncio.run(run())
    assert len(list_segments(journal / "0")) == 1
