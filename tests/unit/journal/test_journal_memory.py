"""What the journal leaves in the page cache: its newest segments, and nothing is lost with the others."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.disk import Disk
from hookline.journal.local.partition import SEGMENTS_IN_MEMORY
from tests.unit.journal.stored import stored_ids

RECORDS = 4_000


class Remembers(Disk):
    """The real disk, with a list of what it let go."""

    def __init__(self) -> None:
        self.gone: list[str] = []

    def let_go(self, path: Path) -> None:
        """Note the name."""
        self.gone.append(path.name)
        super().let_go(path)


def test_full_segments_leave_the_memory_one_after_the_other(open_appender: Any, journal: Path) -> None:
    """All but the newest few and the one that is written to; every record can still be read."""
    disk = Remembers()

    async def run() -> None:
        appender = open_appender(disk=disk)
        for first in range(0, RECORDS, 50):
            await appender.append([a_record(number) for number in range(first, first + 50)])
        await appender.close()

    asyncio.run(run())
    segments = sorted(path.name for path in (journal / "0").glob("*.seg"))
    assert disk.gone == segments[: -SEGMENTS_IN_MEMORY - 1]
    assert disk.gone
    assert len(stored_ids(journal)) == RECORDS


def test_letting_go_tells_the_kernel_and_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file is not needed any more; one that retention has removed meanwhile is no error."""
    told: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, *advice: told.append(advice))
    path = tmp_path / "1.seg"
    path.write_bytes(b"x")
    Disk().let_go(path)
    path.unlink()
    Disk().let_go(path)
    assert told == [(0, 0, os.POSIX_FADV_DONTNEED)]
