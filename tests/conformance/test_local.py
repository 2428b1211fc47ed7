"""The local journal keeps the journal port's contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.journal.conformance import FILL_BYTES, RETENTION_SECONDS, Backend, JournalConformance
from hookline.journal.local.backend import SEGMENTS_MIN, LocalBackend
from hookline.journal.opening import FOLDER
from hookline.settings import Bytes, Retention, Seconds, Settings

SEGMENT_BYTES = FILL_BYTES // 4


class TestLocalJournal(JournalConformance):
    """Everything the port promises, with small segments, so that a few records already span several."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        retention = Retention(events=Seconds(RETENTION_SECONDS), bytes=Bytes(SEGMENT_BYTES * SEGMENTS_MIN))
        return Settings(data_dir=str(tmp_path), retention=retention)

    @pytest.fixture
    def backend(self, settings: Settings) -> Backend:
        return Backend(LocalBackend(settings.data_path / FOLDER, SEGMENT_BYTES), settings)
