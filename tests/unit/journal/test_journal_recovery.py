"""Opening a journal after a crash: what is cut, what is kept, and what is said about it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.recovery import Recovery
from hookline.journal.local.segment import (
    SEGMENT_HEADER_BYTES,
    decode_header,
    encode_groups,
    list_segments,
    segment_name,
)
from hookline.journal.port import JournalCorrupt, JournalError, JournalFailed, JournalTooNew
from hookline.journal.record import Record
from tests.unit.journal.conftest import FaultyDisk
from tests.unit.journal.stored import stored_ids

FIRST = segment_name(0)


def append(open_appender: Any, *calls: list[Record], **keywords: object) -> tuple[Recovery, ...]:
    """Open, append call by call, close; return what opening repaired."""

    async def run() -> tuple[Recovery, ...]:
        appender = open_appender(**keywords)
        for call in calls:
            await appender.append(call)
        await appender.close()
        return tuple(appender.recovered)

    return asyncio.run(run())


def group_positions(path: Path) -> list[int]:
    """Where the groups of a segment begin, and where the last one ends."""
    data = path.read_bytes()
    positions = [SEGMENT_HEADER_BYTES]
    while (header := decode_header(data, positions[-1])).length:
        positions.append(positions[-1] + header.size_bytes)
    return positions


def flip(path: Path, position: int) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 4]))


def readable_ids(journal: Path) -> tuple[list[str], list[tuple[int, int]]]:
    """What a reader that passes over damage finds: the ids of records, and which offsets it passed over."""
    ids: list[str] = []
    passed_over: list[tuple[int, int]] = []
    offset, reader = 0, LocalReader(journal)
    while offset < reader.end(0):
        try:
            for group in reader.read(0, offset):
                ids += [record.message_id for record in group.records]
                offset = group.next_offset
        except JournalCorrupt as damage:
            passed_over.append((damage.offset, damage.next_offset))
            offset = damage.next_offset
    reader.close()
    return ids, passed_over


class ForgetfulDisk(FaultyDisk):
    """As Linux has it: what a synchronisation that failed did not bring to the disk counts as written from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        """By file: where it was written to since it was synchronised, and what the disk has there."""
        self.forgotten: dict[int, list[tuple[int, bytes]]] = defaultdict(list)

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        length = sum(map(len, buffers))
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:  # as segments are open
            self.waiting[os.fstat(fd).st_ino].append((position, os.pread(fd, length, position).ljust(length, b"\0")))
        return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        written = self.waiting.pop(os.fstat(fd).st_ino, [])
        if self.sync_error:
            self.forgotten[os.fstat(fd).st_ino] += written
        super().fdatasync(fd)
        again = {(at, at + len(data)) for at, data in written}
        of_file = self.forgotten[os.fstat(fd).st_ino]
        of_file[:] = [(at, data) for at, data in of_file if not any(f <= at < e for f, e in again)]

    def cut_power(self, path: Path) -> None:
        """The file is what the disk has of it."""
        with path.open("r+b", buffering=0) as file:
            for position, data in reversed(self.forgotten[path.stat().st_ino]):
                os.pwrite(file.fileno(), data, position)


def test_what_a_failed_synchronisation_left_in_memory_is_brought_to_the_disk(open_appender: Any, journal: Path) -> None:
    """It is read as if it were stored; a power cut would take it, and what was resent meanwhile is a repeat of it."""
    disk = ForgetfulDisk()

    async def fail() -> None:
        appender = open_appender(disk=disk)
        await appender.append([a_record(1)])
        disk.sync_error = errno.EIO
        with pytest.raises(JournalFailed):
            await appender.append([a_record(2)])
        disk.sync_error = 0
        await appender.close()

    asyncio.run(fail())
    assert append(open_appender, [a_record(3)], disk=disk) == ()
    disk.cut_power(journal / "0" / FIRST)
    assert append(open_appender, disk=disk) == ()
    assert readable_ids(journal) == (["m1", "m2", "m3"], [])


def test_a_torn_group_is_cut_at_every_length(open_appender: Any, journal: Path) -> None:
    """Whatever part of the last group reached the disk before its sync, opening keeps the groups before it."""
    append(open_appender, [a_record(0), a_record(1)])
    path = journal / "0" / FIRST
    start = group_positions(path)[-1]
    group = next(encode_groups([a_record(2)], 2, 1 << 20))
    torn = group.header + group.payload
    for length in range(len(torn)):
        with path.open("r+b") as file:
            file.seek(start)
            file.write(torn[:length])
        repaired = append(open_appender)
        expected = len(torn[:length].rstrip(b"\0"))
        assert [r.cut_bytes for r in repaired] == ([expected] if expected else [])
        assert stored_ids(journal) == ["m0", "m1"]
    assert append(open_appender, [a_record(3)]) == ()
    assert stored_ids(journal) == ["m0", "m1", "m3"]


