"""What the shared reader tells about a disk that fails, and works again: of the index of duplicates, of the journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.deliver.read.catch_up import SharedReader
from hookline.index.duplicates import DISK_RETRY_SECONDS, Duplicates
from hookline.journal.damaged import noted_damage
from hookline.journal.local.disk import PAGE_BYTES
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.index.conftest import finish
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]

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


def unread(rig: Rig) -> Path:
    """A journal of one segment that nobody has read yet; three groups of an event that takes several pages."""
    rig.change(source(), destination("crm"))
    for number in range(3):
        rig.append(rig.record(f"m{number}", body=b'{"type":"track","event":"%b"}' % (b"x" * 3 * PAGE_BYTES)))
    rig.restart()
    (segment,) = (rig.folder / "journal" / "0").glob("*.seg")
    return segment


def test_a_page_that_the_disk_cannot_read_costs_what_is_in_it(rig: Rig, bad_pages: BadPages) -> None:
    """Nothing of the partition was sent any more, to anybody."""
    bad_pages.add(unread(rig), 4 * PAGE_BYTES)
    rig.turn()
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 2]
    assert [each.first for each in noted_damage(rig.folder / "journal")] == [1]


def test_a_disk_that_reads_nothing_is_waited_for(
    rig: Rig, bad_pages: BadPages, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said once, and nothing is given up meanwhile."""
    bad_pages.add(unread(rig))
    for _ in range(3):
        rig.pass_time(1.0)
        rig.role.feeder.wake()
        rig.turn()
    assert rig.offsets("crm") == []
    bad_pages.mend()
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1, 2]
    said = capsys.readouterr().out
    assert (said.count("journal_unreadable"), said.count("journal_read_again")) == (1, 1)
