"""The local journal keeps the journal port's contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.journal.conformance import RETENTION_SECONDS, Backend, JournalConformance
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.reader import LocalReader

SEGMENT_BYTES = 256 * 1024


class LocalBackend:
    """Small segments, so that a few records already span several."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def appender(self, partitions: int = 1) -> LocalAppender:
        return LocalAppender(
            self._folder,
            partitions,
            retention_seconds=RETENTION_SECONDS,
            retention_bytes=1 << 40,
            segment_bytes=SEGMENT_BYTES,
        )

    def reader(self) -> LocalReader:
        return LocalReader(self._folder)

    def fill_bytes(self) -> int:
        return 4 * SEGMENT_BYTES


class TestLocalJournal(JournalConformance):
    """Everything the port promises."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return LocalBackend(tmp_path / "journal")