def test_a_whole_group_that_no_one_was_answered_for_is_kept(open_appender: Any, journal: Path) -> None:
    """A group that is intact after the published end belongs to the journal: its caller may have been answered."""
    append(open_appender, [a_record(0)])
    path = journal / "0" / FIRST
    group = next(encode_groups([a_record(1)], 1, 1 << 20))
    with path.open("r+b") as file:
        file.seek(group_positions(path)[-1])
        file.write(group.header + group.payload)
    assert append(open_appender) == ()
    assert stored_ids(journal) == ["m0", "m1"]


def test_what_is_cut_is_kept_beside_and_zeroed(open_appender: Any, journal: Path) -> None:
    """Nothing of a torn tail is ever taken for data again: it is saved, then zeroed, each by itself."""
    append(open_appender, [a_record(0)])
    path = journal / "0" / FIRST
    group = next(encode_groups([a_record(1)], 1, 1 << 20))
    for number in range(2):
        start = group_positions(path)[-1]
        torn = b"%d" % number + (group.header + group.payload)[1:]
        with path.open("r+b") as file:
            file.seek(start + 500)
            file.write(torn)
        (repaired,) = append(open_appender, [a_record(1)])
        assert repaired.cut_bytes == 500 + len(torn)
        assert (journal / "0" / f"{path.stem}.{start}.cut").read_bytes()[500:] == torn
        assert not path.read_bytes()[group_positions(path)[-1] :].strip(b"\0")


@pytest.mark.parametrize("field", range(-1, 29, 4))
def test_a_flipped_bit_takes_no_record_beside_its_own(open_appender: Any, journal: Path, field: int) -> None:
    """Wherever it is in a group, and whatever the end file says: who was answered for is kept, the damage reported."""
    append(open_appender, *([a_record(number)] for number in range(100)))
    path = journal / "0" / FIRST
    position = group_positions(path)[10 if field >= 0 else 11] + field
    flip(path, position)
    (journal / "0" / "end").write_bytes(bytes(8))
    assert append(open_appender, [a_record(100)]) == (Recovery(0, FIRST, 0, ((10, 11),)),)
    assert append(open_appender) == ()
    assert readable_ids(journal) == ([f"m{number}" for number in range(101) if number != 10], [(10, 11)])


def test_a_damaged_sector_takes_no_record_beside_its_own(open_appender: Any, journal: Path) -> None:
    """However many groups, large and small, it lies across: all others are kept."""
    calls = [[a_record(10 * call + n, body=b"x" * (call % 7 * 90)) for n in range(10)] for call in range(12)]
    append(open_appender, *calls)
    path = journal / "0" / FIRST
    whole, positions = path.read_bytes(), group_positions(path)
    random = Random(18)
    for start in range(SEGMENT_HEADER_BYTES, positions[-2], 211):
        with path.open("r+b") as file:
            file.write(whole[:start] + random.randbytes(512) + whole[start + 512 :])
        (journal / "0" / "end").write_bytes(bytes(8))
        hit = [number for number in range(12) if positions[number] < start + 512 and start < positions[number + 1]]
        expected = [f"m{number}" for number in range(120) if number // 10 not in hit]
        append(open_appender)
        found, passed_over = readable_ids(journal)
        if hit[-1] < 11:  # of the newest group nobody can tell whether it was ever whole
            assert found == expected
            assert (passed_over[0][0], passed_over[-1][1]) == (10 * hit[0], 10 * hit[-1] + 10)
        for later in list_segments(journal / "0")[1:]:
            (journal / "0" / segment_name(later)).unlink()


def test_a_group_behind_one_that_never_arrived_is_kept(open_appender: Any, journal: Path) -> None:
    """A power cut may take the first of two that were written together: nobody can tell that from later damage."""
    append(open_appender, [a_record(0)])
    path = journal / "0" / FIRST
    later = next(encode_groups([a_record(2)], 2, 1 << 20))
    with path.open("r+b") as file:
        file.seek(group_positions(path)[-1] + 500)
        file.write(later.header + later.payload)
    assert append(open_appender) == (Recovery(0, FIRST, 0, ((1, 2),)),)
    assert readable_ids(journal) == (["m0", "m2"], [(1, 2)])


def test_the_end_does_not_depend_on_its_file(open_appender: Any, journal: Path) -> None:
    """A lost or outdated end file is put right from the segments."""
    append(open_appender, [a_record(0)], [a_record(1)])
    end = journal / "0" / "end"
    for damage in (end.unlink, lambda: end.write_bytes(bytes(8)), lambda: end.write_bytes(b"x")):
        damage()
        append(open_appender)
        assert stored_ids(journal) == ["m0", "m1"]


def test_durable_records_that_the_disk_lost_are_reported(open_appender: Any, journal: Path) -> None:
    """Damage below the published end is no torn tail: nothing is cut, no offset is used again, readers hear of it."""
    append(open_appender, [a_record(0)], [a_record(1)], [a_record(2)])
    path = journal / "0" / FIRST
    with path.open("r+b") as file:
        file.seek(group_positions(path)[1] + 60)
        file.write(b"\xff\xff")
    assert append(open_appender, [a_record(3)]) == (Recovery(0, FIRST, 0, ((1, 2),)),)
    reader = LocalReader(journal)
    assert next(reader.read(0, 0)).records == [a_record(0)]
    with pytest.raises(JournalCorrupt) as damage:
        list(reader.read(0, 0))
    assert (damage.value.offset, damage.value.next_offset) == (1, 2)
    assert [r.message_id for g in reader.read(0, 2) for r in g.records] == ["m2", "m3"]
    reader.close()


def test_zeroed_durable_records_are_reported(open_appender: Any, journal: Path) -> None:
    """A disk that forgot acknowledged writes leaves a gap that reading names, with the offset to go on from."""
    append(open_appender, [a_record(0)], [a_record(1)])
    path = journal / "0" / FIRST
    start = group_positions(path)[1]
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(200))
    append(open_appender, [a_record(2)])
    reader = LocalReader(journal)
    with pytest.raises(JournalCorrupt) as damage:
        list(reader.read(0, 0))
    assert damage.value.next_offset == 2
    assert reader.get(0, 2) == a_record(2)
    reader.close()


