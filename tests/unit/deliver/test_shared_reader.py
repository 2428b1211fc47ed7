"""What the shared reader tells about the index of duplicates: the disk fails, and works again."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from hookline.deliver.read.catch_up import SharedReader
from hookline.index.duplicates import DISK_RETRY_SECONDS, Duplicates
from tests.unit.deliver.rig import Rig
from tests.unit.index.conftest import finish

RUN_EVENTS = 8


def refuse(descriptor: int) -> None:
    raise OSError(28, "no space left")


@pytest.fixture
def shared(rig: Rig) -> tuple[SharedReader, Callable[[float], None]]:
    """A reader whose index has a full range to seal, and its clock."""
    now = [0.0]
    rig.append(*(f"m{n}" for n in range(RUN_EVENTS)))
    rig.start()
    journal = rig.role.journal
    index = Duplicates(
        rig.folder / "other",
        journal,
        0,
        window_seconds=60,
        bytes_max=1 << 30,
        run_events=RUN_EVENTS,
        clock=lambda: now[0],
    )
    for group in journal.read(0, 0):
        index.feed(group.records, group.first_offset)
    return SharedReader(0, journal, index, 0), lambda seconds: now.__setitem__(0, seconds)


def test_a_failing_index_is_told_once_and_its_end_too(
    shared: tuple[SharedReader, Callable[[float], None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The log has the error as it begins and a line as it ends; the gauge says how it is now."""
    reader, set_clock = shared
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        finish(reader.duplicates)
    assert [reader.report_index_failure() for _ in range(2)] == [True, True]
    set_clock(DISK_RETRY_SECONDS)
    finish(reader.duplicates)
    assert not reader.report_index_failure()
    said = capsys.readouterr().out
    assert (said.count("duplicate_index_failed"), said.count("duplicate_index_works_again")) == (1, 1)
    assert "no space left" in said


def test_the_role_publishes_it(rig: Rig) -> None:
    """0 while all is well."""
    rig.start()
    rig.role.reports.gather()()
    published = (rig.folder / "run" / "metrics-deliver.json").read_text()
    assert '"hookline_dedup_index_failing":0' in published
