"""The time line over a real journal of several partitions: everything once, newest first, however it is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.record import Record, Rejection
from hookline.people.timeline import EVER, Ownership, Stored, Timeline
from tests.unit.people.memory_journal import NOW_MS, record

PARTITIONS = 3
PEOPLE = ("ann", "ben", "cid", "device", "shared")
ANN = Ownership(frozenset(("ann", "was ann")), {"device": (EVER,), "shared": ((0, 20),)})
"""Ann, who gave the shared device away at place 20 of partition 0."""


def by(number: int) -> Record:
    """The record with a number: of everybody in turn, a second after the one before."""
    who = PEOPLE[number % len(PEOPLE)]
    ids = {"anonymousId": who} if who in ("device", "shared") else {"userId": who}
    return msgspec.structs.replace(record("track", f"m{number}", event="Seen", **ids), received_at=NOW_MS + number)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[LocalReader]:
    """Records in three partitions; one of ann's was refused, one is a delete message about her."""

    async def append() -> None:
        folder, numbers = tmp_path / "journal", count()
        appender = LocalAppender(folder, PARTITIONS, retention_seconds=86_400, retention_bytes=1 << 30)
        for _ in range(12):
            await appender.append([by(next(numbers)) for _ in range(5)])
        refused = by(60)
        refused.rejection = Rejection("missing_event", "Say which event.")
        told = by(65)
        told.origin = "deletion"
        await appender.append([refused, told])
        await appender.close()

    asyncio.run(append())
    reader = LocalReader(tmp_path / "journal")
    yield reader
    reader.close()


def expected(journal: LocalReader) -> list[str]:
    """What is ann's, worked out from every record there is."""
    found = []
    for partition in journal.partitions():
        for group in journal.read(partition, 0):
            for offset, each in enumerate(group.records, group.first_offset):
                is_hers = each.user_key in ("ann", "device")
                is_hers |= each.user_key == "shared" and partition == 0 and offset < 20
                if is_hers and each.origin == "sdk":
                    found.append((each.received_at, each.message_id))
    return [message_id for _, message_id in sorted(found, reverse=True)]


def ids(found: list[Stored]) -> list[str]:
    """MessageIds in order."""
    return [stored.record.message_id for stored in found]


@pytest.mark.parametrize("limit", [1, 2, 7, 500])
def test_pages_follow_each_other_over_all_partitions(journal: LocalReader, tmp_path: Path, limit: int) -> None:
    """Whatever the size of a page: all of the person's records by when they were received, what was refused too."""
    timeline = Timeline(journal, tmp_path / "index")
    wanted, found, before = expected(journal), [], None
    for _ in range(len(wanted) + 2):
        page = timeline.page(ANN, limit, 60, before)
        assert len(page.found) <= limit
        found += ids(page.found)
        before = page.before
        if not before:
            break
    assert found == wanted
    assert before == {}


def test_a_search_that_has_no_time_goes_on_where_it_was(journal: LocalReader, tmp_path: Path) -> None:
    """With time for a few steps only each page is short, may be empty, and nothing is left out or comes twice."""
    ticks = count()
    timeline = Timeline(journal, tmp_path / "index", clock=lambda: float(next(ticks)))
    found, before, pages = [], None, 0
    while before != {}:
        page = timeline.page(ANN, 50, 9, before)
        found += ids(page.found)
        before, pages = page.before, pages + 1
        assert pages < 500
    assert found == expected(journal)
    assert pages > 5


def test_somebody_without_records_has_an_empty_time_line(journal: LocalReader, tmp_path: Path) -> None:
    """And it is known to be at its end."""
    nobody = Ownership(frozenset(("nobody",)), {})
    assert Timeline(journal, tmp_path / "index").page(nobody, 50, 60) == ([], {})


class Counted(tuple[tuple[int, int], ...]):
    """Stretches that count how many of them are looked at."""

    looked = 0

    def __getitem__(self, index: Any) -> Any:
        """Return one of them."""
        self.looked += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Refuse to be read through."""
        raise AssertionError("read through")


def test_a_device_that_changed_hands_often_is_looked_up() -> None:
    """Of the stretches that were somebody's a few are looked at, whichever one a record is in, or none."""
    stretches = Counted((first, first + 5) for first in range(0, 100_000, 10))
    hers = Ownership(frozenset(), {"device": stretches})
    event = record("track", "m", event="Seen", anonymousId="device")
    held = {position: hers.has(position, event) for position in (0, 4, 5, 50_004, 50_005, 99_994, 99_995, 1 << 40)}
    assert [position for position, is_hers in held.items() if is_hers] == [0, 4, 50_004, 99_994]
    assert stretches.looked <= len(held) * 20
