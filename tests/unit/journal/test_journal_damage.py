"""What a reader still finds when the disk, or somebody, has changed bytes of a journal that is being read."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.damaged import noted_damage
from hookline.journal.local import disk
from hookline.journal.local.appender import ERASE_REST_SECONDS
from hookline.journal.local.disk import PAGE_BYTES, EndFile
from hookline.journal.local.erase import INTENT_NAME
from hookline.journal.local.partition_reader import LocalReader, PartitionReader
from hookline.journal.local.retention import last_received_at
from hookline.journal.local.segment import GROUP_HEADER_BYTES, SEGMENT_HEADER_BYTES, list_segments, segment_name
from hookline.journal.port import JournalAway, JournalCorrupt, JournalError, OffsetExpired
from hookline.journal.reading import read_on
from tests.unit.journal.conftest import BadPages, FaultyDisk
from tests.unit.journal.stored import stored_records


class Unwritable(FaultyDisk):
    """Does not take what is written over the data of one file."""

    inode = 0

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        if os.fstat(fd).st_ino == self.inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pwritev(fd, buffers, position)


COUNT = 60
PER_GROUP = 5
SAMPLES = int(os.environ.get("HOOKLINE_TEST_FLIPS", 60))
"""How many places are flipped in turn, and as many heads of groups and segments. A sweep of all takes an hour."""


@pytest.fixture
def stored(open_appender: Any, journal: Path) -> Path:
    """The folder of a partition with records m0, m1, … in several segments, 5 in a group."""
    asyncio.run(_fill(open_appender))
    return journal / "0"


async def _fill(open_appender: Any) -> None:
    appender = open_appender()
    for first in range(0, COUNT, PER_GROUP):
        await appender.append([a_record(n, body=b"%05d" % n * 600) for n in range(first, first + PER_GROUP)])
    await appender.close()


@contextmanager
def flipped(path: Path, position: int) -> Iterator[None]:
    """One bit of a file is the other way round."""
    _flip(path, position)
    try:
        yield
    finally:
        _flip(path, position)


def _flip(path: Path, position: int) -> None:
    with path.open("r+b", buffering=0) as file:
        (byte,) = os.pread(file.fileno(), 1, position)
        os.pwrite(file.fileno(), bytes([byte ^ 4]), position)


def positions_in(folder: Path) -> list[tuple[Path, int, int]]:
    """Every place of a segment that holds something, with the first offset of its group, -1 for the segment's head."""
    found: list[tuple[Path, int, int]] = []
    with closing(PartitionReader(folder)) as reader:
        for group, _ in reader.locate(range(0, COUNT, PER_GROUP)):
            path = folder / segment_name(group.segment_first_offset)
            end = group.position + group.header.size_bytes
            found += [(path, at, group.header.first_offset) for at in range(group.position, end)]
    found += [
        (folder / segment_name(each), at, -1) for each in list_segments(folder) for at in range(SEGMENT_HEADER_BYTES)
    ]
    return found


def sample(places: list[tuple[Path, int, int]]) -> list[tuple[Path, int, int]]:
    """Some of the places, heads of groups and of segments more often than their share."""
    heads = [
        each for i, each in enumerate(places) if each[2] < 0 or each[2] != places[max(0, i - GROUP_HEADER_BYTES)][2]
    ]
    return [each for some in (places, heads) for each in Random(26).sample(some, min(SAMPLES, len(some)))]


def test_a_flip_takes_one_group_from_whoever_reads(stored: Path) -> None:
    """Wherever it is, reading forwards, backwards, one by one and by content finds all that is in other groups."""
    for path, position, first in sample(positions_in(stored)):
        with flipped(path, position), closing(LocalReader(stored.parent)) as reader:
            left = [n for n in range(COUNT) if first < 0 or not first <= n < first + PER_GROUP]
            check_reading(reader, left, f"byte {position} of {path.name}")


def check_reading(reader: LocalReader, left: list[int], where: str) -> None:
    """Reading forwards, backwards, one by one and by content finds exactly these."""
    ids = [f"m{n}" for n in left]
    assert [r.message_id for g in read_on(reader, 0, 0, COUNT) for r in g.records] == ids, where
    back = [r.message_id for g in reader.read_backwards(0, COUNT) for r in reversed(g.records)]
    assert back[::-1] == ids, where
    assert [r.message_id for n in range(COUNT) if (r := reader.get(0, n)) is not None] == ids, where
    texts = [a_record(n).fingerprint for n in range(COUNT)]
    held = [r.message_id for g in reader.holding(0, texts, 0, COUNT) for r in g.records]
    assert held == ids, where


