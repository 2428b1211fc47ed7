"""Retention against lanes that stand apart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.retention import LOOK_MS, Retention
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.segment import list_segments
from hookline.outcomes import positions
from hookline.settings import Bytes, Seconds
from hookline.settings import Retention as Limits
from tests.unit.control.running import record
from tests.unit.features.notices.conditions.moments import HOUR_MS, deliver_db, moment

DAY_SECONDS = 86_400.0
SEGMENT_BYTES = 65_536


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A journal of several segments, all received just now."""

    async def fill() -> None:
        appender = LocalAppender(
            tmp_path / "journal", retention_seconds=1e9, retention_bytes=2**40, segment_bytes=SEGMENT_BYTES
        )
        for number in range(40):
            await appender.append([record(f"m{number}", filler="x" * 8_000)])
        await appender.close()

    asyncio.run(fill())
    return tmp_path


def park(data: Path, next_offset: int, retry: int | None = None) -> None:
    """Write the lane's own row, and an older event that waits for a retry."""
    connection = deliver_db(data / "deliver.db")
    blob = positions.encode(positions.SavedCursor(False, ()))
    connection.execute("INSERT INTO lanes VALUES (1, 0, ?, 'open', ?)", (next_offset, blob))
    if retry is not None:
        connection.execute("INSERT INTO retries VALUES (1, 0, ?, 1, 0, 0, 31)", (retry,))
    connection.close()


def now_ms(data: Path, before_end_seconds: float, events_seconds: float) -> int:
    """The time so long before retention by age takes the first segment."""
    return int(data.joinpath("journal").stat().st_mtime * 1000 + (events_seconds - before_end_seconds) * 1000)


def look(data: Path, before_end_seconds: float, bytes_max: int = 2**40) -> list[Finding]:
    """What is found so long before the first segment goes by age (of 30 days)."""
    limits = Limits(events=Seconds(30 * DAY_SECONDS), bytes=Bytes(bytes_max))
    at_ms = now_ms(data, before_end_seconds, limits.events)
    condition = Retention(data, data / "deliver.db", limits, DAY_SECONDS, lambda: at_ms)
    try:
        return list(condition.findings(moment(None, "crm", now_ms=at_ms)) or ())
    finally:
        condition.close()


def test_a_day_ahead_by_age(data: Path) -> None:
    """Two days before the segment goes nothing is said, and less than a day before it the destination is named."""
    park(data, next_offset=0)
    assert look(data, 2 * DAY_SECONDS) == []
    (finding,) = look(data, DAY_SECONDS / 2)
    assert (finding.kind, finding.subject, finding.weak) == ("retention_near", "crm", False)


def test_an_older_retry_counts(data: Path) -> None:
    """The lane's place lies in the newest segment, which is never dropped; its oldest retry does not."""
    newest = list_segments(data / "journal" / "0")[-1]
    park(data, next_offset=newest)
    assert look(data, DAY_SECONDS / 2) == []
    connection = deliver_db(data / "deliver.db")
    connection.execute("INSERT INTO retries VALUES (1, 0, 0, 1, 0, 0, 31)")
    connection.close()
    assert [each.subject for each in look(data, DAY_SECONDS / 2)] == ["crm"]


def test_a_day_ahead_by_bytes(data: Path) -> None:
    """When the journal grows towards retention.bytes, the notice comes long before the age would say so."""
    park(data, next_offset=0)
    total = sum(path.stat().st_size for path in (data / "journal" / "0").glob("*.seg"))
    assert look(data, 29 * DAY_SECONDS, bytes_max=100 * total) == []
    assert [each.kind for each in look(data, 29 * DAY_SECONDS, bytes_max=total + SEGMENT_BYTES)] == ["retention_near"]


def test_an_attached_lane_is_not_at_risk(data: Path) -> None:
    """A row that only says which events of a new source are still to come names no other place."""
    connection = deliver_db(data / "deliver.db")
    attached = positions.encode(positions.SavedCursor(True, ()))
    connection.execute("INSERT INTO lanes VALUES (1, 0, 0, 'closed', ?)", (attached,))
    connection.close()
    assert look(data, DAY_SECONDS / 2) == []


def test_what_retention_took_is_told_for_a_day(data: Path) -> None:
    """Deliver's range record becomes a notice with the number of events it may have cost."""
    connection = deliver_db(data / "deliver.db")
    at = now_ms(data, 0, 0)
    connection.execute(
        "INSERT INTO ranges (lane, destination, partition, first_offset, last_offset, status, at)"
        " VALUES (1, 'crm', 0, 10, 19, 'expired_by_retention', ?), (1, 'crm', 0, 0, 9, 'discarded', ?)",
        (at, at),
    )
    connection.close()
    condition = Retention(data, data / "deliver.db", Limits(), 0, lambda: 0)
    (finding,) = condition.findings(moment(None, "crm", now_ms=at + HOUR_MS)) or ()
    assert (finding.kind, finding.subject, finding.count) == ("retention_passed", "crm", 10)
    assert condition.findings(moment(None, "crm", now_ms=at + 25 * HOUR_MS)) == []


def test_it_is_looked_for_now_and_then(data: Path) -> None:
    """Between two looks the answer stays, and a destination disabled meanwhile is not named."""
    start = now_ms(data, DAY_SECONDS / 2, Limits().events)
    clock = [start]
    condition = Retention(data, data / "deliver.db", Limits(), DAY_SECONDS, lambda: clock[0])
    park(data, next_offset=0)
    assert len(condition.findings(moment(None, "crm", now_ms=start)) or ()) == 1
    connection = deliver_db(data / "deliver.db")
    connection.execute("DELETE FROM lanes")
    connection.close()
    clock[0] += LOOK_MS - 1
    assert len(condition.findings(moment(None, "crm", now_ms=start)) or ()) == 1
    assert condition.findings(moment(None, now_ms=start)) == []
    clock[0] += 1
    assert condition.findings(moment(None, "crm", now_ms=start)) == []


def test_a_clock_that_was_set_is_no_danger(data: Path) -> None:
    """How long events are still kept does not follow the wall clock; the time that is told does."""
    park(data, next_offset=0)
    steady_ms = now_ms(data, DAY_SECONDS / 2, Limits().events)
    condition = Retention(data, data / "deliver.db", Limits(), DAY_SECONDS, lambda: steady_ms)
    (found,) = condition.findings(moment(None, "crm", now_ms=steady_ms - 40 * 24 * HOUR_MS)) or ()
    assert iso(steady_ms - 40 * 24 * HOUR_MS + 12 * HOUR_MS)[:13] in found.detail
    safe = Retention(data, data / "deliver.db", Limits(), DAY_SECONDS, lambda: steady_ms - 3 * 24 * HOUR_MS)
    assert safe.findings(moment(None, "crm", now_ms=steady_ms + 40 * 24 * HOUR_MS)) == []
