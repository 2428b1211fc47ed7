"""The reader beside a living appender: rotation, retention, erasure, damage, and reading backwards."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import a_record, records_of
from hookline.journal.local import erase
from hookline.journal.local.disk import Disk
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.port import JournalCorrupt, JournalError, OffsetExpired
from hookline.journal.record import Rejection

BODY = b"x" * 5_000


def fill(open_appender: Any, count: int, per_call: int = 5) -> None:
    """Append records m0, m1, … over several segments, and close."""

    async def run() -> None:
        appender = open_appender()
        for first in range(0, count, per_call):
            await appender.append([a_record(n, body=BODY) for n in range(first, first + per_call)])
        await appender.close()

    asyncio.run(run())


def test_a_reader_follows_through_rotations(open_appender: Any, journal: Path) -> None:
    """A reader that goes on from where it was sees each record once while segments come."""
    seen: list[str] = []

    async def run() -> None:
        appender, reader = open_appender(), LocalReader(journal)
        place = 0
        for number in range(60):
            await appender.append([a_record(number, body=BODY)])
            for group in reader.read(0, place):
                seen.extend(record.message_id for record in group.records)
                place = group.next_offset
        reader.close()
        await appender.close()

    asyncio.run(run())
    assert len(list_segments(journal / "0")) > 3
    assert seen == [f"m{n}" for n in range(60)]


def test_a_read_in_progress_ends_where_the_end_was(open_appender: Any, journal: Path) -> None:
    """A generator yields to the end of the moment it was made, however much is appended meanwhile."""

    async def run() -> list[int]:
        appender, reader = open_appender(), LocalReader(journal)
        await appender.append([a_record(0)])
        await appender.append([a_record(1)])
        groups = reader.read(0, 0)
        ends = [next(groups).next_offset]
        await appender.append([a_record(2)])
        ends.extend(group.next_offset for group in groups)
        reader.close()
        await appender.close()
        return ends

    assert asyncio.run(run()) == [1, 2]


def test_retention_overtakes_a_slow_reader(open_appender: Any, journal: Path) -> None:
    """A reader in the middle of dropped segments hears OffsetExpired with the offset to go on from."""
    fill(open_appender, 60)
    reader = LocalReader(journal)
    slow = reader.read(0, 0)
    next(slow)

    async def run() -> None:
        appender = open_appender(retention_bytes=1)
        assert appender.retain(0) > 0
        await appender.close()

    asyncio.run(run())
    with pytest.raises(OffsetExpired) as expired:
        list(slow)
    assert expired.value.start == reader.start(0)
    assert list(reader.read(0, reader.start(0)))[-1].next_offset == 60
    reader.close()


def test_many_readers_of_one_partition_do_not_disturb_each_other(open_appender: Any, journal: Path) -> None:
    """Generators that take turns each see everything, in order."""
    fill(open_appender, 40)
    reader = LocalReader(journal)
    streams = [reader.read(0, start) for start in range(6)]
    seen: list[list[str]] = [[] for _ in streams]
    for _ in range(40):
        for stream, ids in zip(streams, seen, strict=True):
            group = next(stream, None)
            ids.extend(record.message_id for record in group.records if group) if group else None
    for start, ids in enumerate(seen):
        assert ids == [f"m{n}" for n in range(start, 40)]
    reader.close()


def test_reading_backwards_mirrors_reading(open_appender: Any, journal: Path) -> None:
    """Newest groups first, exactly below the offset asked for, down to the start."""
    fill(open_appender, 50, per_call=7)
    reader = LocalReader(journal)
    end = reader.end(0)
    for before in (end, end - 3, 8, 1):
        groups = list(reader.read_backwards(0, before))
        assert groups[0].next_offset == before
        assert [r.message_id for r in records_of(groups[::-1])] == [f"m{n}" for n in range(before)]
    assert list(reader.read_backwards(0, 0)) == []
    assert next(reader.read_backwards(0, end + 1_000)).next_offset == end
    reader.close()


def test_every_offset_is_found_by_get(open_appender: Any, journal: Path) -> None:
    """Any offset in any segment leads to its record, in any order of asking."""
    fill(open_appender, 50, per_call=10)
    reader = LocalReader(journal)
    for offset in [*range(49, -1, -7), *range(50)]:
        record = reader.get(0, offset)
        assert record is not None
        assert record.message_id == f"m{offset}"
    reader.close()


def test_find_looks_through_all_segments(open_appender: Any, journal: Path) -> None:
    """A fingerprint is found in whichever segment it lies, within the range only."""
    fill(open_appender, 60)
    reader = LocalReader(journal)
    for number in (0, 13, 31, 59):
        fingerprint = a_record(number).fingerprint
        assert list(reader.find(0, fingerprint, 0, 60)) == [number]
        assert list(reader.find(0, fingerprint, number + 1, 60)) == []
    reader.close()


def test_a_folder_that_is_closed_for_a_while_is_read_on(open_appender: Any, journal: Path) -> None:
    """What a reader has open it goes on reading, and the rest once the folder is open again."""
    fill(open_appender, 20)
    with closing(LocalReader(journal)) as reader:
        assert len(records_of(list(reader.read(0, 0)))) == 20
        (journal / "0").rename(journal / "away")
        (journal / "0").touch()
        assert reader.start(0) == 0
        assert reader.end(0) == 20
        (journal / "0").unlink()
        (journal / "away").rename(journal / "0")
        assert len(records_of(list(reader.read(0, 0)))) == 20


def test_damage_is_named(open_appender: Any, journal: Path) -> None:
    """A flipped byte in a stored record raises an error that names segment and offset, not wrong data."""
    fill(open_appender, 30)
    second = list_segments(journal / "0")[1]
    with (journal / "0" / segment_name(second)).open("r+b") as file:
        file.seek(2_000)
        byte = file.read(1)
        file.seek(2_000)
        file.write(bytes([byte[0] ^ 1]))
    reader = LocalReader(journal)
    with pytest.raises(JournalCorrupt, match=segment_name(second)) as damage:
        list(reader.read(0, 0))
    assert damage.value.offset == second
    assert damage.value.next_offset > second
    assert list(reader.read(0, damage.value.next_offset))[-1].next_offset == 30
    left = [offset for offset in range(30) if not second <= offset < damage.value.next_offset]
    assert [offset for offset, _ in reader.get_all(0, range(30))] == left
    reader.close()


def test_an_interrupted_erasure_is_finished_in_memory(open_appender: Any, journal: Path) -> None:
    """A reader that meets a half-erased group before the appender is back sees the erased record, not damage."""
    fill(open_appender, 10)

    class StopsHalfway(Disk):
        def pwritev(self, fd: int, buffers: Any, position: int) -> int:
            if len(buffers[0]) == erase.CHECKSUM_BYTES and position > 0:
                raise KeyboardInterrupt  # as a kill between the record and its group's checksum
            return super().pwritev(fd, buffers, position)

    reader = LocalReader(journal)
    with pytest.raises(KeyboardInterrupt):
        erase.erase_records(journal / "0", StopsHalfway(), reader.locate(0, [3]))
    erased = [record.erased for record in records_of(list(reader.read(0, 0)))]
    assert erased == [number == 3 for number in range(10)]
    reader.close()
    asyncio.run(_reopen(open_appender))
    assert not (journal / "0" / erase.INTENT_NAME).exists()
    again = LocalReader(journal)
    assert [record.erased for record in records_of(list(again.read(0, 0)))] == erased
    again.close()


def test_reading_while_everything_is_erased(open_appender: Any, journal: Path) -> None:
    """A reader in full swing beside an erasing appender never meets a wrong checksum."""
    fill(open_appender, 200, per_call=20)
    stop = threading.Event()
    problems: list[BaseException] = []
    rounds = 0

    def read() -> None:
        nonlocal rounds
        reader = LocalReader(journal)
        try:
            while not stop.is_set() or rounds == 0:
                assert len(records_of(list(reader.read(0, 0)))) == 200
                rounds += 1
        except (JournalError, AssertionError) as error:
            problems.append(error)
        reader.close()

    async def erase_all() -> None:
        appender = open_appender()
        for offset in range(200):
            assert appender.erase(0, [offset]) == 1
        await appender.close()

    thread = threading.Thread(target=read)
    thread.start()
    asyncio.run(erase_all())
    stop.set()
    thread.join()
    assert problems == []
    assert rounds > 0


def test_an_erased_record_leaves_nothing_on_the_disk(open_appender: Any, journal: Path) -> None:
    """Ids, body, envelope, selection keys, trace and rejection are gone from the files' bytes."""
    secret = a_record(1, user="canary-user", body=b'{"email":"canary-body"}')
    secret.message_id = "canary-message"
    secret.envelope = b'{"context":{"x":"canary-envelope"}}'
    secret.selection = {"canary-selection": False}
    secret.traceparent = "canary-trace"
    secret.rejection = Rejection("canary-code", "canary-sentence")

    async def run() -> None:
        appender = open_appender()
        await appender.append([a_record(0), secret, a_record(2)])
        assert appender.erase(0, [1]) == 1
        await appender.close()

    asyncio.run(run())
    assert b"canary" not in b"".join(path.read_bytes() for path in journal.rglob("*") if path.is_file())
    reader = LocalReader(journal)
    assert [r.message_id.strip("\0") for r in records_of(list(reader.read(0, 0)))] == ["m0", "", "m2"]
    reader.close()


async def _reopen(open_appender: Any) -> None:
    await open_appender().close()
