"""A full disk: what it leaves half done, and what is stored, erased and read after it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.disk import END_NAME, START_NAME, EndFile, read_start
from hookline.journal.local.erase import INTENT_NAME
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.recovery import Recovery
from hookline.journal.local.segment import GROUP_RECORDS, encode_groups, list_segments, segment_name
from hookline.journal.port import JournalFull
from tests.unit.journal.conftest import SEGMENT_BYTES, FaultyDisk, Open
from tests.unit.journal.stored import stored_ids, stored_records


class NotesSyncs(FaultyDisk):
    """Knows how long each file was when it was made durable last."""

    def __init__(self) -> None:
        super().__init__()
        self.durable_bytes: dict[int, int] = {}

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        status = os.fstat(fd)
        self.durable_bytes[status.st_ino] = status.st_size


class RefusesOnce(FaultyDisk):
    """Has no room for one write: the one after ``writes_left`` others."""

    writes_left: int | None = None

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        if self.writes_left == 0:
            self.writes_left = None
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.writes_left is not None:
            self.writes_left -= 1
        return super().pwritev(fd, buffers, position)


def data_end(journal: Path, last_offset: int) -> int:
    """Where the group with this offset ends in its segment."""
    with closing(LocalReader(journal)) as reader:
        ((group, _),) = reader.locate(0, [last_offset])
    return group.position + group.header.size_bytes


@pytest.mark.parametrize("refused", [300, 200], ids=["a whole group", "a torn group"])
@pytest.mark.parametrize("is_rolled", [False, True], ids=["full", "rolled"])
def test_nothing_of_a_refused_write_is_left_before_the_next_segment(
    journal: Path, open_appender: Open, refused: int, is_rolled: bool
) -> None:
    """It looks like the next segment's records: a reader that was at its place took it for them."""
    now, disk = [100.0], NotesSyncs()

    async def run() -> None:
        appender = open_appender(disk=disk, clock=lambda: now[0], retention_seconds=1.0 if is_rolled else 1e6)
        await appender.append([a_record(n, body=b"x" * 1_000) for n in range(20)])
        with closing(LocalReader(journal)) as follower:
            assert [len(group.records) for group in follower.read(0, 0)] == [20]
            disk.write_error = errno.ENOSPC
            with pytest.raises(JournalFull):
                await appender.append([a_record(n) for n in range(1_000, 1_000 + refused)])
            disk.write_error, now[0] = 0, now[0] + 2
            if is_rolled:
                appender.retain(1 << 50)
            records = [a_record(n, body=b"y" * 15_000) for n in range(20, 23)]
            try:
                await appender.append(records)
            except JournalFull:  # the next segment was refused only now
                now[0] += 2
                await appender.append(records)
            first, second = list_segments(journal / "0")
            assert second == 20
            status = (journal / "0" / segment_name(first)).stat()
            assert status.st_size == disk.durable_bytes[status.st_ino] == data_end(journal, 19)
            found = [record.message_id for group in follower.read(0, 20) for record in group.records]
        await appender.close()
        assert found == ["m20", "m21", "m22"]

    asyncio.run(run())
    assert stored_ids(journal) == [f"m{n}" for n in range(23)]


def test_writes_that_are_refused_one_after_the_other_leave_no_damage(
    journal: Path, disk: FaultyDisk, open_appender: Open
) -> None:
    """A torn group over whole ones of the write before was taken for damage of events that nobody had stored."""

    async def run() -> None:
        appender = open_appender(disk=disk, segment_bytes=4 * SEGMENT_BYTES)
        await appender.append([a_record(0)])
        disk.write_error = errno.ENOSPC
        for first, disk.taken in ((1_000, slice(-7)), (2_000, slice(5_000))):
            with pytest.raises(JournalFull):
                await appender.append([a_record(n) for n in range(first, first + 3 * GROUP_RECORDS)])
        disk.write_error = 0
        await appender.close()

    asyncio.run(run())
    assert [recovery.damaged for recovery in asyncio.run(_reopened(open_appender))] == [()]
    assert stored_ids(journal) == ["m0"]


