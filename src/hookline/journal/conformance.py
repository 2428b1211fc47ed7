"""What every journal backend must do, as a suite of tests: ``class TestMine(JournalConformance)`` plus one fixture.

The fixture ``settings`` names empty storage, kept for RETENTION_SECONDS. The suite asks for nothing but the port, so
that a new backend is proved by the tests that proved the others. Importing it needs pytest.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
import pytest

from hookline.journal.opening import journal_of
from hookline.journal.port import (
    GROUP_BYTES_MAX,
    GROUP_RECORDS_MAX,
    Appender,
    Group,
    JournalBackend,
    JournalFetching,
    JournalLocked,
    OffsetExpired,
    SearchableReader,
    partition_of,
)
from hookline.journal.record import FORMAT_VERSION, Record, Rejection
from hookline.settings import Settings

RETENTION_SECONDS = 1_000.0
FILL_BYTES = 1024 * 1024
"""More than what retention by age leaves however old it is: local segments of a test are smaller."""
BOUND_SECONDS = 30.0
"""For what comes by itself."""
_BODY = b'{"type":"track","event":"Order Completed","properties":{"total":12.50}}'


class Backend(NamedTuple):
    """A backend and what it is opened with; every call is on the same storage."""

    journal: JournalBackend
    settings: Settings

    def appender(self, partitions: int = 1) -> Appender:
        """Return an appender that takes records."""
        journal = msgspec.structs.replace(self.settings.journal, partitions=partitions)
        appender = self.journal.appender(msgspec.structs.replace(self.settings, journal=journal))
        appender.open()
        return appender

    def reader(self) -> SearchableReader:
        """Return a reader."""
        return self.journal.reader()


def a_record(number: int, *, user: str = "u1", received_at: int = 1_000, body: bytes = _BODY) -> Record:
    """Return a record that ``number`` makes unlike the others."""
    fingerprint = number.to_bytes(16, "big")
    return Record(FORMAT_VERSION, False, received_at, "web", "track", f"m{number}", fingerprint, user, "", "sdk", body)


def records_of(groups: Sequence[Group]) -> list[Record]:
    """Return the records of groups, after checking that offsets go on without a gap."""
    for earlier, later in itertools.pairwise(groups):
        assert later.first_offset == earlier.next_offset
    return [record for group in groups for record in group.records]


class JournalConformance:
    """The contract of ``journal/port.py``, one test per sentence or so."""

    @pytest.fixture
    def settings(self) -> Settings:
        raise NotImplementedError("give a fixture named settings")

    @pytest.fixture
    def backend(self, settings: Settings) -> Backend:
        journal = journal_of(settings)
        journal.claim()
        return Backend(journal, settings)

    def test_an_empty_journal_has_nothing_to_read(self, backend: Backend) -> None:
        """A partition starts at offset 0 with nothing in it."""

        async def use(appender: Appender) -> None:
            reader = backend.reader()
            assert (reader.start(0), reader.end(0)) == (0, 0)
            assert list(reader.read(0, 0)) == []
            reader.close()

        _with_appender(backend, use)

    def test_records_come_back_equal_and_in_order(self, backend: Backend) -> None:
        """Read what was appended, every field of it, in the order of the calls."""
        full = Record(
            FORMAT_VERSION, False, 7, "s", "identify", "m-ü", b"f" * 16, "ü", "2024-01-01T00:00:00.000Z", "audience",
            b"{}", b'{"context":{}}', {"All": False, "Webhooks": True}, ("crm",), "00-trace", Rejection("c", "why"),
        )  # fmt: skip
        given = [a_record(1), full, a_record(2, body=b"")]

        async def use(appender: Appender) -> None:
            for record in given:
                await appender.append([record])
            assert _read(backend) == given

        _with_appender(backend, use)

    def test_a_call_gets_consecutive_offsets_even_beside_others(self, backend: Backend) -> None:
        """Records of one call follow one another, whatever is appended at the same time."""
        calls = [[a_record(100 * call + i) for i in range(7)] for call in range(20)]

        async def use(appender: Appender) -> None:
            await asyncio.gather(*(appender.append(call) for call in calls))
            read = [record.message_id for record in _read(backend)]
            assert len(read) == 140
            for call in calls:
                first = read.index(call[0].message_id)
                assert read[first : first + 7] == [record.message_id for record in call]

        _with_appender(backend, use)

    def test_groups_are_read_backwards(self, backend: Backend) -> None:
        """Read from an offset down, newest group first, with nothing left out and nothing beyond it."""

        async def use(appender: Appender) -> None:
            for call in range(5):
                await appender.append([a_record(10 * call + i) for i in range(10)])
            reader = backend.reader()
            for before in (50, 37, 1_000):
                groups = list(reader.read_backwards(0, before))
                assert records_of(groups[::-1]) == _read(backend)[:before]
                assert groups[-1].first_offset == 0
            assert list(reader.read_backwards(0, 0)) == []
            reader.close()

        _with_appender(backend, use)

    def test_a_text_is_found_where_it_is(self, backend: Backend) -> None:
        """Find the groups that hold one of some texts, in the range that is asked for."""
        given = [a_record(number, body=b'{"needle":%d}' % number) for number in range(12)]

        async def use(appender: Appender) -> None:
            for record in given:
                await appender.append([record])
            reader = backend.reader()
            found = [r for g in reader.holding(0, [b'"needle":3}', b'"needle":8}'], 0, 12) for r in g.records]
            assert [record for record in found if record.body in (given[3].body, given[8].body)] == [given[3], given[8]]
            assert given[8] not in [r for g in reader.holding(0, [b'"needle":8}'], 0, 8) for r in g.records]
            assert list(reader.holding(0, [b"nowhere"], 0, 12)) == []
            reader.close()

        _with_appender(backend, use)

    def test_appended_means_readable_at_once(self, backend: Backend) -> None:
        """When append returns, the end of the journal has moved over the records."""

        async def use(appender: Appender) -> None:
            reader = backend.reader()
            for number in range(5):
                await appender.append([a_record(number)])
                assert reader.end(0) == number + 1
            reader.close()

        _with_appender(backend, use)

    def test_records_survive_closing_and_opening(self, backend: Backend) -> None:
        """A reopened journal goes on where it ended, and no offset is used twice."""
        _append(backend, [a_record(1), a_record(2)])
        _append(backend, [a_record(3)])
        assert [record.message_id for record in _read(backend)] == ["m1", "m2", "m3"]

    def test_reading_begins_exactly_at_the_offset(self, backend: Backend) -> None:
        """From any offset the first group begins there, in the middle of a stored group too."""
        _append(backend, [a_record(number) for number in range(50)])
        reader = backend.reader()
        for offset in (0, 1, 25, 49):
            groups = list(reader.read(0, offset))
            assert groups[0].first_offset == offset
            assert [r.message_id for r in records_of(groups)] == [f"m{n}" for n in range(offset, 50)]
        assert list(reader.read(0, 50)) == []
        reader.close()

    def test_reading_past_the_end_is_a_mistake(self, backend: Backend) -> None:
        """An offset beyond the end raises ValueError: the caller's place cannot be right."""
        _append(backend, [a_record(1)])
        reader = backend.reader()
        with pytest.raises(ValueError, match="2"):
            list(reader.read(0, 2))
        reader.close()

    def test_groups_are_bounded(self, backend: Backend) -> None:
        """However much one call appends, a group stays within its bounds of records and bytes."""
        _append(backend, [a_record(n, body=b"x" * 1_500) for n in range(GROUP_RECORDS_MAX + 500)])
        reader = backend.reader()
        groups = list(reader.read(0, 0))
        assert len(records_of(groups)) == GROUP_RECORDS_MAX + 500
        assert max(len(group.records) for group in groups) <= GROUP_RECORDS_MAX
        assert max(group.size_bytes for group in groups) <= GROUP_BYTES_MAX
        reader.close()

    def test_a_user_keeps_one_partition_and_the_order(self, backend: Backend) -> None:
        """Records go to the partition of their user key and keep their order there."""
        given = [a_record(n, user=f"u{n % 9}") for n in range(90)]
        _append(backend, given, partitions=3)
        reader = backend.reader()
        assert reader.partitions() == range(3)
        for partition in reader.partitions():
            expected = [r for r in given if partition_of(r.user_key, 3) == partition]
            assert records_of(list(reader.read(partition, 0))) == expected
        reader.close()

    def test_get_finds_one_record(self, backend: Backend) -> None:
        """A record is there by its offset, and None below 0, at the end and beyond."""
        _append(backend, [a_record(n) for n in range(10)])
        reader = backend.reader()
        found = reader.get(0, 7)
        assert found == a_record(7)
        assert [reader.get(0, offset) for offset in (-1, 10, 1_000)] == [None, None, None]
        reader.close()

    def test_get_all_finds_those_that_are_there(self, backend: Backend) -> None:
        """In order and each with its offset, whatever groups they are in; offsets that hold nothing are passed over."""
        given = [a_record(n) for n in range(30)]
        for first in range(0, 30, 10):
            _append(backend, given[first : first + 10])
        reader = backend.reader()
        assert list(reader.get_all(0, [29, -1, 3, 30, 11, 4, 1_000])) == [(n, given[n]) for n in (3, 4, 11, 29)]
        assert list(reader.get_all(0, [])) == []
        reader.close()

    def test_find_gives_every_offset_of_a_fingerprint(self, backend: Backend) -> None:
        """All records with the fingerprint within the range are found, and no others, even with its bytes in them."""
        twin = a_record(3)
        decoy = a_record(9, body=twin.fingerprint * 3)
        _append(backend, [a_record(1), twin, decoy, a_record(4), twin])
        _append(backend, [twin])
        reader = backend.reader()
        assert list(reader.find(0, twin.fingerprint, 0, reader.end(0))) == [1, 4, 5]
        assert list(reader.find(0, twin.fingerprint, 2, 5)) == [4]
        assert list(reader.find(0, b"\xff" * 16, 0, reader.end(0))) == []
        reader.close()

    def test_erased_records_keep_their_place_and_lose_their_content(self, backend: Backend) -> None:
        """After erase a record is marked, its offset and neighbours stay, and nothing of it can be found."""
        given = [a_record(n, user=f"user-{n}") for n in range(20)]

        async def use(appender: Appender) -> None:
            await appender.append(given)
            assert appender.erase(0, [3, 11, 999]) == 2
            assert appender.erase(0, [3]) == 1
            _check_erased(backend, given, {3, 11})

        _with_appender(backend, use)
        _check_erased(backend, given, {3, 11})

    def test_retention_drops_the_oldest_and_says_so(self, backend: Backend) -> None:
        """Old records go from the front; reading below what is kept names the offset to go on from."""
        size = 8_000
        old = [a_record(n, received_at=1_000, body=b"o" * size) for n in range(FILL_BYTES // size)]

        async def use(appender: Appender) -> None:
            for first in range(0, len(old), 100):
                await appender.append(old[first : first + 100])
            late = 1_000 + int(RETENTION_SECONDS * 1_000) + 1
            await appender.append([a_record(len(old), received_at=late)])
            assert appender.retain(late) > 0
            reader = backend.reader()
            start = reader.start(0)
            assert 0 < start <= len(old)
            with pytest.raises(OffsetExpired) as expired:
                list(reader.read(0, 0))
            assert expired.value.start == start
            assert reader.get(0, start - 1) is None
            kept = records_of(list(reader.read(0, start)))
            assert [r.message_id for r in kept] == [f"m{n}" for n in range(start, len(old) + 1)]
            reader.close()

        _with_appender(backend, use)

    def test_retention_keeps_what_is_young(self, backend: Backend) -> None:
        """Nothing goes before its time."""

        async def use(appender: Appender) -> None:
            await appender.append([a_record(1, received_at=5_000)])
            assert appender.retain(5_000 + int(RETENTION_SECONDS * 1_000) - 1) == 0
            assert len(_read(backend)) == 1

        _with_appender(backend, use)

    def test_a_reader_may_come_first(self, backend: Backend) -> None:
        """Start-up order does not matter: a reader opened before any appender sees what comes later."""
        reader = backend.reader()
        assert list(reader.partitions()) == []
        _append(backend, [a_record(1)])
        assert reader.partitions() == range(1)
        assert records_of(list(reader.read(0, 0))) == [a_record(1)]
        reader.close()

    def test_only_one_appender(self, backend: Backend) -> None:
        """The second appender is refused with a sentence that says why, and the first one goes on."""

        async def use(appender: Appender) -> None:
            with pytest.raises(JournalLocked, match="another server"):
                backend.appender()
            await appender.append([a_record(1)])

        _with_appender(backend, use)

    def test_closing_finishes_what_waits_and_may_be_repeated(self, backend: Backend) -> None:
        """An append under way when the appender is closed is stored and answered."""

        async def use(appender: Appender) -> None:
            waiting = asyncio.ensure_future(appender.append([a_record(1)]))
            await asyncio.sleep(0)  # the call is made; its commit is not
            await appender.close()
            await asyncio.wait_for(waiting, 5)
            await appender.close()

        _with_appender(backend, use)
        assert len(_read(backend)) == 1

    def test_a_folder_may_be_claimed_again(self, backend: Backend) -> None:
        """Every role of a data folder claims it at its start, and nothing of the journal changes."""
        _append(backend, [a_record(1)])
        backend.journal.claim()
        assert _read(backend) == [a_record(1)]

    def test_the_appender_knows_the_ends(self, backend: Backend) -> None:
        """Say of each partition what readers see, from the opening on."""
        given = [a_record(n, user=f"u{n % 9}") for n in range(20)]
        _append(backend, given, partitions=3)

        async def use(appender: Appender) -> None:
            await appender.append([a_record(20)])
            reader = backend.reader()
            assert appender.ends() == {partition: reader.end(partition) for partition in reader.partitions()}
            reader.close()

        _with_appender(backend, use, partitions=3)

    def test_an_append_without_records_is_answered_last(self, backend: Backend) -> None:
        """Its answer says that everything that was appended before is answered."""

        async def use(appender: Appender) -> None:
            answers: list[BaseException | None] = []
            for number in range(3):
                appender.append_soon([a_record(number)], answers.append)
            await appender.append(())
            assert answers == [None, None, None]

        _with_appender(backend, use)

    def test_whether_records_can_be_stored_can_be_asked(self, backend: Backend) -> None:
        """The appender and a tool beside it find nothing in the way of a journal that takes records."""

        async def use(appender: Appender) -> None:
            assert await asyncio.to_thread(appender.state) == ""
            assert await asyncio.to_thread(backend.journal.state, BOUND_SECONDS) == ""

        _with_appender(backend, use)

    def test_an_event_loop_follows_and_looks_up(self, backend: Backend) -> None:
        """Without a wait of its own it gets what was there, what comes later, and single records."""

        async def use(appender: Appender) -> None:
            await appender.append([a_record(0)])
            reader = backend.reader()
            readers = backend.journal.loop_readers(reader, lambda: None)
            readers.follower.follow(0, reader.end(0))
            readers.follower.begin()
            await appender.append([a_record(1), a_record(2)])
            groups: list[Group] = []

            def has_all() -> bool:
                groups.extend(readers.follower.read(0, groups[-1].next_offset if groups else 0))
                return len(records_of(groups)) == 3

            def looks_up() -> bool:
                try:
                    return readers.lookups.get(0, 1) == a_record(1)
                except JournalFetching:
                    return False

            await _until(has_all)
            assert records_of(groups) == [a_record(n) for n in range(3)]
            assert readers.follower.end(0) == 3
            await _until(looks_up)
            readers.follower.leave(0)
            readers.close()
            readers.close()
            reader.close()

        _with_appender(backend, use)

    def test_who_comes_first_waits_no_longer_than_needed(self, backend: Backend) -> None:
        """Once the appender has opened the journal its partitions are there, and its ends can be believed."""
        collect = backend.settings.data_path / "nobody.sock"

        async def use(appender: Appender) -> None:
            await appender.append([a_record(1, user="u1"), a_record(2, user="u2"), a_record(3, user="u3")])
            async with asyncio.timeout(BOUND_SECONDS):
                await backend.journal.wait_for_partitions(2, asyncio.Event())
                await backend.journal.wait_for_recovery(appender.ends(), collect, asyncio.Event())

        async def stopped() -> None:
            stop = asyncio.Event()
            stop.set()
            await backend.journal.wait_for_partitions(5, stop)
            await backend.journal.wait_for_recovery({0: 1_000}, collect, stop)

        _with_appender(backend, use, partitions=2)
        asyncio.run(stopped())


async def _until(condition: Callable[[], bool]) -> None:
    """Return once it holds."""
    ends = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < ends, "it did not come"
        await asyncio.sleep(0.005)


def _with_appender(backend: Backend, use: Callable[[Appender], Awaitable[None]], partitions: int = 1) -> None:
    async def run() -> None:
        appender = backend.appender(partitions)
        try:
            await use(appender)
        finally:
            await appender.close()

    asyncio.run(run())


def _append(backend: Backend, records: Sequence[Record], partitions: int = 1) -> None:
    _with_appender(backend, lambda appender: appender.append(records), partitions)


def _read(backend: Backend) -> list[Record]:
    reader = backend.reader()
    try:
        return records_of(list(reader.read(0, 0)))
    finally:
        reader.close()


def _check_erased(backend: Backend, given: Sequence[Record], erased: set[int]) -> None:
    reader = backend.reader()
    for offset, record in enumerate(records_of(list(reader.read(0, 0)))):
        if offset in erased:
            assert record.erased
            assert (record.source, record.received_at) == (given[offset].source, given[offset].received_at)
            assert not record.body.strip(b"\0")
            assert not record.message_id.strip("\0") + record.user_key.strip("\0")
            assert list(reader.find(0, given[offset].fingerprint, 0, reader.end(0))) == []
        else:
            assert record == given[offset]
    reader.close()