def lost_with(folder: Path, bad: Path, page: int) -> set[int]:
    """The offsets whose group has something in this page of a segment."""
    with closing(PartitionReader(folder)) as reader:
        return {
            offset
            for group, offsets in reader.locate(range(COUNT))
            if segment_name(group.segment_first_offset) == bad.name
            and group.position < (page + 1) * PAGE_BYTES
            and group.position + group.header.size_bytes > page * PAGE_BYTES
            for offset in offsets
        }


@pytest.mark.parametrize("segment", [0, 1, -1])
def test_a_page_that_the_disk_cannot_read_is_damage_like_any_other(
    stored: Path, bad_pages: BadPages, segment: int
) -> None:
    """It ended whoever came to it, and they came to it again."""
    path = stored / segment_name(list_segments(stored)[segment])
    written = [each for each, position, _ in positions_in(stored) if each == path]
    for page in range(len(written) // PAGE_BYTES):
        lost = lost_with(stored, path, page)
        bad_pages.add(path, page * PAGE_BYTES)
        with closing(LocalReader(stored.parent)) as reader:
            check_reading(reader, [n for n in range(COUNT) if n not in lost], f"page {page} of {path.name}")
        assert last_received_at(path) > 0
        bad_pages.mend()


@pytest.mark.parametrize("page", [0, 1, 4])
def test_a_journal_opens_on_a_page_that_the_disk_cannot_read(
    stored: Path, open_appender: Any, bad_pages: BadPages, page: int
) -> None:
    """A map of it ended collect without a word. What is stored from then on is in a segment of its own."""
    path = stored / segment_name(list_segments(stored)[-1])
    lost = lost_with(stored, path, page)
    bad_pages.add(path, page * PAGE_BYTES)

    async def run() -> None:
        appender = open_appender()
        assert sum(recovery.damaged_records for recovery in appender.recovered) == len(lost)
        await appender.append([a_record(COUNT)])
        await appender.close()

    asyncio.run(run())
    assert list_segments(stored)[-1] == COUNT
    with closing(LocalReader(stored.parent)) as reader:
        found = [r.message_id for g in read_on(reader, 0, 0, COUNT + 1) for r in g.records]
    assert found == [f"m{n}" for n in range(COUNT + 1) if n not in lost]


def test_a_disk_that_reads_nothing_takes_no_event_away(stored: Path, bad_pages: BadPages) -> None:
    """It may be back in a moment, with all that it holds: nothing is passed over, and nothing noted."""
    for first in list_segments(stored):
        bad_pages.add(stored / segment_name(first))
    with closing(LocalReader(stored.parent)) as reader:
        with pytest.raises(JournalAway):
            list(read_on(reader, 0, 0, COUNT))
        bad_pages.mend()
        assert noted_damage(stored.parent) == []
        check_reading(reader, list(range(COUNT)), "a disk that is back")


@pytest.mark.parametrize("name", ["end", "start"])
def test_a_note_of_a_partition_on_a_bad_sector_is_made_anew(
    stored: Path, open_appender: Any, bad_pages: BadPages, name: str
) -> None:
    """Collect ended as often as it was started, and readers by SIGBUS. Until collect has come, readers wait for it."""
    held = stored.parent / "held"
    held.hardlink_to(stored / name)
    bad_pages.add(stored / name)
    reader = LocalReader(stored.parent)
    assert reader.end(0) == (0 if name == "end" else COUNT)

    async def run() -> None:
        appender = open_appender()
        assert (appender.recovered, appender.ends()) == ((), {0: COUNT})
        await appender.close()

    asyncio.run(run())
    with closing(reader):
        assert (reader.start(0), reader.end(0)) == (0, COUNT)
        check_reading(reader, list(range(COUNT)), name)
    assert held.stat().st_nlink == 1


def test_a_small_segment_in_one_bad_place_is_damage(open_appender: Any, journal: Path, bad_pages: BadPages) -> None:
    """It was taken for a disk that reads nothing, for it has no other place: its partition stood still for good."""

    async def run() -> None:
        appender = open_appender(retention_seconds=1.0, steady_ms=lambda: 0)
        await appender.append([a_record(0)])
        appender.retain(1_000_000)
        await appender.append([a_record(1)])
        await appender.close()

    asyncio.run(run())
    first, _ = list_segments(journal / "0")
    path = journal / "0" / segment_name(first)
    assert path.stat().st_size < PAGE_BYTES
    bad_pages.add(path)
    with closing(LocalReader(journal)) as reader:
        assert [r.message_id for g in read_on(reader, 0, 0, 2) for r in g.records] == ["m1"]
    assert [(each.first, each.next) for each in noted_damage(journal)] == [(0, 1)]


@pytest.fixture
def waits(bad_pages: BadPages, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long places were waited for that could not be read."""
    waited: list[float] = []
    monkeypatch.setattr(disk, "REREAD_SECONDS", (77.0, 88.0))
    monkeypatch.setattr(time, "sleep", lambda seconds: waited.append(seconds) if seconds > 1 else None)
    return waited


def test_a_bad_place_is_waited_for_once(stored: Path, bad_pages: BadPages, waits: list[float]) -> None:
    """Readers stand on event loops: each of four reads of a place, by each reader, held one up for most of a second."""
    bad_pages.add(stored / segment_name(0), PAGE_BYTES)
    for _ in range(2):
        with closing(LocalReader(stored.parent)) as reader:
            list(read_on(reader, 0, 0, COUNT))
    assert waits == [77.0, 88.0]


def test_a_disk_that_reads_nothing_holds_up_nobody(stored: Path, bad_pages: BadPages, waits: list[float]) -> None:
    """Who reads looks again anyway."""
    for first in list_segments(stored):
        bad_pages.add(stored / segment_name(first))
    with closing(LocalReader(stored.parent)) as reader, pytest.raises(JournalAway):
        list(read_on(reader, 0, 0, COUNT))
    assert waits == []


def test_records_are_found_past_damage_that_was_not_met_before(stored: Path) -> None:
    """Whoever asks for one record alone does not depend on the groups before it being whole."""
    for path, position, first in sample(positions_in(stored)):
        number = Random(position).randrange(COUNT)
        with flipped(path, position), closing(LocalReader(stored.parent)) as reader:
            record = reader.get(0, number)
        is_damaged = first >= 0 and first <= number < first + PER_GROUP
        assert (record is None) if is_damaged else (record is not None and record.message_id == f"m{number}")


@pytest.mark.parametrize("looks_up", [False, True], ids=["reading on", "looking up"])
def test_damage_at_the_end_of_a_segment_costs_a_follower_that_group_alone(
    open_appender: Any, journal: Path, looks_up: bool
) -> None:
    """Though it has not heard yet of the segments that were begun behind it."""

    def read_all(reader: LocalReader) -> list[int]:
        return [group.first_offset for group in read_on(reader, 0, 0, reader.end(0))]

    async def run() -> None:
        appender = open_appender()
        await appender.append([a_record(0, body=b"x" * 10_000)])
        with closing(LocalReader(journal)) as reader:
            assert reader.get(0, 0) is not None
            for number in range(1, 30):
                await appender.append([a_record(number, body=b"x" * 10_000)])
            first, second, *_ = list_segments(journal / "0")
            damaged = second - 1
            with closing(LocalReader(journal)) as other:
                ((group, _),) = other.locate(0, [damaged])
            _flip(journal / "0" / segment_name(first), group.position + GROUP_HEADER_BYTES + 500)
            found = [offset for offset, _ in reader.get_all(0, range(30))] if looks_up else read_all(reader)
            assert found == [number for number in range(30) if number != damaged]
        await appender.close()

    asyncio.run(run())


def test_a_flip_in_the_end_file_changes_nothing(stored: Path) -> None:
    """The end that readers believe is what two of its three copies say."""
    for position in range((stored / "end").stat().st_size):
        with flipped(stored / "end", position), closing(LocalReader(stored.parent)) as reader:
            assert reader.end(0) == COUNT


def test_an_end_file_that_says_anything_is_put_right(stored: Path, open_appender: Any) -> None:
    """What no two copies agree on, or no journal gets to, is found anew by opening; nothing is lost or left out."""
    for content in (b"\xff" * 24, bytes(24), b"", Random(1).randbytes(24), COUNT.to_bytes(8, "little"), b"\1" * 12):
        (stored / "end").write_bytes(content)
        asyncio.run(open_appender().close())
        with closing(EndFile(stored / "end")) as end:
            assert end.value == COUNT


def test_a_lost_segment_is_told_as_lost(stored: Path) -> None:
    """Whether it was the first, one in the middle or the last: its offsets are missing, not expired."""
    firsts = list_segments(stored)
    for index, first in enumerate(firsts):
        path = stored / segment_name(first)
        after = firsts[index + 1] if index + 1 < len(firsts) else COUNT
        path.rename(path.with_suffix(".away"))
        lost: list[JournalCorrupt | OffsetExpired] = []
        with closing(LocalReader(stored.parent)) as reader:
            left = [r.message_id for g in read_on(reader, 0, 0, COUNT, on_lost=lost.append) for r in g.records]
            assert left == [f"m{n}" for n in range(COUNT) if not first <= n < after]
            assert reader.start(0) == 0
        (error,) = lost
        assert isinstance(error, JournalCorrupt)
        assert (error.segment, error.offset, error.next_offset) == (path.name, first, after)
        assert "is missing" in str(error)
        path.with_suffix(".away").rename(path)


def test_what_retention_took_is_not_lost(stored: Path, open_appender: Any) -> None:
    """The journal notes where it begins before it drops a segment, so what is below has expired."""
    appender = open_appender(retention_bytes=1)
    asyncio.run(_retain(appender))
    with closing(LocalReader(stored.parent)) as reader:
        start = reader.start(0)
        assert start == list_segments(stored)[0] > 0
        with pytest.raises(OffsetExpired):
            next(reader.read(0, 0))


async def _retain(appender: Any) -> None:
    appender.retain(10**15)
    await appender.close()


def test_a_flip_makes_no_segment_older(stored: Path) -> None:
    """The age of a segment is that of its last intact group: a changed time or length expires nothing."""
    newest = segment_name(list_segments(stored)[-1])
    for path, position, _ in sample(positions_in(stored)):
        with flipped(path, position):
            assert path.name == newest or last_received_at(path) == a_record(0).received_at, (
                f"byte {position} of {path.name}"
            )


def test_what_cannot_be_overwritten_keeps_nobody_from_appending(open_appender: Any, journal: Path) -> None:
    """Collect ended, and with the note of the erasure it ended at each start. The disk is not asked at each look of
    who waits for the erasure, and it is finished once the disk takes it."""
    refusing, now = Unwritable(), [100.0]

    async def run() -> None:
        appender = open_appender(disk=refusing, clock=lambda: now[0])
        await appender.append([a_record(number) for number in range(3)])
        refusing.inode = (journal / "0" / segment_name(0)).stat().st_ino
        with pytest.raises(JournalError, match="check the disk"):
            appender.erase(0, [1])
        await appender.close()

        appender = open_appender(disk=refusing, clock=lambda: now[0])
        await appender.append([a_record(3)])
        assert list_segments(journal / "0") == [0, 3]
        with pytest.raises(JournalError, match="check the disk"):
            appender.erase(0, [1])
        refusing.inode = 0
        with pytest.raises(JournalError, match="check the disk"):
            appender.erase(0, [1])
        now[0] += ERASE_REST_SECONDS
        assert appender.erase(0, [1]) == 1
        await appender.close()

    asyncio.run(run())
    assert [record.erased for record in stored_records(journal)] == [False, True, False, False]


def test_a_note_of_an_erasure_on_a_bad_sector_holds_up_nobody(
    stored: Path, open_appender: Any, bad_pages: BadPages
) -> None:
    """All erasures of the partition waited for it for good, and whoever read what is damaged failed. Whoever asked for
    the erasure asks again; what was overwritten in part is damage like any other."""
    refusing = Unwritable()
    path, head = next((path, position) for path, position, first in positions_in(stored) if first == PER_GROUP)

    async def run() -> None:
        appender = open_appender(disk=refusing)
        refusing.inode = path.stat().st_ino
        with pytest.raises(JournalError, match="check the disk"):
            appender.erase(0, [1])
        await appender.close()
        refusing.inode = 0
        bad_pages.add(stored / INTENT_NAME)
        with flipped(path, head + GROUP_HEADER_BYTES), closing(LocalReader(stored.parent)) as reader:
            check_reading(reader, [n for n in range(COUNT) if not PER_GROUP <= n < 2 * PER_GROUP], "beside the note")
        appender = open_appender(disk=refusing)
        assert appender.erase(0, [1, 7]) == 2
        await appender.close()

    asyncio.run(run())
    assert not (stored / INTENT_NAME).exists()
    assert [n for n, record in enumerate(stored_records(stored.parent)) if record.erased] == [1, 7]
