"""The database of people is made when somebody needs it, and then the profiles role is started."""

from __future__ import annotations

import asyncio

import pytest

from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.features.audiences import service as definition_watch
from hookline.features.audiences.service import MARK, DefinitionWatch
from tests.unit.control.running import Running


def test_it_is_made_with_the_first_definition(control_on_both: Running) -> None:
    """Not before; and a file in the data folder says so to the supervisor, wherever the database is."""
    watch = DefinitionWatch(control_on_both.settings, control_on_both.services.store)
    database = ReadOnly(location_of(control_on_both.settings, "profiles"))
    watch.look()
    marks = [control_on_both.data_path / name for name in ("profiles.db", MARK)]
    assert not any(mark.exists() for mark in marks)
    body = {"id": "buyers", "name": "Buyers", "destinations": [], "condition": {"event": "Order"}}
    assert control_on_both.api("POST", "/audiences", body).status == 201
    watch.look()
    assert [mark.exists() for mark in marks].count(True) == 1
    assert database.open() is not None
    database.close()


def test_what_keeps_it_from_being_made_is_synced_once(
    control: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often it is tried, and that it worked in the end."""
    monkeypatch.setattr(definition_watch, "POLL_SECONDS", 0.01)
    leftover = control.data_path / "profiles.db-wal"
    leftover.touch()
    body = {"id": "buyers", "name": "Buyers", "destinations": [], "condition": {"event": "Order"}}
    assert control.api("POST", "/audiences", body).status == 201
    watch, looks = DefinitionWatch(control.settings, control.services.store), 0
    look = watch.look

    def counted() -> None:
        nonlocal looks
        if (looks := looks + 1) == 5:
            leftover.unlink()
        look()

    monkeypatch.setattr(watch, "look", counted)
    asyncio.run(watch.run_forever())
    told = capsys.readouterr().out
    assert (looks, told.count("profiles_not_made"), told.count("profiles_made")) == (5, 1, 1)