def test_leftovers_are_cleared(open_appender: Any, journal: Path) -> None:
    """A half-made next segment and an intent that never became durable are no hindrance."""
    append(open_appender, [a_record(0)])
    (journal / "0" / "next.tmp").write_bytes(b"half")
    (journal / "0" / "erase.intent").write_bytes(b"torn intent")
    append(open_appender)
    assert sorted(os.listdir(journal / "0")) == [FIRST, "end", "start"]
    assert stored_ids(journal) == ["m0"]


def test_opening_goes_on_in_the_last_of_many_segments(open_appender: Any, journal: Path) -> None:
    """Across many segments and reopenings every record keeps its offset."""
    for start in range(0, 60, 10):
        append(open_appender, [a_record(n, body=b"x" * 9_000) for n in range(start, start + 10)])
    assert len(list_segments(journal / "0")) > 5
    assert stored_ids(journal) == [f"m{n}" for n in range(60)]


def test_a_newer_format_is_refused(open_appender: Any, journal: Path) -> None:
    """A segment of a newer version is neither cut nor misread: opening and reading say what to start."""
    append(open_appender, [a_record(0)])
    head = b"HOOKJRNL" + struct.pack("<IQ", 99, 0)
    with (journal / "0" / FIRST).open("r+b") as file:
        file.write(head + struct.pack("<I", crc32(head)))  # without its checksum it would be damage
    with pytest.raises(JournalTooNew, match=r"newer Hookline .format 99, this one knows 1.; start that version again"):
        open_appender()
    reader = LocalReader(journal)
    with pytest.raises(JournalTooNew, match=r"newer Hookline .format 99, this one knows 1.; start that version again"):
        list(reader.read(0, 0))
    reader.close()


def test_a_record_of_a_newer_version_is_refused(open_appender: Any, journal: Path) -> None:
    """Records that a newer version wrote raise an error that says to upgrade."""
    newer = a_record(0)
    newer.format_version = 99
    append(open_appender, [newer])
    with pytest.raises(JournalTooNew, match="upgrade"):
        stored_ids(journal)


def test_fewer_partitions_than_there_are_is_refused(open_appender: Any, journal: Path) -> None:
    """Opening with fewer partitions would hide records: the error names the number to set."""
    append(open_appender, [a_record(0)], partitions=3)
    with pytest.raises(JournalError, match=r"journal\.partitions to 3"):
        open_appender(partitions=1)


@pytest.mark.parametrize("name", ["old-{}", "copy of {}", "99999999999999999999.seg", ".seg"])
def test_a_copy_of_a_segment_under_another_name_is_passed_over(open_appender: Any, journal: Path, name: str) -> None:
    """Somebody kept one beside the others: the journal opens as if it were not there."""
    append(open_appender, [a_record(0)])
    path = journal / "0" / FIRST
    (path.parent / name.format(path.name)).write_bytes(path.read_bytes())
    assert append(open_appender, [a_record(1)]) == ()
    assert readable_ids(journal) == (["m0", "m1"], [])
