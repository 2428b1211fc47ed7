"""A destination whose settings cannot be used: what people see of it says so, not that its receiver is away."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hookline.cli.commands import execute
from tests.unit.control.running import TOKEN, Running
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.features.accounts.test_access import sign_in


def test_a_missing_secret_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the API, the command line and the pages; an answer from before is not what the receiver does now."""
    (tmp_path / "run").mkdir()
    with closing(Rig(tmp_path)) as rig:
        rig.change(source(), destination("crm"))
        rig.start()
        rig.append("m")
        rig.turn()
        rig.answer_all(503)
        rig.change(destination("crm", secret="env:HOOKLINE_SECRET_NOT_THERE"))
        rig.follow()
        rig.checkpoint()
        with Running(tmp_path) as control:
            (found,) = control.api("GET", "/status").json["destinations"]
            assert found["state"] == "unreachable"
            assert "nothing is sent, because the environment variable HOOKLINE_SECRET_NOT_THERE" in found["unusable"]
            assert execute(["status", "--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN]) == 1
            assert f"■ crm: {found['unusable']}" in capsys.readouterr().out
            session = sign_in(control)
            for page in ("/destinations", "/destinations/crm"):
                shown = control.call("GET", page, headers=session, token=False).text
                assert "HOOKLINE_SECRET_NOT_THERE is not set" in shown
            changed = control.api("PATCH", "/destinations/crm", {"settings": {"sharedSecret": "plain"}})
            assert changed.status == 200
            assert control.api("GET", "/destinations/crm/metrics").json["unusable"] is None
