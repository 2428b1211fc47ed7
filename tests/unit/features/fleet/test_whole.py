"""Whether every role of a machine works, out of what they report."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from hookline import roles
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.fleet.service import REPORT_SECONDS_MAX, WORKING, Whole, WholeMachine, asks_for_all
from hookline.telemetry.metrics import PROCESS_ID, PROCESS_STANDING_BY, Role, publish


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder where collect and deliver have just reported."""
    (tmp_path / "run").mkdir()
    for role in ("collect", "deliver"):
        publish(tmp_path / "run", role, {})
    return tmp_path


def look(folder: Path, later_seconds: float = 0, is_supervised: bool = True, own: str = WORKING) -> Whole:
    """What is answered, so much later."""
    metrics = RoleMetrics(folder)
    return WholeMachine(folder, metrics, is_supervised, lambda: time.time() + later_seconds).look(own)


def test_every_role_works(folder: Path) -> None:
    """All that a supervisor runs have reported and have no trouble; profiles counts once people are kept."""
    assert look(folder) == Whole("ready", dict.fromkeys(roles.ROLES, WORKING))
    (folder / "profiles.wanted").touch()
    assert look(folder).roles["profiles"] == "not_reporting"
    assert not look(folder).is_ready


def test_what_keeps_a_role_from_its_work(folder: Path) -> None:
    """An old report, a trouble of its own, one that never reported, and control itself."""
    publish(folder / "run", "deliver", {}, {"never": False, "database_away": True})
    assert look(folder) == Whole("not_ready", {"collect": WORKING, "deliver": "database_away", "control": WORKING})
    for later_seconds in (REPORT_SECONDS_MAX + 1, -3_600):  # the latter where the clock was set back since
        assert look(folder, later_seconds).roles["collect"] == "not_reporting"
    (folder / "run" / "metrics-deliver.json").unlink()
    assert look(folder).roles["deliver"] == "not_reporting"
    assert not look(folder, own="not_ready").is_ready


def test_a_role_that_has_ended_does_not_work(folder: Path) -> None:
    """Its report is a moment old; alone in a container the number of its process means nothing here."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    path = folder / "run" / "metrics-deliver.json"
    path.write_bytes(msgspec.json.encode({PROCESS_ID: gone.pid}))
    assert look(folder).roles["deliver"] == "not_reporting"
    assert look(folder, is_supervised=False).roles["deliver"] == WORKING


def test_standing_by_is_no_trouble(folder: Path) -> None:
    """Another machine has its turn: nothing is broken here."""
    publish(folder / "run", "profiles", {PROCESS_STANDING_BY: 1})
    assert look(folder, own="standing_by").is_ready


def test_roles_started_alone_count_once_they_reported(folder: Path) -> None:
    """Without a supervisor nobody else says which there ought to be."""
    (folder / "run" / "metrics-deliver.json").unlink()
    assert look(folder, is_supervised=False) == Whole("ready", {"collect": WORKING, "control": WORKING})


def test_the_question_and_the_names() -> None:
    """`?all` in all its spellings; the roles are those that report."""
    assert [asks_for_all(query) for query in (b"all", b"all=", b"x=1&all=1", b"", b"small")] == [True] * 3 + [False] * 2
    assert {*roles.ROLES, *roles.ROLES_WITH_A_FILE} == set(get_args(Role))
