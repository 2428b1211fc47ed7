"""`hookline attempts` and `retry-now`: as lines of text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.cli.admin_api import AdminApi, CommandFailed
from hookline.features.insights.cli import print_attempt, print_attempts, try_now
from tests.unit.control.running import TOKEN, Running
from tests.unit.deliver.rig import Rig, destination, source


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminApi]:
    """A server whose deliver has failed with one event and delivered another."""
    (tmp_path / "run").mkdir()
    rig = Rig(tmp_path)
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m1", "m2")
    rig.turn()
    rig.answer(rig.network.waiting[0], 503)
    rig.answer_all(200)
    rig.checkpoint()
    with Running(tmp_path) as control:
        yield AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)
    rig.close()


def test_attempts(admin: AdminApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The list, narrowed, and one of it with its request."""
    print_attempts(admin, "crm", {}, 50, as_json=True, utc=False)
    assert len(json.loads(capsys.readouterr().out)) == 2
    print_attempts(admin, "crm", {"outcome": "server_error"}, 1, as_json=False, utc=False)
    line = capsys.readouterr().out
    assert "track Order m1" in line
    assert "status 503" in line
    print_attempt(admin, "crm", line.split()[0], as_json=False)
    assert "POST https://crm.example.com/0" in capsys.readouterr().out
    print_attempts(admin, "crm", {"outcome": "timed_out"}, 50, as_json=False, utc=False)
    assert capsys.readouterr().out == "there are none\n"


def test_retry_now(admin: AdminApi, capsys: pytest.CaptureFixture[str]) -> None:
    """What waits is tried; what does not is said."""
    try_now(admin, "crm", "m1", None, as_json=False)
    assert "m1 is tried now" in capsys.readouterr().out
    with pytest.raises(CommandFailed, match="was delivered to crm at"):
        try_now(admin, "crm", "m2", "website", as_json=True)
