"""A full disk: what it leaves half done, and what is stored, erased and read after it."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import encode_groups, list_segments, segment_name
from hookline.journal.port import JournalFull
from tests.unit.journal.conftest import SEGMENT_BYTES, FaultyDisk, Open
from tests.unit.journal.stored import stored_ids


class NotesSyncs(FaultyDisk):
    """Knows how long each file was when it was made durable last."""

    def __init__(self) -> None:
        super().__init__()
        self.durable_bytes: dict[int, int] = {}

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        status = os.fstat(fd)
        self.durable_bytes[status.st_ino] = status.st_size


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
            await appender.append([a_record(n, body=b"y" * 15_000) for n in range(20, 23)])
            first, second = list_segments(journal / "0")
            assert second == 20
            status = (journal / "0" / segment_name(first)).stat()
            assert status.st_size == disk.durable_bytes[status.st_ino] == data_end(journal, 19)
            found = [record.message_id for group in follower.read(0, 20) for record in group.records]
        await appender.close()
        assert found == ["m20", "m21", "m22"]

    asyncio.run(run())
    assert stored_ids(journal) == [f"m{n}" for n in range(23)]


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
