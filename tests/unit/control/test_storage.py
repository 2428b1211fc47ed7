"""What the data folder takes of the disk."""

from __future__ import annotations

from pathlib import Path

from hookline.control.storage import PARTS, storage_of


def test_parts_are_measured_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    """Files in folders of folders, and the log of a database; what is not there takes nothing."""
    (tmp_path / "journal" / "0").mkdir(parents=True)
    for path in ("journal/0/a.segment", "journal/b.segment", "control.db", "control.db-wal"):
        (tmp_path / path).write_bytes(b"x" * 8_192)
    found = {part.name: part.bytes for part in storage_of(tmp_path).parts}
    assert list(found) == list(PARTS)
    assert (found["journal"], found["control.db"], found["index"]) == (16_384, 16_384, 0)


def test_space_that_is_only_promised_is_not_taken(tmp_path: Path) -> None:
    """A sparse file counts with what is written of it; what is free is more than nothing."""
    (tmp_path / "index").mkdir()
    with (tmp_path / "index" / "run").open("wb") as file:
        file.truncate(2**30)
    storage = storage_of(tmp_path)
    assert {part.name: part.bytes for part in storage.parts}["index"] < 2**20
    assert storage.free_bytes > 0
