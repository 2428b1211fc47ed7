"""The power goes under load: nothing acknowledged is lost; without synchronisation it would be.

Needs root and loop devices; elsewhere the score says so, which is tested too. ``python -m bench.crash`` cuts oftener.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.crash import loop_disk
from bench.crash.loop_disk import LoopDisk
from bench.crash.power_cut import control_cuts, drain_cuts, power_cuts

from hookline.database.location import NOTE_FILE
from hookline.database.postgres.installation import Note
from hookline.database.postgres.installation import write_note as note_database
from hookline.journal.folder import read_note
from hookline.journal.folder import write_note as note_topic
from hookline.transfer.move import FilesCopy
from hookline.transfer.state import NAME, State

CUTS = 2
EVENTS_PER_SECOND = 500
DRAINED_EVENTS = 10_000
MOMENT_SECONDS_MAX = 2.0
"""On a machine that is busy with other tests; 0.05 is what is promised of a disk that has nothing else to do."""


def test_a_power_cut_loses_nothing() -> None:
    """What was acknowledged before the cut is delivered after it."""
    score = power_cuts(CUTS, EVENTS_PER_SECOND)
    print(f"\n{score}")
    assert score.not_run == loop_disk.unavailable()
    assert score.lost == 0
    assert (score.cycles, score.expected > 0) == ((CUTS, True) if score.not_run is None else (0, False))


def test_a_power_cut_repeats_a_moment_and_not_a_day() -> None:
    """What was delivered long before the cut does not come again; the crash report measures how short the moment is."""
    score = drain_cuts(1, DRAINED_EVENTS)
    print(f"\n{score}")
    assert score.not_run == loop_disk.unavailable()
    assert score.lost == 0
    assert all(seconds < MOMENT_SECONDS_MAX for seconds in score.repeated_seconds)
    assert len(score.repeated_seconds) == (1 if score.not_run is None else 0)


def test_without_synchronisation_it_does() -> None:
    """The same cut with fsync turned off loses events: the cut is a real one."""
    score = control_cuts(1, EVENTS_PER_SECOND)
    print(f"\n{score}")
    assert score.loses_on_purpose
    assert (score.lost > 0) is (score.not_run is None)


def test_what_a_folder_belongs_to_outlives_it(tmp_path: Path) -> None:
    """A folder whose first start was cut short still knows its database and its topic: empty notes kept it from
    starting for good."""
    if reason := loop_disk.unavailable():
        pytest.skip(reason)
    with LoopDisk(tmp_path) as disk:
        note_database(disk.folder, Note("id", "mark", "here"))
        note_topic(disk.folder / "journal", "kafka://broker:9092/events\n")
        other = os.open(disk.folder / "other", os.O_WRONLY | os.O_CREAT)
        try:
            os.fsync(other)  # names of before are on the disk with it, content of before is not
        finally:
            os.close(other)
        disk.cut()
        disk.power_on()
        assert (disk.folder / NOTE_FILE).read_bytes() == b'{"id":"id","folder":"mark","where":"here"}\n'
        assert read_note(disk.folder / "journal") == "kafka://broker:9092/events\n"


def test_what_a_move_brought_over_outlives_it(tmp_path: Path) -> None:
    """The old folder, on another disk, says already that the new one counts: that one needs its keys and its index."""
    if reason := loop_disk.unavailable():
        pytest.skip(reason)
    old, copied = tmp_path / "old", ("privacy-key", "progress.ring", "index/0/1.run")
    (old / "index" / "0").mkdir(parents=True)
    for name in copied:
        (old / name).write_text(name)
    with LoopDisk(tmp_path) as disk:
        new = disk.folder / "new"
        new.mkdir()
        State.begun(old, "kafka://broker:9092/events").save(new)
        FilesCopy(old, new, lambda _: None).finish()
        disk.cut()
        disk.power_on()
        assert {name: (new / name).read_text() for name in copied} == {name: name for name in copied}
        assert (new / NAME).exists()


def test_the_note_of_a_move_outlives_it(tmp_path: Path) -> None:
    """Without it, nobody could take up a move that has begun to fill a topic."""
    if reason := loop_disk.unavailable():
        pytest.skip(reason)
    with LoopDisk(tmp_path) as disk:
        State.begun(tmp_path, "kafka://broker:9092/events").save(disk.folder)
        disk.cut()
        disk.power_on()
        assert (disk.folder / NAME).exists()
