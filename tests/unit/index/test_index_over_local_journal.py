"""The index over the real local journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hookline.index.duplicates import Duplicates
from hookline.index.lookup import find
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.record import fingerprint
from tests.unit.index.conftest import RUN_EVENTS, finish
from tests.unit.index.journal_in_memory import record


def test_repeats_and_look_ups_over_segment_files(tmp_path: Path) -> None:
    """Appended, read, sealed, opened again: repeats are recognised and every offset is found."""

    async def append() -> None:
        appender = LocalAppender(tmp_path / "journal", retention_seconds=86_400, retention_bytes=1 << 30)
        for part in range(5):
            await appender.append([record("again"), *[record(f"{part}-{n}") for n in range(RUN_EVENTS - 1)]])
        await appender.close()

    asyncio.run(append())
    expected = [RUN_EVENTS * part for part in range(5)]
    for _ in range(2):
        reader = LocalReader(tmp_path / "journal")
        options = {"window_seconds": 3600, "bytes_max": 1 << 30, "run_events": RUN_EVENTS * 2}
        index = Duplicates(tmp_path / "index" / "0", reader, 0, **options)  # type: ignore[arg-type]
        repeated: list[int] = []
        for group in reader.read(0, 0):
            repeated += [group.first_offset + at for at, first in index.check(group.records, group.first_offset)]
            finish(index)
        assert repeated == expected[1:]
        assert find(reader, tmp_path / "index", 0, fingerprint("website", "again")) == expected
        index.close()
        reader.close()
