"""Whether files could be written is found out with a file that is gone again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.kinds.sink import SinkFailed, check_sink
from tests.unit.kinds.files.place import context, event, folder_sink

MODULE = "hookline.kinds.files.sink"
SETTINGS = {"where": "folder", "format": "ndjson", "compression": "zstd"}


def test_a_folder_is_as_before(tmp_path: Path) -> None:
    """One that was not there is not there afterwards, and one with files keeps them and nothing else."""
    new = tmp_path / "files" / "new"
    check_sink(MODULE, context(new, "new"), {**SETTINGS, "prefix": "a/b"})
    assert not new.exists()
    folder_sink(tmp_path / "lake").write([event(1)])
    before = sorted((tmp_path / "lake").rglob("*"))
    check_sink(MODULE, context(tmp_path / "lake"), SETTINGS)
    assert sorted((tmp_path / "lake").rglob("*")) == before


def test_files_of_others_stay(tmp_path: Path) -> None:
    """Whatever somebody else has put below the folder is left alone."""
    note = tmp_path / "lake" / "a" / "note.txt"
    note.parent.mkdir(parents=True)
    note.write_text("mine")
    check_sink(MODULE, context(tmp_path / "lake"), {**SETTINGS, "prefix": "a"})
    assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file()] == [note]


def test_the_place_of_another_destination_is_named(tmp_path: Path) -> None:
    """Before anything is saved, and nothing is written there."""
    folder_sink(tmp_path, "other")
    with pytest.raises(SinkFailed, match="'other' writes its files there; choose another prefix"):
        check_sink(MODULE, context(tmp_path), SETTINGS)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """With the words of the system."""
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(SinkFailed, match="the folder cannot be written: Not a directory"):
        check_sink(MODULE, context(tmp_path / "lake"), SETTINGS)
