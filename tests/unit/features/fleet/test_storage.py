"""What an installation takes of disks."""

from __future__ import annotations

from pathlib import Path

from hookline.database.location import Schema
from hookline.database.open import ensure
from hookline.features.fleet.storage import DATABASES, FOLDERS, storage_of
from hookline.settings import Database, Settings
from tests.postgres import PostgresServer


def test_parts_are_measured_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    """Files in folders of folders, and the log of a database; what is not there takes nothing."""
    (tmp_path / "journal" / "0").mkdir(parents=True)
    (tmp_path / "files" / "lake").mkdir(parents=True)
    for path in ("journal/0/a.segment", "journal/b.segment", "files/lake/a.jsonl", "control.db", "control.db-wal"):
        (tmp_path / path).write_bytes(b"x" * 8_192)
    found = {part.name: part.bytes for part in storage_of(Settings(data_dir=str(tmp_path))).parts}
    assert list(found) == [*FOLDERS, *(f"{which}.db" for which in DATABASES)]
    assert (found["journal"], found["control.db"], found["index"]) == (16_384, 16_384, 0)
    assert found["files"] == 8_192


def test_space_that_is_only_promised_is_not_taken(tmp_path: Path) -> None:
    """A sparse file counts with what is written of it; what is free is more than nothing."""
    (tmp_path / "index").mkdir()
    with (tmp_path / "index" / "run").open("wb") as file:
        file.truncate(2**30)
    storage = storage_of(Settings(data_dir=str(tmp_path)))
    assert {part.name: part.bytes for part in storage.parts}["index"] < 2**20
    assert storage.free_bytes > 0


def test_schemas_are_measured_where_they_are(tmp_path: Path, postgres: PostgresServer) -> None:
    """In PostgreSQL a part is a schema: its tables and indexes; one that is not made yet takes nothing."""
    with postgres.database() as url:
        ensure(Schema(url, "deliver"), "deliver")
        parts = storage_of(Settings(data_dir=str(tmp_path), database=Database(url=url))).parts
    found = {part.name: part.bytes for part in parts}
    assert found["hookline_deliver"] > 0
    assert found["hookline_control"] == 0