def test_what_an_older_version_left_before_a_segment_is_not_read(journal: Path, open_appender: Open) -> None:
    """A segment ends where the next one begins, whatever stands there that looks like the next one's records."""

    async def run() -> None:
        appender = open_appender()
        for number in range(9):
            await appender.append([a_record(number, body=b"x" * 15_000)])
        await appender.close()

    asyncio.run(run())
    first, second, *_ = list_segments(journal / "0")
    refused = next(encode_groups([a_record(1_000 + n) for n in range(3)], second, SEGMENT_BYTES))
    end = data_end(journal, second - 1)
    with (journal / "0" / segment_name(first)).open("r+b") as file:
        file.seek(end)
        file.write(refused.header + refused.payload)
    asyncio.run(open_appender().close())
    expected = [f"m{n}" for n in range(9)]
    assert stored_ids(journal) == expected
    with closing(LocalReader(journal)) as reader:
        step = [record.message_id for n in range(9) for record in next(reader.read(0, n)).records]
        back = [record.message_id for group in reader.read_backwards(0, 9) for record in group.records]
    assert step == back[::-1] == expected


@pytest.mark.parametrize("writes", range(4))
@pytest.mark.parametrize("again", [[3, 5], [13]], ids=["the same", "others"])
def test_an_erasure_that_was_refused_in_the_middle_takes_nobody_elses_records(
    journal: Path, open_appender: Open, writes: int, again: list[int]
) -> None:
    """Its intent is finished before the next erasure writes its own: without it the group stayed damaged."""

    async def run() -> None:
        disk = RefusesOnce()
        appender = open_appender(disk=disk)
        for first in (0, 10):
            await appender.append([a_record(n) for n in range(first, first + 10)])
        disk.writes_left = writes
        with pytest.raises(JournalFull):
            appender.erase(0, [3, 5])
        appender.erase(0, again)
        appender.erase(0, [3, 5])
        await appender.close()

    asyncio.run(run())
    assert not (journal / "0" / INTENT_NAME).exists()
    erased = {3, 5, *again}
    assert [record.erased for record in stored_records(journal)] == [n in erased for n in range(20)]


def test_an_erasure_that_is_refused_again_stays_to_be_finished(journal: Path, open_appender: Open) -> None:
    """While the disk takes nothing no other erasure begins, and readers see the erased records all the same."""

    async def run() -> None:
        disk = RefusesOnce()
        appender = open_appender(disk=disk)
        await appender.append([a_record(n) for n in range(10)])
        for offsets, writes in (([3], 2), ([7], 0), ([7], 1)):
            disk.writes_left = writes
            with pytest.raises(JournalFull):
                appender.erase(0, offsets)
            assert [record.erased for record in stored_records(journal)] == [n == 3 for n in range(10)]
        await appender.close()

    asyncio.run(run())
    asyncio.run(open_appender().close())
    assert [record.erased for record in stored_records(journal)] == [n == 3 for n in range(10)]


def test_retention_makes_room_where_there_is_none(journal: Path, disk: FaultyDisk, open_appender: Open) -> None:
    """It notes the new start in the place of the old one, for a new file has no room."""

    async def run() -> None:
        appender = open_appender(disk=disk, retention_bytes=2 * SEGMENT_BYTES)
        for number in range(20):
            await appender.append([a_record(number, body=b"x" * 15_000)])
        disk.is_full = True
        assert appender.retain(0) > 0
        await appender.close()

    asyncio.run(run())
    first, *_ = list_segments(journal / "0")
    assert read_start(journal / "0") == first > 0
    assert sorted(path.name for path in (journal / "0").iterdir() if path.suffix != ".seg") == ["end", "start"]


@pytest.mark.parametrize(("before", "after"), [(3, 7), (95, 104), (9, 10_000), (123_456, 123_999)])
def test_a_start_that_is_half_overwritten_is_none(tmp_path: Path, before: int, after: int) -> None:
    """Whatever part of the new one reached the disk, it is read as the old one, the new one, or not at all."""
    old, new = (b"%d %d\n" % (number, number) for number in (before, after))
    for length in range(len(new) + 1):
        (tmp_path / START_NAME).write_bytes(new[:length] + old[length:])
        assert read_start(tmp_path) in (before, after, None)


TORN = next(encode_groups([a_record(1_000, body=b"torn" * 100)], 10, SEGMENT_BYTES))


