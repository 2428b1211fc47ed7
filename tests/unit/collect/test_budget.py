"""The journal's bytes: who is refused once they are spent on what receivers wait for."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import structlog

from hookline.collect.budget import SLOTS, SOURCES_MAX, Budget, StoredBytes, Verdict
from hookline.database.open import open_deliver
from hookline.journal.conformance import a_record
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.disk import Disk
from hookline.journal.record import Record
from hookline.outcomes import positions
from hookline.settings import Bytes, Retention, Settings
from tests.unit.collect.wire import WAIT_SECONDS

SEGMENT_BYTES = 64 * 1024
BYTES_MAX = 10 * SEGMENT_BYTES
NOW_MS = 1_795_158_000_000
HOUR_MS = 3_600_000


class FullDisk(Disk):
    """Takes nothing while it is full."""

    is_full = False

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwritev(fd, buffers, position)


def spend(
    data: Path,
    segments: dict[str, int],
    working: int | None,
    then: Callable[[Budget, LocalAppender], object],
    disk: Disk | None = None,
) -> None:
    """Store so much of each source, of which working lanes wait for what is from an offset on."""
    if working is not None:
        deliver = open_deliver(data / "deliver.db")
        blob = positions.encode(positions.SavedPositions({}))
        deliver.execute("INSERT INTO checkpoints VALUES (0, ?, 1, ?)", (working, blob))
        deliver.close()
    settings = Settings(data_dir=str(data), retention=Retention(bytes=Bytes(BYTES_MAX)))

    async def run() -> None:
        limits = {"retention_seconds": 1e6, "retention_bytes": BYTES_MAX, "segment_bytes": SEGMENT_BYTES}
        appender = LocalAppender(data / "journal", disk=disk, **limits)  # type: ignore[arg-type]
        for source, count in segments.items():
            for number in range(count * 4):
                await appender.append([large(number, source)])
        budget = Budget(settings, appender)
        done = then(budget, appender)
        if asyncio.iscoroutine(done):
            await done
        budget.close()
        await appender.close()

    (data / "run").mkdir(parents=True)
    asyncio.run(run())


def large(number: int, source: str) -> Record:
    """An event of which four fill a segment."""
    record = a_record(number, received_at=NOW_MS, body=b"x" * (SEGMENT_BYTES // 4 - 500))
    record.source = source
    return record


def verdict(budget: Budget) -> Verdict | None:
    """Who is refused now."""
    return budget.look(NOW_MS, budget.needed(NOW_MS) if budget.is_near() else None)


def test_with_room_nobody_is_asked(tmp_path: Path) -> None:
    """Not even the database: nothing is near."""

    def then(budget: Budget, _: LocalAppender) -> None:
        assert not budget.is_near()
        assert verdict(budget) is None

    spend(tmp_path, {"web": 4}, None, then)


def test_what_nobody_waits_for_makes_room(tmp_path: Path) -> None:
    """Retention takes it as soon as the bytes are spent, and nobody is refused."""

    def then(budget: Budget, appender: LocalAppender) -> None:
        assert verdict(budget) is None
        assert appender.stored_bytes() <= BYTES_MAX

    spend(tmp_path, {"web": 15}, 10_000, then)


def test_what_a_full_disk_does_not_let_go_is_dropped_later(tmp_path: Path) -> None:
    """Retention that cannot note what it drops is said once and tried again; collect goes on meanwhile."""
    disk = FullDisk()

    def then(budget: Budget, appender: LocalAppender) -> None:
        disk.is_full = True
        with structlog.testing.capture_logs() as lines:
            assert [verdict(budget) for _ in range(3)] == [None] * 3
        assert [line["event"] for line in lines] == ["retention_stuck"]
        assert appender.stored_bytes() > BYTES_MAX
        disk.is_full = False
        verdict(budget)
        assert appender.stored_bytes() <= BYTES_MAX

    spend(tmp_path, {"web": 15}, 10_000, then, disk)


def test_who_stored_most_is_refused_first(tmp_path: Path) -> None:
    """What working lanes wait for stays; the source above its fair share is refused, the others use the reserve."""

    def then(budget: Budget, appender: LocalAppender) -> None:
        found = verdict(budget)

        assert found is not None
        assert (found.refuses("flood"), found.refuses("web"), found.refuses("new")) == (True, False, False)
        assert budget.insisted_bytes > BYTES_MAX
        assert list(budget.since_ms) == ["flood"]

    spend(tmp_path, {"web": 1, "app": 1, "flood": 9}, 0, then)


def test_without_a_reserve_everybody_is(tmp_path: Path) -> None:
    """A tenth beyond the bytes, and nothing more is taken."""

    def then(budget: Budget, appender: LocalAppender) -> None:
        found = verdict(budget)
        assert found is not None
        assert found.refuses("web")

    spend(tmp_path, {"web": 1, "flood": 12}, 0, then)


def test_a_flood_is_looked_at_before_it_has_spent_the_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is from look to look: once the bytes are near, a hundredth of them more is enough for one."""
    monkeypatch.setattr("hookline.collect.budget.POLL_SECONDS", 3600.0)

    async def then(budget: Budget, appender: LocalAppender) -> None:
        verdict(budget)
        looked = asyncio.ensure_future(budget.wait())
        await appender.append([large(0, "flood")])
        await asyncio.wait_for(looked, WAIT_SECONDS)

    spend(tmp_path, {"web": 9}, 0, then)


