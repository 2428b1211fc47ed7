"""Where a data folder was: a copy is refused while its original works, and at no other time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hookline.database.home import SLACK_NS, note_ends, read_ends, read_home, refuse_copy, settle
from hookline.database.sqlite import DatabaseUnusable


def test_a_copy_is_refused_while_the_lock_is_held(tmp_path: Path) -> None:
    """Not because the number in it has become that of another installation's process."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    settle(original)
    with subprocess.Popen([sys.executable, "-c", "input()", "hookline"], stdin=subprocess.PIPE) as another:
        (original / "lock").write_text(str(another.pid))
        shutil.copytree(original, copy)
        refuse_copy(copy)
        another.communicate(b"\n")
    with (original / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DatabaseUnusable, match="is a copy of"):
            refuse_copy(copy)


def test_the_note_of_a_journal_that_was_put_back_is_not_believed(tmp_path: Path) -> None:
    """Neither one that was copied, nor one that was written over where it stands."""
    (tmp_path / "journal").mkdir()
    note_ends(tmp_path, {0: 7})
    assert read_ends(tmp_path) == {0: 7}
    note = tmp_path / "journal" / "ends"
    older = shutil.copy2(note, tmp_path / "older")
    note_ends(tmp_path, {0: 9})
    Path(older).replace(note)
    assert read_ends(tmp_path) is None
    note_ends(tmp_path, {0: 9})
    note.unlink()
    assert read_ends(tmp_path) is None


def test_a_slow_disk_makes_no_folder_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is noted is believed, though the disk took longer to keep it than a copy may differ."""
    (tmp_path / "journal").mkdir()
    monkeypatch.setattr(os, "fsync", lambda fd: time.sleep(1.25 * SLACK_NS / 1e9))
    home = settle(tmp_path)
    assert read_home(tmp_path) == (home, True)
    note_ends(tmp_path, {0: 7})
    assert read_ends(tmp_path) == {0: 7}
