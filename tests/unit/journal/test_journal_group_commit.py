"""Group commit: who shares a synchronisation, who waits, and what a failing or slow disk means for callers."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.appender import Committer
from hookline.journal.port import JournalBusy, JournalError, JournalFailed, JournalFull, Needed
from hookline.journal.record import Record
from tests.unit.journal.stored import stored_ids


def test_one_turn_of_the_loop_shares_one_sync(open_appender: Any, disk: Any) -> None:
    """A hundred concurrent appends cost one synchronisation."""

    async def run() -> int:
        # Large enough that the next segment is not being filled, and synchronised, at the same time.
        appender = open_appender(disk=disk, segment_bytes=8 * 1024 * 1024)
        before = disk.syncs
        await asyncio.gather(*(appender.append([a_record(n)]) for n in range(100)))
        used = disk.syncs - before
        await appender.close()
        return int(used)

    assert asyncio.run(run()) == 1


def test_a_raising_callback_drops_no_other_answer(open_appender: Any) -> None:
    """Each caller is answered although the one before it raised."""
    answers: list[BaseException | None] = []

    async def run() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        appender = open_appender()
        appender.append_soon([a_record(1)], lambda error: 1 / 0)
        appender.append_soon([a_record(2)], answers.append)
        await appender.close()
        assert [type(error) for error in reported] == [ZeroDivisionError]

    asyncio.run(run())
    assert answers == [None]


def test_a_failed_sync_is_final(open_appender: Any, disk: Any, journal: Path) -> None:
    """After EIO nothing is acknowledged, now or later, and no synchronisation is tried again."""
    failures: list[JournalFailed] = []

    async def run() -> None:
        appender = open_appender(disk=disk, on_failed=failures.append)
        await appender.append([a_record(1)])
        disk.sync_error = errno.EIO
        waiting = [asyncio.ensure_future(appender.append([a_record(n)])) for n in (2, 3)]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [JournalFailed, JournalFailed]
        disk.sync_error, syncs = 0, disk.syncs
        with pytest.raises(JournalFailed):
            await appender.append([a_record(4)])
        assert disk.syncs == syncs
        await appender.close()

    asyncio.run(run())
    assert len(failures) == 1
    assert stored_ids(journal) == ["m1"]


def test_a_write_error_is_final_too(open_appender: Any, disk: Any) -> None:
    """Any error of a write other than a full disk ends the journal of this process."""

    async def run() -> None:
        appender = open_appender(disk=disk)
        disk.write_error = errno.EIO
        with pytest.raises(JournalFailed, match="check the disk"):
            await appender.append([a_record(1)])
        assert appender.failed is not None
        with pytest.raises(JournalFailed):
            appender.retain(0)
        await appender.close()

    asyncio.run(run())


def test_a_full_disk_refuses_and_comes_back(open_appender: Any, disk: Any, journal: Path) -> None:
    """ENOSPC in a half-taken write acknowledges nothing; with room again appends go on, and recovery finds no dirt."""

    async def run() -> None:
        appender = open_appender(disk=disk)
        await appender.append([a_record(1)])
        disk.write_error = errno.ENOSPC
        with pytest.raises(JournalFull):
            await appender.append([a_record(n, body=b"x" * 900) for n in range(10, 20)])
        disk.write_error = 0
        await appender.append([a_record(2)])
        await appender.close()
        again = open_appender()
        assert again.recovered == ()
        await again.close()

    asyncio.run(run())
    assert stored_ids(journal) == ["m1", "m2"]


def test_the_reserve_is_left_free(open_appender: Any, disk: Any, journal: Path) -> None:
    """No segment is created into the reserve; once a second room is looked for, and then appends go on."""
    now = [100.0]

    async def run() -> None:
        appender = open_appender(disk=disk, clock=lambda: now[0], reserve_bytes=1_000)
        disk.free = 500
        full = None
        for number in range(100):
            try:
                await appender.append([a_record(number, body=b"x" * 10_000)])
            except JournalFull as error:
                full = error
                break
        assert full is not None
        assert full.code == "journal_full"
        before = stored_ids(journal)
        disk.free = 1 << 40
        with pytest.raises(JournalFull):
            await appender.append([a_record(500, body=b"x" * 10_000)])
        now[0] += 2.0
        await appender.append([a_record(501, body=b"x" * 10_000)])
        assert stored_ids(journal) == [*before, "m501"]
        await appender.close()

    asyncio.run(run())


def test_a_refusal_ahead_of_need_is_forgotten(open_appender: Any, disk: Any, journal: Path) -> None:
    """A segment refused while the present one still had room, and possible when it is needed, refuses no append."""
    now = [100.0]

    async def run() -> None:
        appender = open_appender(disk=disk, clock=lambda: now[0])
        disk.free = 0
        for number in range(5):  # past half of the first segment
            await appender.append([a_record(number, body=b"x" * 9_000)])
        disk.free, now[0] = 1 << 40, now[0] + 2
        for number in range(5, 30):
            await appender.append([a_record(number, body=b"x" * 9_000)])
        await appender.close()

    asyncio.run(run())
    assert len(stored_ids(journal)) == 30


def test_a_new_journal_opens_on_a_full_disk(open_appender: Any, disk: Any) -> None:
    """Without room for the first segment the journal opens all the same, and refuses until there is room."""
    now = [100.0]

    async def run() -> None:
        disk.free = 0
        appender = open_appender(disk=disk, clock=lambda: now[0])
        with pytest.raises(JournalFull):
            await appender.append([a_record(1)])
        disk.free, now[0] = 1 << 40, now[0] + 2
        await appender.append([a_record(2)])
        assert appender.ends() == {0: 1}
        await appender.close()

    asyncio.run(run())


def test_where_no_file_can_be_opened_appends_are_refused_until_one_can(open_appender: Any, journal: Path) -> None:
    """The next segment is a file: that others hold all descriptors is no failure of the disk."""
    now = [100.0]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def run() -> None:
        appender = open_appender(clock=lambda: now[0])
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1, hard))
        with pytest.raises(JournalFull):
            await appender.append([a_record(number, body=b"x" * 9_000) for number in range(9)])
        with pytest.raises(JournalFull):
            appender.retain(1_000)
        with pytest.raises(JournalFull):
            appender.insisted_bytes(Needed({0: 0}, {}, 1_000))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        now[0] += 2
        await appender.append([a_record(100)])
        await appender.close()
        for each in held:
            os.close(each)

    try:
        asyncio.run(run())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert stored_ids(journal)[-1] == "m100"


def test_more_than_may_wait_is_refused(open_appender: Any, journal: Path) -> None:
    """What waits for the disk is bounded: the append that would exceed it hears JournalBusy, the others succeed."""

    async def run() -> list[Any]:
        appender = open_appender(pending_bytes_max=25_000)
        calls = [appender.append([a_record(n, body=b"x" * 10_000)]) for n in range(3)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await appender.close()
        return answers

    answers = asyncio.run(run())
    assert answers[:2] == [None, None]
    assert isinstance(answers[2], JournalBusy)
    assert stored_ids(journal) == ["m0", "m1"]


def test_a_refusal_keeps_no_records(open_appender: Any) -> None:
    """What was too much is not held in memory by the error that says so."""

    async def run() -> BaseException | None:
        appender = open_appender(pending_bytes_max=1_000)
        refused = asyncio.get_running_loop().create_future()
        appender.append_soon([a_record(0, body=b"x" * 10_000)], refused.set_result)
        error = await refused
        await appender.close()
        return error

    error = asyncio.run(run())
    assert isinstance(error, JournalBusy)
    assert error.__traceback__ is None


def test_one_unstorable_record_fails_alone(open_appender: Any, journal: Path) -> None:
    """A record that cannot be encoded fails its own call; calls that share its commit are stored."""
    broken = a_record(1)
    broken.message_id = "\ud800"

    async def run() -> list[Any]:
        appender = open_appender()
        calls = [appender.append([a_record(0)]), appender.append([broken]), appender.append([a_record(2)])]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await appender.close()
        return answers

    answers = asyncio.run(run())
    assert (answers[0], answers[2]) == (None, None)
    assert isinstance(answers[1], ValueError)
    assert stored_ids(journal) == ["m0", "m2"]


def test_too_large_a_record_is_refused(open_appender: Any) -> None:
    """A record that would not fit a segment is a mistake of the caller, found before anything is written."""

    async def run() -> None:
        appender = open_appender()
        with pytest.raises(ValueError, match="larger than the journal takes"):
            await appender.append([a_record(1, body=b"x" * 60_000)])
        assert appender.ends() == {0: 0}
        await appender.close()
        with pytest.raises(JournalError, match="closed"):
            await appender.append([a_record(1)])

    asyncio.run(run())


def test_a_slow_disk_moves_commits_to_a_thread_and_a_quick_one_back() -> None:
    """Above the slow limit commits leave the loop and keep their order; below the quick one they return to it."""
    seconds = 0.05
    written: list[str] = []
    slow: list[bool] = []

    def commit(records: list[Record]) -> float:
        written.extend(record.message_id for record in records)
        return seconds

    async def run() -> None:
        nonlocal seconds
        committer = Committer(commit, lambda size: False, lambda: None, lambda error: None, 1 << 20)
        for number in range(60):
            seconds = 0.05 if number < 20 else 0.0
            answered = asyncio.Event()
            committer.add([a_record(number)], 1, lambda error, answered=answered: answered.set())  # type: ignore[misc]
            await asyncio.wait_for(answered.wait(), 30)
            slow.append(committer.is_slow)
        await committer.close()

    asyncio.run(run())
    assert written == [f"m{number}" for number in range(60)]
    assert (slow[0], slow[19], slow[59]) == (True, True, False)


def test_a_machine_without_a_thread_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is answered, and the role starts again: nothing would ever be stored otherwise."""
    failures: list[JournalFailed] = []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> list[BaseException | None]:
        committer = Committer(lambda records: 0.0, lambda size: True, lambda: None, failures.append, 1 << 20)
        answers: list[BaseException | None] = []
        answered = asyncio.Event()
        with monkeypatch.context() as here:
            here.setattr(threading.Thread, "start", refuse)
            committer.add([a_record(1)], 1, lambda error: (answers.append(error), answered.set()))
            await asyncio.wait_for(answered.wait(), 30)
        await committer.close()
        return answers

    (answer,) = asyncio.run(run())
    assert isinstance(answer, JournalFailed)
    assert failures == [answer]


def test_readers_are_woken(open_appender: Any, tmp_path: Path) -> None:
    """Each commit pokes the datagram socket, and a missing listener is no error."""
    path = tmp_path / "wake"

    async def run() -> bytes:
        appender = open_appender(wake_path=path)
        await appender.append([a_record(1)])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(path))
            listener.settimeout(30)
            await appender.append([a_record(2)])
            poke = listener.recv(16)
        await appender.close()
        return poke

    assert asyncio.run(run())
