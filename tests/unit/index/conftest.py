"""An index over a journal in memory, with ranges small enough to be sealed within a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from pathlib import Path

import pytest

from hookline.index.duplicates import Duplicates
from tests.unit.index.journal_in_memory import JournalInMemory

WINDOW_SECONDS = 3600
RUN_EVENTS = 8

Open = Callable[..., Duplicates]


@pytest.fixture
def journal() -> JournalInMemory:
    """An empty journal."""
    return JournalInMemory()


@pytest.fixture
def open_index(tmp_path: Path, journal: JournalInMemory) -> Open:
    """Opens the index of partition 0 in ``tmp_path``; everything may be set by name."""

    def open_(**options: object) -> Duplicates:
        settings: dict[str, object] = {
            "window_seconds": WINDOW_SECONDS,
            "bytes_max": 1 << 30,
            "run_events": RUN_EVENTS,
            **options,
        }
        return Duplicates(tmp_path / "0", journal, 0, **settings)  # type: ignore[arg-type]

    return open_


def finish(index: Duplicates) -> None:
    """Do all work that is waiting."""
    end = time.monotonic() + 30
    while index.work():
        assert time.monotonic() < end, "the index's work does not end"


def forget_users(index: Duplicates, offsets: Sequence[int]) -> bool:
    """Overwrite whose records these are; return False where the index asks for another try."""
    steps = index.forget_users(offsets)
    for step in steps or ():
        assert step is not None
        wait([step])
    return steps is not None
