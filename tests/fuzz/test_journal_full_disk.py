"""Lives of a journal on a disk that is full now and then: appended to, followed, erased, retained and opened again."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

from hookline.journal.conformance import a_record
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.disk import Disk
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.port import JournalFull
from hookline.journal.reading import Lost, read_on
from tests.fuzz.cases import Cases

CASES = 60
STEPS_MAX = 60
SEGMENT_BYTES = 64 * 1024
BODY_BYTES = (10, 500, 4_000, 15_000)
CALL_RECORDS = (1, 3, 40, 300)
CALL_BYTES_MAX = 180_000
REFUSED_SHARES = (0.0, 0.0, 0.2, 0.6)
KEPT_SEGMENTS = 6


class OftenFull(Disk):
    """Refuses a share of all writes, in place or not, and takes a part of those: none, some, all but the end, or all.

    It makes nothing durable: no life has a power cut.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.refused_share = 0.0

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        if self._random.random() >= self.refused_share:
            return super().pwritev(fd, buffers, position)
        data = b"".join(map(bytes, buffers))
        taken = self._random.choice((0, len(data), max(0, len(data) - 7), self._random.randrange(len(data) + 1)))
        os.pwrite(fd, data[:taken], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fdatasync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


class Life:
    """A journal, a reader that follows it, and what has to be in it."""

    def __init__(self, random: Random, folder: Path) -> None:
        self._random = random
        self._folder = folder
        self._disk = OftenFull(random)
        self._follower = LocalReader(folder)
        self._count = 0
        self._acknowledged: list[str] = []
        self._followed: dict[int, str] = {}
        """By its offset, each record that was met: one that is not there any more, too."""
        self._erased: set[int] = set()
        self._at = 0
        self._appender = self._opened()

    async def run(self) -> None:
        """Live a while, and find everything that was acknowledged, once and where it was before."""
        steps = (self._append, self._append, self._append, self._append, self._follow, self._erase, self._reopen)
        for _ in range(self._random.randrange(10, STEPS_MAX)):
            self._disk.refused_share = self._random.choice(REFUSED_SHARES)
            try:
                await self._random.choice((*steps, self._retain))()
            except JournalFull:
                pass
        self._disk.refused_share = 0.0
        await self._follow()
        self._check()
        await self._reopen()
        self._check()
        self._follower.close()
        await self._appender.close()

    def _opened(self) -> LocalAppender:
        ticks = itertools.count(0, 10)  # a full disk is asked again at once
        return LocalAppender(
            self._folder,
            retention_seconds=1e9,
            retention_bytes=KEPT_SEGMENTS * SEGMENT_BYTES,
            segment_bytes=SEGMENT_BYTES,
            disk=self._disk,
            clock=lambda: float(next(ticks)),
        )

    async def _append(self) -> None:
        size = self._random.choice(BODY_BYTES)
        count = min(self._random.choice(CALL_RECORDS), CALL_BYTES_MAX // size)
        records = [a_record(n, body=b"x" * size) for n in range(self._count, self._count + count)]
        self._count += count
        await self._appender.append(records)
        self._acknowledged += [record.message_id for record in records]

    async def _follow(self) -> None:
        end = self._follower.end(0)
        self._followed |= self._read(self._follower, self._at, end)
        self._at = end

    async def _erase(self) -> None:
        await self._follow()
        kept = range(self._follower.start(0), self._at)
        if kept:
            offsets = self._random.choices(kept, k=3)
            self._erased |= set(offsets)
            self._appender.erase(0, sorted(set(offsets)))

    async def _retain(self) -> None:
        await self._follow()
        self._appender.retain(0)

    async def _reopen(self) -> None:
        await self._appender.close()
        while True:
            try:
                self._appender = self._opened()
                break
            except JournalFull:
                self._disk.refused_share = 0.0
        assert not any(recovery.damaged for recovery in self._appender.recovered)

    def _check(self) -> None:
        with closing(LocalReader(self._folder)) as reader:
            start, end = reader.start(0), reader.end(0)
            found = self._read(reader, start, end)
        kept = set(self._followed.values()) | set(found.values())
        assert set(self._acknowledged) <= kept
        assert sorted(found.keys() | self._erased) == sorted({*range(start, end), *self._erased})
        for offset, message_id in found.items():
            assert message_id == self._followed.get(offset, message_id)

    def _read(self, reader: LocalReader, first: int, end: int) -> dict[int, str]:
        lost: list[Lost] = []
        found = {
            group.first_offset + at: record.message_id
            for group in read_on(reader, 0, first, end, lost.append)
            for at, record in enumerate(group.records)
            if not record.erased
        }
        assert lost == []
        return found


def check_life(random: Random, journal: Path) -> None:
    """Live one life in this folder."""
    shutil.rmtree(journal, ignore_errors=True)
    asyncio.run(Life(random, journal).run())


def test_a_full_disk_costs_nothing_that_was_acknowledged(cases: Cases, tmp_path: Path) -> None:
    """Whatever it refuses, and how much of that it has taken."""
    cases.run("journal on a full disk", CASES, lambda random: check_life(random, tmp_path / "journal"))