def torn(journal: Path, open_appender: Open) -> Path:
    """A journal of ten records and a torn tail behind them; its segment."""

    async def run() -> None:
        appender = open_appender()
        await appender.append([a_record(n) for n in range(10)])
        await appender.close()

    asyncio.run(run())
    path = journal / "0" / segment_name(0)
    end = data_end(journal, 9)
    with path.open("r+b") as file:
        file.seek(end)
        file.write((TORN.header + TORN.payload)[:-1] + b"?")
    return path


def test_a_journal_with_a_torn_tail_opens_on_a_full_disk(journal: Path, disk: FaultyDisk, open_appender: Open) -> None:
    """Without room for a copy the tail stays where it is; what is stored later goes to a segment behind it."""
    path = torn(journal, open_appender)
    now, disk.is_full = [100.0], True

    async def run() -> None:
        with closing(LocalReader(journal)) as follower:
            assert [len(group.records) for group in follower.read(0, 0)] == [10]
            for _ in range(2):  # as often as it is started meanwhile
                await open_appender(disk=disk).close()
            appender = open_appender(disk=disk, clock=lambda: now[0])
            assert [recovery.cut_bytes > 0 for recovery in appender.recovered] == [True]
            with pytest.raises(JournalFull):
                await appender.append([a_record(10)])
            disk.is_full, now[0] = False, now[0] + 2
            await appender.append([a_record(n) for n in range(10, 13)])
            assert [record.message_id for _, record in follower.get_all(0, range(9, 13))] == ["m9", "m10", "m11", "m12"]
            assert list(follower.holding(0, [b"torn"], 0, 13)) == []
        await appender.close()

    asyncio.run(run())
    assert TORN.payload[:-1] in path.read_bytes()
    assert asyncio.run(_reopened(open_appender)) == ()
    assert stored_ids(journal) == [f"m{n}" for n in range(13)]


def test_a_torn_tail_that_stayed_is_cut_once_there_is_room(
    journal: Path, disk: FaultyDisk, open_appender: Open
) -> None:
    """As long as no segment was begun behind it, the next start keeps a copy and goes on in its segment."""
    path = torn(journal, open_appender)
    disk.is_full = True
    asyncio.run(open_appender(disk=disk).close())
    (recovery,) = asyncio.run(_reopened(open_appender))
    assert recovery.cut_bytes > 0
    (cut,) = path.parent.glob("*.cut")
    assert cut.read_bytes().endswith(TORN.payload[:-1] + b"?")
    assert list_segments(journal / "0") == [0]
    assert b"torn" not in path.read_bytes()


def test_a_journal_opens_where_what_it_holds_cannot_be_written_again(
    journal: Path, disk: FaultyDisk, open_appender: Open
) -> None:
    """A file system that copies on writing has no room for what is there already; it is kept as it is."""

    async def run() -> None:
        appender = open_appender()
        await appender.append([a_record(n) for n in range(3)])
        await appender.close()
        with closing(EndFile(journal / "0" / END_NAME, writable=True)) as end:
            end.publish(0)
        disk.write_error = errno.ENOSPC
        again = open_appender(disk=disk)
        assert (again.recovered, again.ends()) == ((), {0: 3})
        disk.write_error = 0
        await again.close()

    asyncio.run(run())
    assert stored_ids(journal) == ["m0", "m1", "m2"]


def test_an_erasure_removes_a_torn_tail_that_stayed(journal: Path, disk: FaultyDisk, open_appender: Open) -> None:
    """It may hold the same person's events, like a copy beside the segment."""
    path = torn(journal, open_appender)
    disk.is_full = True

    async def run() -> None:
        appender = open_appender(disk=disk)
        disk.is_full = False
        appender.erase(0, [3])
        await appender.close()

    asyncio.run(run())
    assert path.stat().st_size == data_end(journal, 9)
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, "end", "start"]
    assert asyncio.run(_reopened(open_appender)) == ()
    assert len(stored_ids(journal)) == 10


async def _reopened(open_appender: Open) -> tuple[Recovery, ...]:
    """Open and close it; what opening repaired."""
    appender = open_appender()
    await appender.close()
    return appender.recovered