def test_while_nobody_is_connected_a_look_is_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And who connects ends the wait."""
    monkeypatch.setattr("hookline.collect.budget.QUIET_SECONDS", 3600.0)

    async def then(budget: Budget, _: LocalAppender) -> None:
        looked = asyncio.ensure_future(budget.wait(is_quiet=True))
        await budget.wait()
        assert not looked.done()
        budget.bell.ring()
        await asyncio.wait_for(looked, WAIT_SECONDS)

    spend(tmp_path, {"web": 1}, None, then)


def test_while_deliver_has_said_nothing_all_is_waited_for(tmp_path: Path) -> None:
    """Nothing acknowledged is traded away because nobody could be asked."""

    def then(budget: Budget, appender: LocalAppender) -> None:
        stored = appender.stored_bytes()
        assert verdict(budget) is not None
        assert appender.stored_bytes() == stored

    spend(tmp_path, {"web": 11}, None, then)


def test_it_ends_when_it_was_delivered(tmp_path: Path) -> None:
    """As soon as lanes have come further."""

    def then(budget: Budget, appender: LocalAppender) -> None:
        assert verdict(budget) is not None
        deliver = open_deliver(tmp_path / "deliver.db")
        deliver.execute("UPDATE checkpoints SET next_offset = 10000")
        deliver.close()
        assert verdict(budget) is None
        assert budget.since_ms == {}

    spend(tmp_path, {"web": 1, "flood": 12}, 0, then)


def test_shares_are_of_the_window(tmp_path: Path) -> None:
    """What was stored before it counts no more; what a process knew the next one knows."""
    stored = StoredBytes(tmp_path / "stored", 16 * HOUR_MS)
    stored.add({"flood": 1_000, "web": 10}, NOW_MS)
    stored.add({"web": 10, "app": 10}, NOW_MS + HOUR_MS)
    stored.save()
    again = StoredBytes(tmp_path / "stored", 16 * HOUR_MS)
    assert again.above_share() == {"flood"}
    again.add({"web": 1}, NOW_MS + SLOTS * HOUR_MS + 1)
    assert again.above_share() == {"web"}


@pytest.mark.parametrize("written", [b"", b"[", b"{}", b"[[1]]"])
def test_a_file_that_is_none_counts_for_nothing(tmp_path: Path, written: bytes) -> None:
    """It is only about fairness: counting begins anew."""
    (tmp_path / "stored").write_bytes(written)
    assert StoredBytes(tmp_path / "stored", HOUR_MS).above_share() == frozenset()


def test_sources_are_bounded(tmp_path: Path) -> None:
    """However many there are, a part of the window names so many."""
    stored = StoredBytes(tmp_path / "stored", HOUR_MS)
    stored.add({f"s{number}": number for number in range(SOURCES_MAX + 5)}, NOW_MS)
    assert len(stored.above_share()) < SOURCES_MAX
