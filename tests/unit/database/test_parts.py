"""The note of the parts that a data folder has had, and what a damaged file is told as."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.database import home
from hookline.database.file_damage import damage_of, explain, marked
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseUnusable, OperationalError, engine


def test_a_database_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """Not even under load of several makers, and only after it was let go."""
    path = tmp_path / "deliver.db"
    ensure(path, "deliver")
    path.unlink()
    with pytest.raises(DatabaseUnusable, match=r"deliver\.db is missing.*hookline renew deliver\.db"):
        ensure(path, "deliver")
    assert home.missing(tmp_path) == ["deliver.db"]
    home.forget(tmp_path, "deliver.db")
    ensure(path, "deliver")
    assert home.noted(tmp_path) == {"deliver.db"}


def test_what_only_shows_the_past_is_made_anew(tmp_path: Path) -> None:
    """Figures that are gone stop nothing."""
    path = tmp_path / "insights.db"
    ensure(path, "insights")
    path.unlink()
    home.require(tmp_path)
    ensure(path, "insights")


def test_damage_is_found_and_told(tmp_path: Path) -> None:
    """A zeroed page, a halved file and one of nothing but ones are named; a lock and a whole file are not."""
    path = tmp_path / "deliver.db"
    ensure(path, "deliver")
    (tmp_path / "run").mkdir()
    whole = path.read_bytes()
    assert damage_of(path) is None
    for damaged in (b"\xff" * len(whole), whole[:4096] + bytes(len(whole) - 4096), whole[: len(whole) // 8192 * 4096]):
        path.write_bytes(damaged)
        assert damage_of(path), len(damaged)
    assert not explain(tmp_path, OperationalError("database is locked"))
    assert explain(tmp_path, engine.DatabaseError("database disk image is malformed"))
    assert [name for name, _ in marked(tmp_path, 60)] == ["deliver.db"]


def test_the_note_belongs_to_whoever_has_the_folder(tmp_path: Path) -> None:
    """Also after root has renewed a part of a service that runs as another user."""
    if os.geteuid() == 0:
        os.chown(tmp_path, 65_534, 65_534)
    home.forget(tmp_path, "deliver.db")
    owner, note = tmp_path.stat(), (tmp_path / home.PARTS_NAME).stat()
    assert (note.st_uid, note.st_gid) == (owner.st_uid, owner.st_gid)
